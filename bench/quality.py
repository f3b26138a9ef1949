"""Retrieval quality on data sets with gold labels, as a user would notice it.

    python -m bench quality --data DIR [--set locomo] [--out FILE]

DIR holds one directory per data set with `memories.jsonl` and `queries.jsonl` (bench/sets.py says
how). The public sets are not shipped here: LoCoMo is CC BY-NC 4.0 (snap-research/locomo), RealMem
and FriendsQA are Apache-2.0, BEAM is in its public repository, PrecisionMemBench is MIT
(tenurehq/precisionMemBench, its two JSON files as they are, under `precision`).

Every memory is stored as an episode of its store's own tenant, with who said it, when, and where
in which session. Measured are search by meaning, by words and by both; recall after the store has
been asked every question once; what a question of somebody else surfaces; how much of a context
belongs to the answer; search in languages without spaces or with many forms; precision.
"""

import argparse
import asyncio
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import precision, sets
from bench.lab import CachedEmbedder, laboratory
from butlers.embedding import get_embedding_engine
from butlers.memory.flows import context, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, SearchMode

SETS = ("locomo", "realmem", "beam100k")
# Hybrid recall@10 in percent that must be reached.
FLOOR = {"locomo": 80.0, "realmem": 52.0, "beam100k": 57.0}
LEAST_IN_USE, MOST_FOREIGN, MOST_LOST = 0.98, 20.0, 2.0
LIMIT, FOREIGN_PER_STORE = 10, 40

Run = tuple[sets.Line, list[str]]


@dataclass(frozen=True)
class Figures:
    """What was measured on one set, in percent."""

    found: Mapping[str, Sequence[Run]]
    foreign: float

    def recall(self, way: str) -> float:
        """Mean recall@10."""
        return _mean([_recall(found, set(q["gold"])) for q, found in self.found[way] if q["gold"]])

    def ndcg(self, way: str) -> float:
        """Mean nDCG@10."""
        return _mean([_gain(found, set(q["gold"])) for q, found in self.found[way] if q["gold"]])

    def nothing(self, way: str) -> float:
        """How often nothing was found."""
        return _mean([float(not found) for q, found in self.found[way] if q["gold"]])


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables, and fail where a figure lies below its floor."""
    parser = argparse.ArgumentParser(
        prog="python -m bench quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("bench/data"))
    parser.add_argument("--set", dest="sets", action="append", choices=SETS)
    parser.add_argument("--out", type=Path, help="write the ranked ids of every question here")
    options = parser.parse_args(arguments)
    missed = asyncio.run(_languages())
    if not options.data.is_dir():
        print(f"no data at {options.data}: only languages are measured. See bench/README.md")
        return int(missed)
    missed |= asyncio.run(_public(options.data, options.sets or SETS, options.out))
    missed |= asyncio.run(precision.measure(options.data / "precision"))
    return int(missed)


async def _public(data: Path, names: Sequence[str], out: Path | None) -> bool:
    # Strangers ask the same whichever sets are measured.
    everything = {
        name: sets.load(data / name) for name in SETS if name in names or (data / name).is_dir()
    }
    embedder = CachedEmbedder(get_embedding_engine())
    figures = {}
    for name in names:
        async with laboratory(embedder) as (memory, _):
            figures[name] = await _measure(memory, name, everything)
            _show(name, figures[name])
        if out:
            _write_runs(out / name, figures[name].found)
        async with laboratory(embedder) as (memory, _):
            print(f"{name:<10} context: {await _context(memory, everything[name]):.1f} % of lines")
    return _judged(figures)


async def _measure(
    memory: Memory, name: str, everything: Mapping[str, list[sets.Store]]
) -> Figures:
    found, foreign = defaultdict[str, list[Run]](list), []
    for store in everything[name]:
        latest = sets.latest_of(store)
        async for question in store.told(memory):
            there = sets.asking(memory, question, latest)
            for mode in SearchMode:
                found[mode].append((question, await _searched(there, store, question, mode)))
            found["recall, fresh"].append((question, await _recalled(there, store, question)))
        for question in store.questions:
            there = sets.asking(memory, question, latest)
            if "before_session" not in question:
                found["recall, in use"].append((question, await _recalled(there, store, question)))
        for text in sets.strangers(name, store, everything, FOREIGN_PER_STORE):
            asked = {"text": text}
            foreign.append(bool(await _recalled(sets.asking(memory, {}, latest), store, asked)))
    # What is asked as the store grows has been preceded by every earlier question.
    found["recall, in use"] = found["recall, in use"] or found["recall, fresh"]
    return Figures(found, _mean([float(one) for one in foreign]))


async def _searched(
    memory: Memory, store: sets.Store, question: sets.Line, mode: SearchMode
) -> list[str]:
    query = CandidateQuery(question["text"], types=(MemoryType.EPISODE,))
    found = await recall.search_memories(memory, query, mode, LIMIT, store.lineage)
    return [store.ids[one["id"]] for one in found]


async def _recalled(memory: Memory, store: sets.Store, question: sets.Line) -> list[str]:
    query = CandidateQuery(question["text"], types=(MemoryType.EPISODE,))
    found = await recall.recall(memory, query, LIMIT, store.lineage)
    return [store.ids[str(one.ref.id)] for one in found]


async def _context(memory: Memory, stores: Sequence[sets.Store]) -> float:
    """The share of a context's facts that are gold, or of the same session as gold."""
    shares = []
    for store in stores:
        lines = {}
        for line in store.memories:
            new = sets.fact(line)
            kept = await remember.store_fact(memory, new, store.lineage)
            lines[kept.id] = line
        sessions = {line["id"]: line["session"] for line in store.memories}
        for question in (q for q in store.questions if q["gold"]):
            wanted = {sessions[gold] for gold in question["gold"]}
            built = await context.build_context(
                memory,
                context.ContextQuery(question["text"], "bench"),
                Lineage(store.name),
                counted=False,
            )
            told = [lines[line.ref.id] for part in built.block.included.values() for line in part]
            hits = [t["id"] in question["gold"] or t["session"] in wanted for t in told]
            shares.extend([sum(hits) / len(hits)] if hits else [])
    return _mean(shares)


async def _languages() -> bool:
    """Whether words are found in every language; prints a line for each."""
    missed = False
    print(f"{'language':<10} {'by words':>9} {'nothing':>8} {'hybrid':>7}")
    async with laboratory(CachedEmbedder(get_embedding_engine())) as (memory, _):
        for store in sets.load(sets.OWN / "languages"):
            await store.fill(memory)
            modes = (SearchMode.KEYWORD, SearchMode.HYBRID)
            found = {
                mode: [(q, await _searched(memory, store, q, mode)) for q in store.questions]
                for mode in modes
            }
            figures = Figures(found, 0.0)
            words, both = modes
            nothing = figures.nothing(words)
            missed |= nothing >= 1.0
            print(
                f"{store.name:<10} {figures.recall(words):9.1f} {nothing:7.1f}%"
                f" {figures.recall(both):7.1f}{'  BELOW' if nothing >= 1.0 else ''}"
            )
    return missed


def _show(name: str, figures: Figures) -> None:
    print(f"\n{name:<10} {'':<15} {'R@10':>6} {'nDCG@10':>8} {'nothing':>8}")
    for way in figures.found:
        print(
            f"{'':<10} {way:<15} {figures.recall(way):6.1f} {figures.ndcg(way):8.1f}"
            f" {figures.nothing(way):7.1f}%"
        )
    print(f"{'':<10} foreign questions that surface anything: {figures.foreign:.1f} %")


def _judged(figures: Mapping[str, Figures]) -> bool:
    missed = False
    for name, one in figures.items():
        hybrid, used = one.recall(SearchMode.HYBRID), one.recall("recall, in use")
        missed |= _judge(f"{name}: hybrid recall@10", hybrid, FLOOR[name])
        missed |= _judge(f"{name}: recall in use / search", used / hybrid, LEAST_IN_USE)
    lost = [f.recall(SearchMode.HYBRID) - f.recall("recall, fresh") for f in figures.values()]
    if len(figures) == len(SETS):
        foreign = _mean_of(f.foreign for f in figures.values())
        missed |= _judge("foreign questions, mean", -foreign, -MOST_FOREIGN)
    missed |= _judge("lost by the gate, mean", -_mean_of(lost), -MOST_LOST)
    return missed


def _judge(what: str, value: float, least: float) -> bool:
    short = value < least
    print(f"{what:<40} {abs(value):7.2f}   {abs(least):g}{'  MISSED' if short else ''}")
    return short


def _recall(found: Sequence[str], gold: set[str]) -> float:
    return sum(one in gold for one in found[:LIMIT]) / len(gold)


def _gain(found: Sequence[str], gold: set[str]) -> float:
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(gold), LIMIT)))
    hits = enumerate(found[:LIMIT])
    return sum(1 / math.log2(rank + 2) for rank, one in hits if one in gold) / ideal


def _mean(values: Sequence[float]) -> float:
    return 100 * sum(values) / len(values) if values else 0.0


def _mean_of(values: Any) -> float:
    given = list(values)
    return sum(given) / len(given)


def _write_runs(out: Path, found: Mapping[str, Sequence[Run]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for way, rows in found.items():
        lines = (
            json.dumps({"store": query["store"], "id": query["id"], "ranked": ranked})
            for query, ranked in rows
        )
        (out / f"{way}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
