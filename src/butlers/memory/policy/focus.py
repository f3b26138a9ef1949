"""Select the few memories that a prompt gets: what clearly bears on it, decisions first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np
from rapidfuzz import fuzz

from butlers.memory.candidates import Numbers
from butlers.memory.model import MemoryRef, PieceKind
from butlers.memory.policy.ranker import Ranked

MOST_LINES = 5
"""How many memories one prompt gets at most."""
LEAST_BEST = 0.16
"""Where not even the best memory is so likely to bear on a prompt, it gets none."""
_LEAST, _LEAST_SHARE = 0.12, 0.3
"""Less likely memories are left out: less than this, or less than this share of the best."""
# The log-odds that a memory bears on a prompt, by few numbers that mean the same in every store:
# how near it is, how much of the prompt's words it has, how rare the rarest of them is, and how far
# its score lies behind the best. Learned on the months of the bench, each tried with what the other
# taught.
_BIAS, _NEARNESS, _COVERED, _RAREST, _BEHIND = -4.85, 2.5, 1.8, 3.5, -1.6
_FAR_BEHIND = 6.0
# Where there is no vector, words decide.
_UNKNOWN_NEARNESS = 0.45
_LEAST_NEAR = 0.04
_SESSIONS = 2
"""Of so many sessions the decisions come along."""
_QUOTED = 90
"""A text of which a decision says so many percent is left out beside it."""
_DECISION, _FIRST, _OTHER = 800, 640, 400
"""Characters of a decision, of the first line and of others."""


@dataclass(frozen=True, slots=True)
class Focused:
    """A memory that a prompt may get: its relevance, its text, the session it is a piece of."""

    ref: MemoryRef
    relevance: float
    text: str
    session_id: UUID | None = None
    piece: str | None = None
    until: datetime | None = None
    """Until when it held, if a later memory makes it past."""

    @property
    def id(self) -> UUID:
        """The id of the memory."""
        return self.ref.id


def bearing_on_prompt(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Select what is likely to bear on a prompt, the likeliest first; often nothing.

    The likelihood replaces the relevance to a question, which supposes that something is asked.
    """
    likely = likelihoods(ranked).tolist() if ranked else []
    known = [one._replace(relevance=likely[number]) for number, one in enumerate(ranked)]
    return sorted(likely_enough(known), key=lambda one: -one.relevance)


def likely_enough(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Leave out what is not likely enough, or much less likely than the best."""
    best = max((one.relevance for one in ranked), default=0.0)
    least = max(_LEAST, _LEAST_SHARE * best) if best >= LEAST_BEST else 1.0
    return [one for one in ranked if one.relevance >= least]


def likelihoods_by_ref(ranked: Sequence[Ranked]) -> dict[MemoryRef, float]:
    """Return how likely each memory bears on the prompt."""
    likely = likelihoods(ranked).tolist() if ranked else []
    return {one.ref: likely[number] for number, one in enumerate(ranked)}


def is_near(likelihood: float) -> bool:
    """Whether a memory comes near a prompt: a decision then comes with a piece of its session."""
    return likelihood >= _LEAST_NEAR


def likelihoods(ranked: Sequence[Ranked]) -> Numbers:
    """Return how likely each memory bears on the prompt."""
    columns, numbers = ranked[0].columns, [one.number for one in ranked]
    scores = np.sum(list(ranked[0].added.values()), axis=0)[numbers]
    weights = columns.header.weights
    has = columns.impacts[:, numbers] > 0
    near = columns.similarities[numbers]
    near = np.nan_to_num(near) if np.isfinite(near).any() else np.full(len(near), _UNKNOWN_NEARNESS)
    covered = (weights @ has) / (weights.sum() or 1.0)
    rarest = (has * weights[:, None]).max(axis=0, initial=0.0) / np.log1p(columns.header.total + 1)
    behind = np.minimum(scores.max() - scores, _FAR_BEHIND) / _FAR_BEHIND
    odds = _BIAS + _NEARNESS * near + _COVERED * covered + _RAREST * rarest + _BEHIND * behind
    return np.asarray(1 / (1 + np.exp(-odds)))


def leading_sessions(memories: Sequence[Focused]) -> list[UUID]:
    """Return the sessions that the first pieces are of."""
    sessions = (one.session_id for one in memories if one.piece and one.session_id)
    return list(dict.fromkeys(sessions))[:_SESSIONS]


def in_order(
    memories: Sequence[Focused], decisions: Mapping[UUID, Sequence[Focused]]
) -> list[Focused]:
    """Put the decisions of a session before its first piece; leave out what they quote.

    `decisions` has what is settled in each session now.
    """
    chosen: dict[UUID, Focused] = {}
    for memory in memories:
        for decision in decisions.get(memory.session_id, ()) if memory.session_id else ():
            chosen.setdefault(decision.id, decision)
        if memory.id not in chosen and not _is_quoted(memory, chosen.values()):
            chosen[memory.id] = memory
    return list(chosen.values())[:MOST_LINES]


def length_of(one: Focused, order: int) -> int:
    """Return how many characters of a memory are shown."""
    if one.piece == PieceKind.DECISION:
        return _DECISION
    return _FIRST if order < 2 else _OTHER


def _is_quoted(memory: Focused, chosen: Iterable[Focused]) -> bool:
    return any(
        other.piece == PieceKind.DECISION and fuzz.partial_ratio(memory.text, other.text) >= _QUOTED
        for other in chosen
    )
