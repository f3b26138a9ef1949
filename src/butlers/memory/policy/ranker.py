"""Rank the candidates of a query, and score them by importance, recency and confidence."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from butlers.kernel.ranking import Fused, K, days_between, half_life, reciprocal_rank_fusion
from butlers.memory.candidates import CandidateColumns, Header, Numbers
from butlers.memory.model import MemoryRef, MemoryType
from butlers.memory.policy.signals import MANY, Field, Signals
from butlers.memory.settings import ScoreWeights

RECENCY_HALF_LIFE_DAYS = 7.0
_MOST_IMPORTANT = 10.0
DEFAULT_IMPORTANCE = 5.0
"""The importance of a rule, which has none of its own."""


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """Why a memory was recalled: each part between 0 and 1, before weighting."""

    relevance: float
    importance: float
    recency: float
    confidence: float

    def composite(self, weights: ScoreWeights) -> float:
        """The parts weighed and added."""
        return (
            weights.relevance * self.relevance
            + weights.importance * self.importance
            + weights.recency * self.recency
            + weights.confidence * self.confidence
        )


def score_parts(relevance: float, row: Mapping[str, Any], now: datetime) -> ScoreParts:
    """Score a memory; an episode counts as certain, a rule as of middling importance.

    Recency is 1 for what is used now, half of it after seven days, and 0 for what never was.
    """
    used_at, recency = row["last_referenced_at"], 0.0
    if used_at is not None:
        recency = half_life(days_between(used_at, now), RECENCY_HALF_LIFE_DAYS)
    return ScoreParts(
        relevance=min(1.0, max(0.0, relevance)),
        importance=min(1.0, max(0.0, row.get("importance", DEFAULT_IMPORTANCE) / _MOST_IMPORTANT)),
        recency=recency,
        confidence=row.get("effective_confidence", 1.0),
    )


HIGHEST_IMPACT = 2.2
"""What a word adds at most: the bound of its part in BM25 for k1 = 1.2."""
# How much a rule loses where a fact is asked for. By hand: no labelled store tells rules apart.
_MISPLACED = 2.0
# How fast the likelihood falls with the score: measured on labelled stores of nine kinds.
_SHARPNESS = 1.4
# Among few candidates chance would be generous to each.
_LEAST_REACH = 3.3
# Up to so many candidates, nothing can be said of the list as a whole.
_FEW = 20
# Nor where their nearness varies by less than the first of these: in a store in which everything
# answers, nothing stands out. That of what is told and noted varies by more than the second.
_ALIKE, _UNLIKE = 0.02, 0.04
# Of fewer memories, the mean is that of one of them.
_LEAST_SESSION = 3
_TINY = 1e-6
WEIGHTS = Path(__file__).with_name("ranker.json")


@dataclass(frozen=True, slots=True)
class Weights:
    """What was learned: how much each signal counts, and when a store answers."""

    signals: dict[str, float]
    answers: dict[str, float]
    answers_of_few: dict[str, float]
    """The same where the candidates are few."""
    least_answers: float
    """Below it, the store does not answer."""


@cache
def weights() -> Weights:
    """The weights this installation ships."""
    return Weights(**json.loads(WEIGHTS.read_text(encoding="utf-8")))


class Ranked(NamedTuple):
    """A ranked candidate, and why it ranks there."""

    columns: CandidateColumns
    number: int
    rrf_score: float
    semantic_rank: int
    keyword_rank: int
    relevance: float
    """How likely it answers: the likelihood that the store does, less by how far its score lies
    behind the best; 0 where it lies out of reach, or the store does not answer."""
    added: dict[str, Numbers]
    """What each signal added to the candidates' scores."""

    @property
    def ref(self) -> MemoryRef:
        """Which memory it is."""
        return MemoryRef(MemoryType(self.columns.kinds[self.number]), self.columns.ids[self.number])

    @property
    def signals(self) -> dict[str, float]:
        """What each signal added to its score."""
        return {name: float(parts[self.number]) for name, parts in self.added.items()}


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates of a question, best first, and how likely the store answers it."""

    answers: float
    ranked: list[Ranked]


def ranking(columns: CandidateColumns, found: Signals, learned: Weights, depth: int) -> Ranking:
    """Rank candidates, of which there must be some, by their signals and given weights."""
    added = {name: found.by_name[name] * weight for name, weight in learned.signals.items()}
    added["misplaced"] = -_MISPLACED * found.misplaced
    scores = np.sum(list(added.values()), axis=0)
    answers = how_likely(learned, found, scores)
    likely = answers if answers >= learned.least_answers else 0.0
    # The scores are log-odds: what is not even as likely, beside the best, as any of so many
    # candidates would be by chance, does not answer.
    behind = scores.max() - scores
    within = behind <= max(np.log1p(len(scores)), _LEAST_REACH)
    relevance = np.where(within, likely * np.exp(-_SHARPNESS * behind), 0.0).tolist()
    order = np.argsort(-scores, kind="stable").tolist()
    # The score is the ranking by meaning and by words, also of what shares no word with the
    # question, unless words are all there is to go by.
    if found.by_words:
        matches = columns.ranks > 0
        fused = reciprocal_rank_fusion(order, [n for n in order if matches[n]], depth)
    else:
        fused = [Fused(n, 2 / (K + rank), rank, rank) for rank, n in enumerate(order[:depth], 1)]
    return Ranking(answers, [Ranked(columns, *one, relevance[one.id], added) for one in fused])


def ordered_by_relevance(relevance: Sequence[float], composite: Sequence[float]) -> list[int]:
    """Order by composite score, but nothing before what is more than twice as relevant."""
    left = sorted(range(len(relevance)), key=lambda n: -relevance[n])
    order = []
    while left:
        least = relevance[left[0]] / 2
        best = max((n for n in left if relevance[n] >= least), key=lambda n: (composite[n], -n))
        left.remove(best)
        order.append(best)
    return order


def how_likely(learned: Weights, found: Signals, scores: Numbers) -> float:
    """How likely the store answers.

    How a list is spread says nothing where it is short or all are alike, so such candidates are
    judged by less; in between both count, lest one memory more turn an answer into none.
    """
    varies = (found.field.bare_similarity.std() - _ALIKE) / (_UNLIKE - _ALIKE)
    size = np.log(len(scores) / _FEW) / np.log(MANY / _FEW)
    many, odds = float(np.clip(size, 0, 1) * np.clip(varies, 0, 1)), 0.0
    for part, known, numbers in (
        (many, learned.answers, numbers_of_many),
        (1 - many, learned.answers_of_few, numbers_of_few),
    ):
        if part:
            values = {"bias": 1.0, **numbers(found, scores)}
            odds += part * sum(weight * values[name] for name, weight in known.items())
    return float(1 / (1 + np.exp(-odds)))


def numbers_of_many(found: Signals, scores: Numbers) -> dict[str, float]:
    """What the candidates as a whole say of whether the store answers."""
    given, covered = found.field, found.by_name["covered"]
    nearness = given.bare_similarity
    near = np.sort(nearness)[::-1]
    top = np.argsort(-scores, kind="stable")[:3]
    told = given.weights * given.bare
    stands_out = (nearness - nearness.mean()) / (nearness.std() + _TINY)
    return {
        "nearest": float(given.similarity.max()),
        "drop": float(near[0] - near[min(len(near) - 1, 20)]),
        "spread": float(nearness.std()),
        "skew": float((stands_out**3).mean()),
        "best_session": _best_session(stands_out, given),
        "near_and_covered": float((stands_out * covered).mean() / (covered.std() + _TINY)),
        "known": float(told[given.known].sum() / (told.sum() or 1.0)),
        "told": found.told,
        "average_length": float(np.log1p(given.lengths).mean()),
        "sure_of_best": float(-np.log(np.exp(scores - scores.max()).sum())),
        "nearness_of_best": float(nearness[top].mean()),
        "covered_by_best": float(covered[top[0]]),
    }


def _best_session(stands_out: Numbers, given: Field) -> float:
    """How far the nearest session as a whole stands out; 0 where nothing is part of one."""
    sizes = np.bincount(given.sessions)
    means = np.bincount(given.sessions, stands_out) / sizes
    whole = means[sizes >= _LEAST_SESSION]
    return float(whole.max()) if len(whole) else 0.0


def numbers_of_few(found: Signals, scores: Numbers) -> dict[str, float]:
    """What a few candidates say of it, each of the question's words counting the same.

    How rare a word is shows only among many: of a single memory, every word is in all of them.
    """
    given = found.field
    shared = (given.impacts > 0).sum(axis=0).max(initial=0)
    return {
        "nearest": float(given.similarity.max()),
        "nearness_of_best": float(given.bare_similarity[scores.argmax()]),
        "shared": float(shared / (len(given.weights) or 1)),
        "told": found.told,
        "size": float(np.log(len(scores))),
    }


def highest_rank(header: Header) -> float:
    """The rank by words of a memory that has every word of a question in full."""
    return float(header.weights.sum()) * HIGHEST_IMPACT or 1.0
