"""What a look into the index brings: what is known of a question, and what may answer it."""

from collections.abc import Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from butlers.memory.model import MemoryType

Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Header:
    """What the index knows of a question before anything is found.

    `total` is exact for tenants that are read whole, and what was known last for larger ones;
    `stale` says that the asker's memo of the tenant is. A word that no memory has counts as those
    that stand in for it do.
    """

    stale: bool
    words: list[str]
    bare_words: list[str]
    counts: list[int]
    weights: Numbers
    """How much each of the question's words tells: the fewer memories have it, the more."""
    total: int
    has_low: bool = False
    """Whether the tenant has memories of low trust, which are found apart."""


@dataclass(frozen=True, slots=True)
class CandidateColumns:
    """What a look into the index brought: of each thing that is known of the candidates, a list.

    A place counts from 1 within the best by meaning or by words; None where it is not among them.
    A similarity is no number where there is nothing to compare.
    """

    header: Header
    kinds: list[str]
    ids: list[UUID]
    said_at: list[datetime]
    session_ids: list[UUID | None]
    places: list[int | None]
    authors: list[str | None]
    near_places: list[int | None]
    word_places: list[int | None]
    lengths: Numbers
    similarities: Numbers
    bare_similarities: Numbers
    impacts: Numbers
    """Word by candidate: how much of it a candidate is; 0 where it lacks the word."""

    @property
    def ranks(self) -> Numbers:
        """How well each matches the question's words."""
        return np.asarray(self.header.weights @ self.impacts)

    def only(self, *kinds: MemoryType) -> "CandidateColumns":
        """Return the candidates of some kinds."""
        return self._kept([number for number, own in enumerate(self.kinds) if own in kinds])

    def without(self, ids: Set[UUID]) -> "CandidateColumns":
        """The same without some of them."""
        return self._kept([number for number, id in enumerate(self.ids) if id not in ids])

    def _kept(self, kept: list[int]) -> "CandidateColumns":
        columns: dict[str, Any] = {}
        for name in self.__slots__[1:]:
            values = getattr(self, name)
            is_array = isinstance(values, np.ndarray)
            columns[name] = values[..., kept] if is_array else [values[number] for number in kept]
        return replace(self, **columns)
