"""The scores that a search returns with its results."""

import math
from collections.abc import Sequence
from typing import Any

from butlers.memory.candidates import CandidateColumns
from butlers.memory.model import MemoryRef, MemoryType
from butlers.memory.policy.ranker import Ranked, highest_rank


def fused_scores(one: Ranked) -> dict[str, Any]:
    """Return the scores of a ranked candidate, and its ranks by meaning and by words."""
    near, words = map(float, (one.columns.similarities[one.number], one.columns.ranks[one.number]))
    return {
        "rrf_score": one.rrf_score,
        "semantic_rank": one.semantic_rank,
        "keyword_rank": one.keyword_rank,
        "relevance": one.relevance,
        **({} if math.isnan(near) else {"similarity": near}),
        **({"rank": words} if words > 0 else {}),
        "signals": one.signals,
    }


def by_meaning(columns: CandidateColumns) -> dict[MemoryRef, dict[str, Any]]:
    """Return the scores of candidates in the order of their similarity."""
    near = columns.similarities.tolist()
    return {
        ref: {"similarity": near[n], "relevance": max(near[n], 0.0)}
        for n, ref in _in_order(columns, columns.near_places)
    }


def by_words(columns: CandidateColumns) -> dict[MemoryRef, dict[str, Any]]:
    """Return the scores of candidates in the order of their rank; 1 is every word in full."""
    highest, ranks = highest_rank(columns.header), columns.ranks.tolist()
    return {
        ref: {"rank": ranks[n], "relevance": min(ranks[n] / highest, 1.0)}
        for n, ref in _in_order(columns, columns.word_places)
    }


def _in_order(
    columns: CandidateColumns, places: Sequence[int | None]
) -> list[tuple[int, MemoryRef]]:
    """Return the number and the memory of each candidate that has a place, by it."""
    numbers = sorted((place, n) for n, place in enumerate(places) if place is not None)
    return [(n, MemoryRef(MemoryType(columns.kinds[n]), columns.ids[n])) for _, n in numbers]
