"""Retrieval quality on public data sets with gold labels, through `memory_search` on episodes.

    python -m bench quality --data DIR [--set locomo] [--out FILE]

DIR holds one directory per data set with `memories.jsonl` (store, id, order, session, date,
speaker, text) and `queries.jsonl` (store, id, type, text, gold). The sets are not shipped here:
LoCoMo is CC BY-NC 4.0 (snap-research/locomo), RealMem is Apache-2.0, BEAM is in its public
repository; convert them to this form to repeat the measurement.

Every memory is stored as an episode of its store's own tenant, as "speaker (date): text"; every
question is asked as that tenant, by meaning, by words and by both.
"""

import argparse
import asyncio
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lab import CachedEmbedder, laboratory
from butlers.embedding import get_embedding_engine
from butlers.memory.flows import recall, remember
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, NewEpisode, SearchMode

SETS = ("locomo", "realmem", "beam100k")
# recall@10 and nDCG@10 of reciprocal rank fusion (k = 60) of MiniLM vectors and BM25.
FLOOR = {"locomo": (65.8, 50.0), "realmem": (46.3, 31.0), "beam100k": (49.6, 42.1)}
LIMIT = 20


@dataclass(frozen=True)
class Score:
    """Mean recall@10 and nDCG@10 in percent, and the share of questions that found nothing."""

    recall: float
    ndcg: float
    nothing: float


def main(arguments: Sequence[str]) -> int:
    """Measure, print a table, and fail where a figure lies below its floor."""
    parser = argparse.ArgumentParser(prog="python -m bench quality", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("bench/data"))
    parser.add_argument("--set", dest="sets", action="append", choices=SETS)
    parser.add_argument("--out", type=Path, help="write the ranked ids of every question here")
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        print(f"no data at {options.data}: quality is not measured. See bench/README.md")
        return 0
    return asyncio.run(_measure_all(options.data, options.sets or SETS, options.out))


async def _measure_all(data: Path, sets: Sequence[str], out: Path | None) -> int:
    below = 0
    print(f"{'set':<10} {'mode':<9} {'R@10':>6} {'nDCG@10':>8} {'nothing':>8}   floor")
    for name in sets:
        async with laboratory(CachedEmbedder(get_embedding_engine())) as (memory, _):
            scores = await _measure(memory, data / name, out / name if out else None)
        for mode, score in scores.items():
            floor = FLOOR[name] if mode is SearchMode.HYBRID else None
            missed = floor is not None and (score.recall < floor[0] or score.ndcg < floor[1])
            missed = missed or (mode is SearchMode.KEYWORD and score.nothing >= 1.0)
            below += missed
            print(
                f"{name:<10} {mode:<9} {score.recall:6.1f} {score.ndcg:8.1f} {score.nothing:7.1f}%"
                f"   {floor or ''} {'BELOW' if missed else ''}"
            )
    return 1 if below else 0


async def _measure(memory: Memory, directory: Path, out: Path | None) -> dict[SearchMode, Score]:
    stored = _read(directory / "memories.jsonl")
    queries = _read(directory / "queries.jsonl")
    scores = defaultdict(list)
    for store, asked in _by_store(stored, queries):
        await _ask_store(memory, store, asked, scores)
    if out:
        _write_runs(out, scores)
    return {mode: _score(rows) for mode, rows in scores.items()}


async def _ask_store(
    memory: Memory, store: list[Any], asked: list[Any], scores: dict[SearchMode, list[Any]]
) -> None:
    """Ask in the order of sessions, storing first what existed by then."""
    lineage = Lineage(store[0]["store"])
    names: dict[str, str] = {}
    waiting = sorted(store, key=lambda m: (m.get("session_index", 0), m["order"]))
    for query in sorted(asked, key=lambda q: q.get("before_session", math.inf)):
        while waiting and waiting[0].get("session_index", 0) < query.get(
            "before_session", math.inf
        ):
            one = waiting.pop(0)
            kept = await remember.store_episode(memory, NewEpisode(_text(one), "bench"), lineage)
            names[str(kept.id)] = one["id"]
        for mode in SearchMode:
            wanted = recall.Query(query["text"], types=(MemoryType.EPISODE,))
            found = await recall.search_memories(memory, wanted, mode, LIMIT, lineage)
            scores[mode].append((query, [names[one["id"]] for one in found]))


def _text(memory: dict[str, Any]) -> str:
    return f"{memory['speaker']} ({memory['date']}): {memory['text']}"


def _score(rows: Sequence[tuple[dict[str, Any], list[str]]]) -> Score:
    measured = [_measure_one(found, set(query["gold"])) for query, found in rows]
    count = len(measured) / 100
    return Score(
        sum(one[0] for one in measured) / count,
        sum(one[1] for one in measured) / count,
        sum(not found for _, found in rows) / count,
    )


def _measure_one(found: Sequence[str], gold: set[str]) -> tuple[float, float]:
    hits = [one in gold for one in found[:10]]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(gold), 10)))
    gain = sum(1 / math.log2(rank + 2) for rank, hit in enumerate(hits) if hit)
    return sum(hits) / len(gold), gain / ideal


def _by_store(
    stored: Sequence[dict[str, Any]], queries: Sequence[dict[str, Any]]
) -> Iterator[tuple[list[Any], list[Any]]]:
    for name in dict.fromkeys(one["store"] for one in stored):
        yield (
            [one for one in stored if one["store"] == name],
            [one for one in queries if one["store"] == name],
        )


def _write_runs(out: Path, scores: dict[SearchMode, list[Any]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for mode, rows in scores.items():
        lines = (
            json.dumps({"store": query["store"], "id": query["id"], "ranked": found})
            for query, found in rows
        )
        (out / f"{mode}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.open(encoding="utf-8")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
