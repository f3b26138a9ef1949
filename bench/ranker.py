"""Learn the ranker's weights, and show what they are worth on kinds of store they never saw.

    python -m bench ranker --data DIR [--write]

Trained on FriendsQA and RealMem (both Apache-2.0; DIR as for `quality`) and on the stores of this
repository: long assistant chats, bare facts and rules, coding notes. LoCoMo and BEAM only measure.
Every signal is computed by the product itself, from what it finds in a real database. Each kind
counts by itself, however many questions it has; copies in which nothing is told of sessions,
speakers and most of the question's words are hidden keep the weights from leaning on one leg.

Whether a store answers is learned from its own questions, each by how much of its answer is found
at all, against those of strangers, asked as the store grows as its own are; for few candidates,
from small stores cut out of the same ones. What is told beside a question is what a person says
next: memories that come to mind are missed more there than unneeded ones disturb, so such
questions count for more. So do those of small stores: who has just told something expects to find
it. The set `few`, written by hand, is never learned from.

`--write` puts the weights into the product; without it they are compared with those there.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bench import sets
from bench.learning import Example, Numbers, fit_answers, fit_ranker
from bench.seen import DEPTH, TRAINED, Asked, Kind, Seen, see_all
from butlers.kernel import ranking
from butlers.memory.policy import ranker
from butlers.memory.policy.signals import Signals

# How sure it must be that a store answers: one cut for all, chosen on the dev sets of `quality`.
LEAST_ANSWERS = 0.44
RIDGE, FLAT_COUNTS = 1e-3, 0.3
# Conversation is what is remembered most; everything else counts the same.
COUNTS = {"friendsqa": 1.5}
# How much more a question counts that asks nothing, and a small store's own beside a stranger's.
TOLD_COUNTS, OWN_OF_FEW_COUNTS = 3.0, 2.0
ROUNDING = 0.02
Taken: TypeAlias = Callable[[Signals, Numbers], dict[str, float]]
"""What is taken from a list of candidates and their scores."""


class Case(NamedTuple):
    """A question, whether its store answers it, and how much it counts."""

    seen: Seen
    answered: float
    counts: float


def main(arguments: Sequence[str]) -> int:
    """Learn, print the tables; fail where the weights of the product are others."""
    parser = argparse.ArgumentParser(
        prog="python -m bench ranker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("bench/data"))
    parser.add_argument("--write", action="store_true", help="put the weights into the product")
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        print(f"no data at {options.data}: nothing is learned. See bench/README.md")
        return 0
    kinds = asyncio.run(see_all(options.data))
    learned = learn({name: kinds[name] for name in TRAINED})
    _show(kinds, learned)
    return _keep(learned, write=options.write)


def learn(kinds: Mapping[str, Kind]) -> ranker.Weights:
    """Weights from these kinds of store."""
    examples = [
        example
        for name, kind in kinds.items()
        for seen, counts in ((kind.whole.own, 1.0), (kind.flat, FLAT_COUNTS))
        for example in _examples(seen, counts * COUNTS.get(name, 1.0))
    ]
    names = list(next(iter(kinds.values())).whole.own[0].found.by_name)
    fitted = fit_ranker(examples, RIDGE)
    rounded = {name: round(value, 4) for name, value in zip(names, fitted.tolist(), strict=True)}
    ungated = ranker.Weights(rounded, {}, {}, 0.0)
    many = [case for kind in kinds.values() for case in _cases(kind.whole, ungated)]
    few = [
        case
        for kind in kinds.values()
        for asked in kind.small.values()
        for case in _cases(asked, ungated, OWN_OF_FEW_COUNTS)
    ]
    return replace(
        ungated,
        answers=_learn_answers(many, ranker.numbers_of_many, fitted),
        answers_of_few=_learn_answers(few, ranker.numbers_of_few, fitted),
        least_answers=LEAST_ANSWERS,
    )


def _learn_answers(cases: Sequence[Case], numbers: Taken, fitted: Numbers) -> dict[str, float]:
    taken = [numbers(case.seen.found, case.seen.matrix @ fitted) for case in cases]
    rows = np.array([list(one.values()) for one in taken])
    answered = np.array([case.answered for case in cases])
    counts = np.array([case.counts for case in cases])
    slopes, bias = fit_answers(rows, answered, counts / counts[answered == 0].sum() / 2, RIDGE)
    known = dict(zip(taken[0], slopes.tolist(), strict=True)) | {"bias": bias}
    return {name: round(value, 4) for name, value in known.items()}


def _examples(seen: Sequence[Seen], counts: float) -> list[Example]:
    good = [one for one in seen if one.gold.any()]
    return [Example(one.matrix, one.gold, counts / len(good)) for one in good]


def _cases(asked: Asked, ungated: ranker.Weights, own_counts: float = 1.0) -> list[Case]:
    """Questions, own and strangers', each side as much as its kind and size of store counts."""
    found = [_ranked(one, ungated) for one in asked.own]
    return [
        *(
            Case(one, 1.0, own_counts * part / sum(found) * (1 + TOLD_COUNTS * one.found.told))
            for one, part in zip(asked.own, found, strict=True)
        ),
        *(Case(one, 0.0, 1 / len(asked.foreign)) for one in asked.foreign),
    ]


def _show(kinds: Mapping[str, Kind], learned: ranker.Weights) -> None:
    print(f"\n{'kind':<10} {'plain':>6} {'ranked':>7} {'left out':>9} {'gated':>6} {'foreign':>8}")
    for name, kind in kinds.items():
        rest = {other: kinds[other] for other in TRAINED if other != name}
        without = learn(rest) if name in TRAINED else learned
        own = kind.whole.own
        print(
            f"{name:<10} {_mean([_plain(one) for one in own]):6.1f}"
            f" {_mean([_ranked(one, learned) for one in own]):7.1f}"
            f" {_mean([_ranked(one, without) for one in own]):9.1f}{_gated(kind.whole, learned)}"
        )
    print(f"\n{'memories':<10} {'ranked':>14} {'gated':>16} {'foreign':>8}")
    for size in dict.fromkeys(sets.PARTS):
        some = [kinds[name].small[size] for name in TRAINED]
        own = [seen for one in some for seen in one.own]
        asked = Asked(own, [seen for one in some for seen in one.foreign])
        ranked = _mean([_ranked(one, learned) for one in asked.own])
        print(f"{size:<10} {ranked:14.1f}{'':>10}{_gated(asked, learned)}")


def _gated(asked: Asked, learned: ranker.Weights) -> str:
    foreign = [_ranking(one, learned).answers >= LEAST_ANSWERS for one in asked.foreign]
    own = _mean([_ranked(one, learned, gated=True) for one in asked.own])
    return f" {own:6.1f} {100 * float(np.mean(foreign)):7.1f}%"


def _plain(one: Seen) -> float:
    """Recall@10 of both legs fused as they came."""
    numbers, ranks = range(len(one.gold)), one.sight.columns.ranks
    similarities = np.nan_to_num(one.sight.columns.similarities)
    near = sorted(numbers, key=lambda n: -similarities[n])[:50]
    match = sorted((n for n in numbers if ranks[n] > 0), key=lambda n: -ranks[n])[:50]
    fused = ranking.reciprocal_rank_fusion(near, match, 50)
    return float(one.gold[[found.id for found in fused[:10]]].sum()) / one.of


def _ranked(one: Seen, learned: ranker.Weights, *, gated: bool = False) -> float:
    """Recall@10 as the product ranks: of search, or gated, of recall."""
    ranked = _ranking(one, learned).ranked
    kept = [r.number for r in ranked if not gated or r.relevance > 0]
    return float(one.gold[kept[:10]].sum()) / one.of


def _ranking(one: Seen, learned: ranker.Weights) -> ranker.Ranking:
    return ranker.ranking(one.sight.columns, one.found, learned, DEPTH)


def _mean(values: Sequence[float]) -> float:
    return 100 * float(np.mean(values))


def _keep(learned: ranker.Weights, *, write: bool) -> int:
    known = {name: getattr(learned, name) for name in ranker.Weights.__slots__}
    if write:
        ranker.WEIGHTS.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        print(f"\nwritten to {ranker.WEIGHTS.name}")
        return 0
    same = all(_alike(known[name], getattr(ranker.weights(), name)) for name in known)
    print("\nthe product's weights are these" if same else "\nthe product's weights are others")
    return 0 if same else 1


def _alike(one: Any, other: Any) -> bool:
    """Whether two weights, or two tables of them, differ only as machines do."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    return abs(one - other) <= ROUNDING * max(1.0, abs(one))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
