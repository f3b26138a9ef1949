"""Reciprocal rank fusion: one ranking out of two that measure different things."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

K = 60
"""How far below the first ranks a rank still counts; the customary constant."""

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True)
class Fused(Generic[Id]):
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
    ranked = [
        (id_, semantic_ranks.get(id_, missing), keyword_ranks.get(id_, missing))
        for id_ in semantic_ranks | keyword_ranks
    ]
    fused = [Fused(id_, rrf_score(near, match, k=k), near, match) for id_, near, match in ranked]
    return sorted(fused, key=lambda one: (-one.rrf_score, one.semantic_rank, one.keyword_rank))


def _ranks(ids: Sequence[Id]) -> dict[Id, int]:
    """Each id's rank from 1; an id listed twice keeps its better one."""
    return {id_: rank for rank, id_ in reversed(list(enumerate(ids, start=1)))}
