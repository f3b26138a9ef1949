"""How a memory of the first weeks answers: small stores of facts, rules and episodes.

A question that the store does not answer should get nothing.
"""

import json
from collections.abc import Sequence

from bench import sets
from bench.lab import CachedEmbedder, laboratory
from bench.quality_figures import mean, recall_at, search_ids
from butlers.memory.flows import recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.recall import Recalled
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewFact, Permanence, SearchMode

NEW_AFTER_USED = sets.OWN / "new_after_used.jsonl"


async def measure(embedder: CachedEmbedder, name: str = "first_weeks", note: str = "") -> None:
    """Print how the small stores of a set answer."""
    own: list[tuple[bool, Sequence[Recalled]]] = []
    foreign: list[Sequence[Recalled]] = []
    found: list[float] = []
    async with laboratory(embedder) as (memory, _):
        for store in sets.load(sets.OWN / name):
            await store.fill(memory)
            for question in store.questions:
                there = sets.asking(memory, question, sets.latest_of(store))
                text, gold = question["text"], question["gold"]
                results = await _recall(there, text, store.lineage)
                if not gold:
                    foreign.append(results)
                    continue
                own.append((_is_first(results, store, gold), results))
                ids = await search_ids(there, store, text, SearchMode.HYBRID)
                found.append(recall_at(ids, gold))
    print(f"\n{name}{note}: {len(own)} questions of its own, {len(foreign)} foreign")
    first, silent = mean(is_first for is_first, _ in own), mean(not r for _, r in own)
    print(
        f"{'':<10} own: gold first {first:.1f} %, nothing {silent:.1f} %,"
        f" in the first ten of search {mean(found):.1f} %\n"
        f"{'':<10} foreign: surfaced {mean(map(bool, foreign)):.1f} %"
    )


async def measure_new_after_used(embedder: CachedEmbedder) -> None:
    """Print how often a new fact comes before an older one that is permanent and was used."""
    cases = [json.loads(line) for line in NEW_AFTER_USED.read_text("utf-8").splitlines()]
    async with laboratory(embedder) as (memory, _):
        first = [await _new_is_first(memory, case) for case in cases]
    print(f"new fact before a used one: {sum(first)} of {len(cases)}")


async def _new_is_first(memory: Memory, case: sets.Line) -> bool:
    lineage = Lineage(case["id"])
    old = NewFact(**case["old"], permanence=Permanence.PERMANENT)
    await remember.store_fact(memory, old, lineage)
    await recall.recall(memory, CandidateQuery(case["old_question"]), None, lineage)
    new = await remember.store_fact(memory, NewFact(**case["new"]), lineage)
    results = await _recall(memory, case["new_question"], lineage)
    return bool(results) and results[0].ref.id == new.id


async def _recall(memory: Memory, text: str, lineage: Lineage) -> list[Recalled]:
    return await recall.recall(memory, CandidateQuery(text), None, lineage, counted=False)


def _is_first(results: Sequence[Recalled], store: sets.Store, gold: Sequence[str]) -> bool:
    return bool(results) and store.ids[str(results[0].ref.id)] in gold
