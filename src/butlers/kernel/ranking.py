"""Rank memories: fuse two rankings, let scores decay over time, and break every tie."""

import math
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from butlers.errors import InvalidInput

K = 60
"""How far below the first ranks a rank still counts; the customary constant."""

Id = TypeVar("Id", bound=Hashable)


class Fused(NamedTuple, Generic[Id]):
    """A result of either search, with its rank in both."""

    id: Id
    rrf_score: float
    semantic_rank: int
    keyword_rank: int


def rrf_score(*ranks: int, k: int = K) -> float:
    """What the ranks, counted from 1, are worth together."""
    return sum(1 / (k + rank) for rank in ranks)


def reciprocal_rank_fusion(
    semantic: Sequence[Id], keyword: Sequence[Id], limit: int, k: int = K
) -> list[Fused[Id]]:
    """Everything in the first `limit` of either ranking, best first.

    What one ranking lacks has rank `limit + 1` there; equal scores go by semantic rank. There
    may be more than `limit` results: the caller cuts, after its own filters.
    """
    semantic_ranks, keyword_ranks = _ranks(semantic[:limit]), _ranks(keyword[:limit])
    missing = limit + 1
    fused = []
    for id_ in semantic_ranks | keyword_ranks:
        near, match = semantic_ranks.get(id_, missing), keyword_ranks.get(id_, missing)
        fused.append(Fused(id_, rrf_score(near, match, k=k), near, match))
    return sorted(fused, key=lambda one: (-one.rrf_score, one.semantic_rank, one.keyword_rank))


def _ranks(ids: Sequence[Id]) -> dict[Id, int]:
    """Each id's rank from 1; an id listed twice keeps its better one."""
    return {id_: rank for rank, id_ in reversed(list(enumerate(ids, start=1)))}


def days_between(earlier: datetime, later: datetime) -> float:
    """The days from one instant to another; an instant still to come is no days ago."""
    return max(0.0, (later - earlier) / timedelta(days=1))


def exponential(rate: float, days: float) -> float:
    """The part left, from 1 down to 0, when `rate` of it goes each day."""
    return math.exp(-rate * max(0.0, days))


def half_life(days: float, half_life_days: float) -> float:
    """The part left, from 1 down to 0, when half of it goes every `half_life_days`."""
    if half_life_days <= 0:
        raise InvalidInput(f"half_life_days must be more than 0, not {half_life_days}.")
    return exponential(math.log(2) / half_life_days, days)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def best_first(score: float, created_at: datetime, id: UUID | str) -> tuple[float, timedelta, str]:
    """A key for `sorted`: score descending, then `created_at` descending, then id ascending.

    No two memories are equal in it, so the same rows give the same order. A score that is not
    a number comes last.
    """
    return (math.inf if math.isnan(score) else -score, _EPOCH - created_at, str(id))
