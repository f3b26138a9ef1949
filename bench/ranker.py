"""Learn the ranker's weights, and show what they are worth on kinds of store they never saw.

    python -m bench ranker --data DIR [--write]

Trained on FriendsQA and RealMem (both Apache-2.0; DIR as for `quality`) and on the stores of this
repository: long assistant chats, bare facts and rules, coding notes. LoCoMo and BEAM only measure.
Every signal is computed by the product itself, from what it finds in a real database. Each kind
counts by itself, however many questions it has; copies in which nothing is told of sessions,
speakers and most of the question's words are hidden keep the weights from leaning on one leg.

`--write` puts the weights into the product; without it they are compared with those there.
"""

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import sets
from bench.lab import CachedEmbedder, laboratory
from bench.learning import Example, Numbers, fit_answers, fit_ranker
from butlers.embedding import get_embedding_engine
from butlers.kernel import fusion
from butlers.memory.flows.sight import Query, Sight, see
from butlers.memory.handle import Memory
from butlers.memory.model import MemoryType
from butlers.memory.policy import ranker
from butlers.memory.policy.signals import Signals, field, signals

TRAINED = ("friendsqa", "realmem", "assistant", "coding", "facts")
MEASURED = (*TRAINED, "locomo", "beam100k")
# How sure it must be that a store answers; chosen once, on the table this prints.
LEAST_ANSWERS = 0.35
RIDGE, FLAT_COUNTS, HIDDEN = 1e-3, 0.3, 0.6
# Conversation is what is remembered most; everything else counts the same.
COUNTS = {"friendsqa": 1.5}
FOREIGN_PER_STORE = 24
DEPTH = 200
ROUNDING = 0.02


@dataclass(frozen=True)
class Seen:
    """What the product saw for one question, and which of it is gold (of so many in all)."""

    sight: Sight
    found: Signals
    gold: Numbers
    of: int

    @property
    def matrix(self) -> Numbers:
        """Candidate by signal."""
        return np.column_stack(list(self.found.by_name.values()))


@dataclass(frozen=True)
class Kind:
    """One kind of store: what was seen for its own questions, flat copies, and foreign ones."""

    own: list[Seen]
    flat: list[Seen]
    foreign: list[Seen]


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
    kinds = asyncio.run(_see_all(options.data))
    learned = learn({name: kinds[name] for name in TRAINED})
    _show(kinds, learned)
    return _keep(learned, write=options.write)


async def _see_all(data: Path) -> dict[str, Kind]:
    stores = {
        name: sets.load((sets.OWN if (sets.OWN / name).is_dir() else data) / name)
        for name in MEASURED
    }
    embedder = CachedEmbedder(get_embedding_engine())
    kinds = {}
    for name in MEASURED:
        async with laboratory(embedder) as (memory, _):
            kinds[name] = await _see(memory, name, stores)
        print(f"{name}: {len(kinds[name].own)} questions", file=sys.stderr, flush=True)
    return kinds


async def _see(memory: Memory, name: str, stores: Mapping[str, list[sets.Store]]) -> Kind:
    kind = Kind([], [], [])
    for store in stores[name]:
        latest = sets.latest_of(store)
        async for question in store.told(memory):
            there = sets.asking(memory, question, latest)
            seen = await _one(there, store, question["text"], set(question["gold"]))
            if seen is not None:
                (kind.own if question["gold"] else kind.foreign).append(seen)
                kind.flat.extend([_flattened(seen)] if question["gold"] else [])
        await store.fill(memory)
        for text in sets.strangers(name, store, stores, FOREIGN_PER_STORE):
            seen = await _one(sets.asking(memory, {}, latest), store, text, set())
            if seen is not None:
                kind.foreign.append(seen)
    return kind


async def _one(memory: Memory, store: sets.Store, text: str, gold: set[str]) -> Seen | None:
    query = Query(text, types=(MemoryType.EPISODE,))
    sight = await see(memory, query, store.lineage, DEPTH)
    if not len(sight.looked):
        return None
    marks = np.array([float(store.ids[str(one)] in gold) for one in sight.looked.ids])
    return Seen(sight, _signals(sight), marks, len(gold))


def _signals(sight: Sight) -> Signals:
    return signals(field(sight.looked), sight.looked, sight.reading, sight.names)


def _flattened(seen: Seen) -> Seen:
    """The same question over a flat store: no sessions or speakers, most of its words unknown."""
    looked = seen.sight.looked
    dice = random.Random(seen.sight.reading.text)
    bare = [word for word in looked.header.bare_words if dice.random() > HIDDEN]
    header = replace(looked.header, bare_words=bare or looked.header.bare_words[:1])
    nothing: list[Any] = [None] * len(looked)
    flat = replace(looked, header=header, session_ids=nothing, places=nothing, authors=nothing)
    numbers = field(flat)
    numbers = replace(numbers, impacts=numbers.impacts * numbers.bare[:, None])
    reading = seen.sight.reading
    return replace(seen, found=signals(numbers, flat, reading, seen.sight.names))


def learn(kinds: Mapping[str, Kind]) -> ranker.Weights:
    """Weights from these kinds of store."""
    examples = [
        example
        for name, kind in kinds.items()
        for seen, counts in ((kind.own, 1.0), (kind.flat, FLAT_COUNTS))
        for example in _examples(seen, counts * COUNTS.get(name, 1.0))
    ]
    names = list(next(iter(kinds.values())).own[0].found.by_name)
    fitted = fit_ranker(examples, RIDGE)
    weights = dict(zip(names, fitted.tolist(), strict=True))
    numbers, answered, counts = [], [], []
    for kind in kinds.values():
        for seen, is_own in ((kind.own, 1.0), (kind.foreign, 0.0)):
            numbers += [ranker.question_numbers(one.found, one.matrix @ fitted) for one in seen]
            answered += [is_own] * len(seen)
            counts += [0.5 / len(seen) / len(kinds)] * len(seen)
    rows = np.array([list(one.values()) for one in numbers])
    slopes, bias = fit_answers(rows, np.array(answered), np.array(counts), RIDGE)
    rounded = {name: round(value, 4) for name, value in weights.items()}
    answers = dict(zip(numbers[0], (round(one, 4) for one in slopes.tolist()), strict=True))
    return ranker.Weights(rounded, answers, round(bias, 4), LEAST_ANSWERS)


def _examples(seen: Sequence[Seen], counts: float) -> list[Example]:
    good = [one for one in seen if one.gold.any()]
    return [Example(one.matrix, one.gold, counts / len(good)) for one in good]


def _show(kinds: Mapping[str, Kind], learned: ranker.Weights) -> None:
    print(f"\n{'kind':<10} {'plain':>6} {'ranked':>7} {'left out':>9} {'gated':>6} {'foreign':>8}")
    for name, kind in kinds.items():
        rest = {other: kinds[other] for other in TRAINED if other != name}
        without = learn(rest) if name in TRAINED else learned
        foreign = [_ranking(one, learned).answers >= LEAST_ANSWERS for one in kind.foreign]
        print(
            f"{name:<10} {_mean([_plain(one) for one in kind.own]):6.1f}"
            f" {_mean([_ranked(one, learned) for one in kind.own]):7.1f}"
            f" {_mean([_ranked(one, without) for one in kind.own]):9.1f}"
            f" {_mean([_ranked(one, learned, gated=True) for one in kind.own]):6.1f}"
            f" {100 * float(np.mean(foreign)):7.1f}%"
        )


def _plain(one: Seen) -> float:
    """Recall@10 of both legs fused as they came."""
    numbers, ranks = range(len(one.gold)), one.sight.looked.ranks
    similarities = np.nan_to_num(one.sight.looked.similarities)
    near = sorted(numbers, key=lambda n: -similarities[n])[:50]
    match = sorted((n for n in numbers if ranks[n] > 0), key=lambda n: -ranks[n])[:50]
    fused = fusion.reciprocal_rank_fusion(near, match, 50)
    return float(one.gold[[found.id for found in fused[:10]]].sum()) / one.of


def _ranked(one: Seen, learned: ranker.Weights, *, gated: bool = False) -> float:
    """Recall@10 as the product ranks, with or without what its gate lets through."""
    ranking = _ranking(one, learned)
    kept = [r.number for r in ranking.ranked[:10] if not gated or r.relevance > 0]
    return float(one.gold[kept].sum()) / one.of


def _ranking(one: Seen, learned: ranker.Weights) -> ranker.Ranking:
    return ranker.ranking(one.sight.looked, one.found, learned, DEPTH)


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
