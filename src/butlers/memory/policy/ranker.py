"""Rank the candidates of a query, and score them by importance, recency and confidence."""

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from butlers.kernel.ranking import (
    days_between,
    half_life,
    reciprocal_rank_fusion,
)
from butlers.memory.candidates import CandidateColumns, Header, Numbers
from butlers.memory.model import MemoryRef
from butlers.memory.policy.question import ParsedQuestion
from butlers.memory.policy.signals import MANY, Field, Signals, field, signals
from butlers.memory.settings import ScoreWeights

RECENCY_HALF_LIFE_DAYS = 7.0
_MOST_IMPORTANT = 10.0


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


def score_parts(
    relevance: float,
    importance: float,
    last_referenced_at: datetime | None,
    confidence: float,
    now: datetime,
) -> ScoreParts:
    """The parts of a memory's score at `now`."""
    return ScoreParts(
        relevance=min(1.0, max(0.0, relevance)),
        importance=min(1.0, max(0.0, importance / _MOST_IMPORTANT)),
        recency=recency(last_referenced_at, now),
        confidence=confidence,
    )


def recency(last_referenced_at: datetime | None, now: datetime) -> float:
    """Score how recent the last use is: 0.5 after seven days, 0 where there was none."""
    if last_referenced_at is None:
        return 0.0
    days = days_between(last_referenced_at, now)
    return min(1.0, half_life(days, RECENCY_HALF_LIFE_DAYS))


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
    """0 where it does not answer, 1 where nothing could answer better."""
    added: dict[str, Numbers]
    """What each signal added to the candidates' scores."""

    @property
    def ref(self) -> MemoryRef:
        """Which memory it is."""
        return self.columns.ref(self.number)

    @property
    def signals(self) -> dict[str, float]:
        """What each signal added to its score."""
        return {name: float(parts[self.number]) for name, parts in self.added.items()}


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates of a question, best first, and how likely the store answers it."""

    answers: float
    ranked: list[Ranked]


def rank(
    columns: CandidateColumns, question: ParsedQuestion, names: Set[str], depth: int
) -> Ranking:
    """Rank the candidates of a question: by words and by meaning to a depth, both fused."""
    if not len(columns):
        return Ranking(0.0, [])
    return ranking(columns, signals(field(columns), columns, question, names), weights(), depth)


def ranking(columns: CandidateColumns, found: Signals, learned: Weights, depth: int) -> Ranking:
    """Rank candidates by their signals and given weights."""
    added = {name: found.by_name[name] * weight for name, weight in learned.signals.items()}
    added["misplaced"] = -_MISPLACED * found.misplaced
    scores = np.sum(list(added.values()), axis=0)
    answers = how_likely(learned, found, scores)
    # The learned score orders both rankings, also what shares no word with the question, unless
    # words are all there is to go by.
    order = np.argsort(-scores, kind="stable")
    by_words = order[columns.ranks[order] > 0] if found.by_words else order
    fused = reciprocal_rank_fusion(order.tolist(), by_words.tolist(), depth)
    relevance = _relevance(scores, answers if answers >= learned.least_answers else 0.0)
    return Ranking(
        answers,
        [
            Ranked(
                columns,
                one.id,
                one.rrf_score,
                one.semantic_rank,
                one.keyword_rank,
                relevance[one.id],
                added,
            )
            for one in fused
        ],
    )


def _relevance(scores: Numbers, answers: float) -> list[float]:
    """Estimate how likely each candidate answers, where the best does with this likelihood.

    The scores are log-odds: what is not even as likely, beside the best, as any of so many
    candidates would be by chance, does not answer and has 0; if the store does not, all have.
    """
    behind = scores.max() - scores
    within = behind <= max(np.log1p(len(scores)), _LEAST_REACH)
    chances: list[float] = np.where(within, answers * np.exp(-_SHARPNESS * behind), 0.0).tolist()
    return chances


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
    many = float(np.clip(size, 0, 1) * np.clip(varies, 0, 1))
    of_many = _odds(learned.answers, numbers_of_many(found, scores))
    of_few = _odds(learned.answers_of_few, numbers_of_few(found, scores))
    return float(1 / (1 + np.exp(-many * of_many - (1 - many) * of_few)))


def _odds(learned: dict[str, float], numbers: dict[str, float]) -> float:
    known = {"bias": 1.0, **numbers}
    return sum(weight * known[name] for name, weight in learned.items())


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
