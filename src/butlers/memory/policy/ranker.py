"""Which candidates answer a question, in which order, and whether any does.

A linear ranker: the weights lie in `ranker.json`, made by `python -m bench ranker`, and what each
signal added to a memory's score can be told. A second, logistic, model looks at the candidates as
a whole and says how likely the store answers the question at all.
"""

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from butlers.kernel import fusion
from butlers.memory.candidates import Header, Looked, Numbers
from butlers.memory.model import MemoryRef
from butlers.memory.policy.question import Reading
from butlers.memory.policy.signals import Signals, field, is_message, signals

HIGHEST_IMPACT = 2.2
"""What a word adds at most: the bound of its part in BM25 for k1 = 1.2."""
LEAST_RELEVANCE = 0.001
"""How relevant what answers is at least, however far down fusion puts it."""
# The background is the middle of the candidates; that of a few is no background yet.
_LEAST_MIDDLE = 30
# Among few candidates chance would be generous to each.
LEAST_REACH = 3.3
WEIGHTS = Path(__file__).with_name("ranker.json")


@dataclass(frozen=True, slots=True)
class Weights:
    """What was learned: how much each signal counts, and when a store answers."""

    signals: dict[str, float]
    answers: dict[str, float]
    answers_bias: float
    least_answers: float
    """Below it, the store does not answer."""


@cache
def weights() -> Weights:
    """The weights this installation ships."""
    return Weights(**json.loads(WEIGHTS.read_text(encoding="utf-8")))


class Ranked(NamedTuple):
    """A candidate in its place, and why it stands there."""

    looked: Looked
    number: int
    rrf_score: float
    semantic_rank: int
    keyword_rank: int
    relevance: float
    """0 where it does not answer, 1 where nothing could answer better."""
    behind: float
    """How far its score, in log-odds, is behind the best."""
    added: dict[str, Numbers]
    """What each signal added to the candidates' scores."""

    @property
    def ref(self) -> MemoryRef:
        """Which memory it is."""
        return self.looked.ref(self.number)

    @property
    def signals(self) -> dict[str, float]:
        """What each signal added to its score."""
        return {name: float(parts[self.number]) for name, parts in self.added.items()}


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates of a question, best first, and how likely the store answers it."""

    answers: float
    ranked: list[Ranked]


def rank(looked: Looked, reading: Reading, names: Set[str], depth: int) -> Ranking:
    """The candidates of a question, each leg put in order to a depth and both fused."""
    if not len(looked):
        return Ranking(0.0, [])
    found = signals(field(looked), looked, reading, names)
    return ranking(looked, found, weights(), depth)


def ranking(looked: Looked, found: Signals, learned: Weights, depth: int) -> Ranking:
    """The same from their signals, by given weights."""
    added = {name: found.by_name[name] * weight for name, weight in learned.signals.items()}
    scores = np.sum(list(added.values()), axis=0)
    answers = how_likely(learned, question_numbers(found, scores))
    fused = _fused(looked, scores, depth)
    standing = _standing(fused, scores, answered=answers >= learned.least_answers)
    behind = (scores.max() - scores).tolist()
    return Ranking(
        answers,
        [
            Ranked(
                looked,
                one.id,
                one.rrf_score,
                one.semantic_rank,
                one.keyword_rank,
                max(answers * stands, LEAST_RELEVANCE) if stands is not None else 0.0,
                behind[one.id],
                added,
            )
            for one, stands in zip(fused, standing, strict=True)
        ],
    )


def _fused(looked: Looked, scores: Numbers, depth: int) -> list[fusion.Fused[int]]:
    """Both legs in the order of the scores, fused by rank; a leg ranks all it can measure."""
    order = np.argsort(-scores, kind="stable")
    by_meaning = order[~np.isnan(looked.similarities[order])]
    by_words = order[looked.ranks[order] > 0]
    return fusion.reciprocal_rank_fusion(by_meaning.tolist(), by_words.tolist(), depth)


def _standing(
    fused: Sequence[fusion.Fused[int]], scores: Numbers, *, answered: bool
) -> list[float | None]:
    """Each fused score between the candidates' background, as 0, and the best possible, as 1.

    The scores are log-odds: what is not even as likely, beside the best, as any of so many
    candidates would be by chance, does not answer and has none; if nothing does, nothing has.
    """
    reach = max(np.log1p(len(scores)), LEAST_REACH) if answered else -1.0
    within = (scores.max() - scores <= reach).tolist()
    middle = max(len(scores) // 2, _LEAST_MIDDLE)
    background, highest = fusion.rrf_score(middle, middle), fusion.rrf_score(1, 1)
    return [
        (one.rrf_score - background) / (highest - background) if within[one.id] else None
        for one in fused
    ]


def question_numbers(found: Signals, scores: Numbers) -> dict[str, float]:
    """What the candidates as a whole say of whether the store answers."""
    given, signal = found.field, found.by_name
    near = np.sort(given.bare_similarity)[::-1]
    top = np.argsort(-scores, kind="stable")[:3]
    told = given.weights * given.bare
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    return {
        "nearest": float(given.similarity.max()),
        "nearest_three": float(near[:3].mean()),
        "drop": float(near[0] - near[min(len(near) - 1, 20)]),
        "average": float(near.mean()),
        "spread": float(near.std()),
        "known": float(told[given.known].sum() / (told.sum() or 1.0)),
        "words": float(np.log1p(len(told))),
        "message": is_message(int(given.bare.sum())),
        "average_length": float(np.log1p(given.lengths).mean()),
        "covered": float(signal["covered"].max()),
        "covered_around": float(signal["covered_around"].max()),
        "near_and_covered": float((given.bare_similarity * signal["covered"]).max()),
        "rarest": float((given.has * given.weights[:, None]).max(initial=0.0)),
        "length_of_nearest": float(np.log1p(given.lengths[given.bare_similarity.argmax()])),
        "nearness_of_best": float(given.bare_similarity[top[0]]),
        "nearness_of_best_three": float(given.bare_similarity[top].mean()),
        "covered_by_best": float(signal["covered"][top[0]]),
        "covered_by_best_three": float(signal["covered"][top].mean()),
        "covered_around_best": float(signal["covered_around"][top[0]]),
        "undecided": float(-(chances * np.log(chances + 1e-12)).sum()),
    }


def how_likely(learned: Weights, numbers: dict[str, float]) -> float:
    """How likely the store answers, from the numbers of its candidates."""
    odds = learned.answers_bias + sum(
        weight * numbers[name] for name, weight in learned.answers.items()
    )
    return float(1 / (1 + np.exp(-odds)))


def highest_rank(header: Header) -> float:
    """The rank by words of a memory that has every word of a question in full."""
    return float(header.weights.sum()) * HIGHEST_IMPACT or 1.0
