"""Retrieval quality on data sets with gold labels, as a user would notice it.

    python -m bench quality --data DIR [--set locomo] [--out FILE] [--unseen]

DIR holds one directory per data set with `memories.jsonl` and `queries.jsonl` (bench/sets.py says
how). The public sets are not shipped here: LoCoMo is CC BY-NC 4.0 (snap-research/locomo), RealMem
and FriendsQA are Apache-2.0, BEAM is in its public repository, PrecisionMemBench is MIT
(tenurehq/precisionMemBench, its two JSON files as they are, under `precision`).

Every memory is stored in its store's own tenant, an episode with who said it, when, and where in
which session. Measured are search by meaning, by words and by both; recall after the store has
been asked every question once; what a question of somebody else surfaces; the evidence in a
context; list questions; small stores of the first weeks; a new fact beside a used one; languages
without spaces or with many forms; precision. `--unseen` adds stores that nobody looks at.
"""

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import first_weeks, precision, sets
from bench.lab import CachedEmbedder, laboratory
from bench.quality_contexts import MOST_RESULTS, ContextFigures
from bench.quality_figures import LIMIT, gain_at, judge, mean, recall_at, recall_ids, search_ids
from butlers.embedding import get_embedding_engine
from butlers.memory.handle import Memory
from butlers.memory.model import SearchMode

# Where strangers of other sets ask too, and where all have the same cast: only search is measured.
SETS, ONLY_SEARCHED = ("locomo", "realmem", "beam100k"), ("friendsqa",)
# Hybrid recall@10 in percent that must be reached.
FLOOR = {"locomo": 80.0, "realmem": 52.0, "beam100k": 57.0, "friendsqa": 65.0}
LEAST_IN_USE, MOST_FOREIGN, MOST_LOST = 0.98, 20.0, 2.0
FOREIGN_PER_STORE = 40
IN_USE = "recall, in use"

Run = tuple[sets.Line, list[str]]


@dataclass(frozen=True)
class Figures:
    """The results of every question of one set by each way to ask, and the foreign ones."""

    results: Mapping[str, Sequence[Run]]
    foreign: float
    """How many questions of strangers surface anything, in percent."""

    def recall(self, way: str) -> float:
        """Return the mean recall@10."""
        return mean(recall_at(ids, q["gold"]) for q, ids in self.results[way] if q["gold"])

    def ndcg(self, way: str) -> float:
        """Return the mean nDCG@10."""
        return mean(gain_at(ids, q["gold"]) for q, ids in self.results[way] if q["gold"])

    def nothing(self, way: str) -> float:
        """Return how often nothing was found."""
        return mean(not ids for q, ids in self.results[way] if q["gold"])


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables, and fail where a figure lies below its floor."""
    parser = argparse.ArgumentParser(
        prog="python -m bench quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = (*SETS, *ONLY_SEARCHED)
    parser.add_argument("--data", type=Path, default=Path("bench/data"))
    parser.add_argument("--set", dest="sets", action="append", choices=names)
    parser.add_argument("--out", type=Path, help="write the ranked ids of every question here")
    parser.add_argument("--unseen", action="store_true", help="measure the unseen stores as well")
    options = parser.parse_args(arguments)
    return int(asyncio.run(_measure_all(options, options.sets or names)))


async def _measure_all(options: argparse.Namespace, names: Sequence[str]) -> bool:
    embedder = CachedEmbedder(get_embedding_engine())
    missed = await _languages(embedder)
    await first_weeks.measure(embedder)
    await first_weeks.measure_new_after_used(embedder)
    if options.data.is_dir():
        missed |= await _public(options.data, names, options.out, embedder)
        missed |= await precision.measure(options.data / "precision")
    else:
        print(f"no data at {options.data}: only own stores are measured. See bench/README.md")
    for name in ("first_weeks_unseen", "advice_unseen") if options.unseen else ():
        await first_weeks.measure(embedder, name, " (unseen)")
    return missed


async def _public(
    data: Path, names: Sequence[str], out: Path | None, embedder: CachedEmbedder
) -> bool:
    # Strangers ask the same whichever sets are measured.
    everything = {
        name: sets.load(data / name) for name in SETS if name in names or (data / name).is_dir()
    }
    figures = {}
    for name in names:
        contexts = ContextFigures(name)
        async with laboratory(embedder) as (memory, _):
            if name in ONLY_SEARCHED:
                figures[name] = await _measure_search(memory, sets.load(data / name))
            else:
                figures[name] = await _measure(memory, name, everything, contexts)
        _show(name, figures[name])
        contexts.show()
        if out:
            _write_runs(out / name, figures[name].results)
    return _judged(figures)


async def _measure_search(memory: Memory, stores: Sequence[sets.Store]) -> Figures:
    results = defaultdict[str, list[Run]](list)
    for store in stores:
        async for question in store.ask_in_order(memory):
            there = sets.asking(memory, question, sets.latest_of(store))
            for mode in SearchMode:
                ids = await search_ids(there, store, question["text"], mode)
                results[mode].append((question, ids))
    return Figures(results, 0.0)


async def _measure(
    memory: Memory,
    name: str,
    everything: Mapping[str, list[sets.Store]],
    contexts: ContextFigures,
) -> Figures:
    results, foreign = defaultdict[str, list[Run]](list), []
    for store in everything[name]:
        latest = sets.latest_of(store)
        async for question in store.ask_in_order(memory):
            there, text = sets.asking(memory, question, latest), question["text"]
            for mode in SearchMode:
                limit = MOST_RESULTS if mode is SearchMode.HYBRID else LIMIT
                ids = await search_ids(there, store, text, mode, limit)
                results[mode].append((question, ids))
            await contexts.add(there, store, question, results[SearchMode.HYBRID][-1][1])
            results["recall, fresh"].append((question, await recall_ids(there, store, text)))
        for question in store.questions:
            there = sets.asking(memory, question, latest)
            if "before_session" not in question:
                ids = await recall_ids(there, store, question["text"])
                results[IN_USE].append((question, ids))
        for text in sets.strangers(name, store, everything, FOREIGN_PER_STORE):
            ids = await recall_ids(sets.asking(memory, {}, latest), store, text)
            foreign.append(bool(ids))
    # What is asked as the store grows has been preceded by every earlier question.
    results[IN_USE] = results[IN_USE] or results["recall, fresh"]
    return Figures(results, mean(foreign))


async def _languages(embedder: CachedEmbedder) -> bool:
    """Print how words are found in every language; tell whether some language finds nothing."""
    missed = False
    print(f"{'language':<10} {'by words':>9} {'nothing':>8} {'hybrid':>7}")
    async with laboratory(embedder) as (memory, _):
        for store in sets.load(sets.OWN / "languages"):
            await store.fill(memory)
            modes = (SearchMode.KEYWORD, SearchMode.HYBRID)
            results = {
                mode: [
                    (q, await search_ids(memory, store, q["text"], mode)) for q in store.questions
                ]
                for mode in modes
            }
            figures = Figures(results, 0.0)
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
    for way in figures.results:
        print(
            f"{'':<10} {way:<15} {figures.recall(way):6.1f} {figures.ndcg(way):8.1f}"
            f" {figures.nothing(way):7.1f}%"
        )
    if name in SETS:
        print(f"{'':<10} foreign questions that surface anything: {figures.foreign:.1f} %")


def _judged(figures: Mapping[str, Figures]) -> bool:
    missed = False
    for name, one in figures.items():
        missed |= judge(f"{name}: hybrid recall@10", one.recall(SearchMode.HYBRID), FLOOR[name])
    gated = {name: one for name, one in figures.items() if name in SETS}
    for name, one in gated.items():
        used = one.recall(IN_USE) / one.recall(SearchMode.HYBRID)
        missed |= judge(f"{name}: recall in use / search", used, LEAST_IN_USE)
    if len(gated) == len(SETS):
        foreign = _mean_of(f.foreign for f in gated.values())
        missed |= judge("foreign questions, mean", -foreign, -MOST_FOREIGN)
        lost = (f.recall(SearchMode.HYBRID) - f.recall("recall, fresh") for f in gated.values())
        missed |= judge("lost by the gate, mean", -_mean_of(lost), -MOST_LOST)
    return missed


def _mean_of(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _write_runs(out: Path, results: Mapping[str, Sequence[Run]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for way, rows in results.items():
        lines = (
            json.dumps({"store": query["store"], "id": query["id"], "ranked": ranked})
            for query, ranked in rows
        )
        (out / f"{way}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
