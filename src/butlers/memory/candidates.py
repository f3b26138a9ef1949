"""What a look into the index brings: what is known of a question, and what may answer it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from butlers.memory.model import MemoryRef, MemoryType


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
    total: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that may answer, and how it stands to the question.

    A place counts from 1 within the best by meaning, by meaning without names, or by words; None
    where it is not among them. `matched` numbers the question's words it has, from 1.
    """

    ref: MemoryRef
    created_at: datetime
    said_at: datetime | None
    session_id: UUID | None
    place: int | None
    author: str | None
    entity_id: UUID | None
    length: int
    similarity: float | None
    bare_similarity: float | None
    rank: float
    meaning_place: int | None
    bare_place: int | None
    words_place: int | None
    matched: list[int]
    impacts: list[float]
    places: list[int]


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look into the index brought."""

    header: Header
    candidates: list[Candidate]

    def only(self, kind: MemoryType) -> "Looked":
        """The same, of one kind alone."""
        return Looked(self.header, [one for one in self.candidates if one.ref.type is kind])
