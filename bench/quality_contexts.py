"""How much of the evidence a context holds, and how much of a list question's gold is recalled.

A context of 1,000 tokens is compared with the first 16 results of search, one of 3,000 with the
first 50. Contexts are built from episodes, in a store that is in use.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench import sets
from bench.quality_figures import LIMIT, mean, recall_at
from butlers.memory.flows import recall
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.context import ContextQuery, build_context
from butlers.memory.handle import Memory

# How many results of search a context of so many tokens is compared with.
BUDGETS = {1_000: 16, 3_000: 50}
MOST_RESULTS = max(BUDGETS.values())


class ContextFigures:
    """Collects shares of gold in contexts and in recalled lists, question by question."""

    def __init__(self, set_name: str) -> None:
        """Read which questions of a set want a list."""
        lists = json.loads((sets.OWN / "lists.json").read_text(encoding="utf-8"))
        self._lists = set(lists.get(set_name, ()))
        self._shares = defaultdict[str, list[float]](list)

    async def add(
        self, memory: Memory, store: sets.Store, question: sets.Line, searched: Sequence[str]
    ) -> None:
        """Measure one question, whose results of search are given; nothing counts as used."""
        gold = question["gold"]
        if not gold:
            return
        sessions = {line["id"]: line["session"] for line in store.memories}
        for budget, limit in BUDGETS.items():
            ids = await _context_ids(memory, store, question["text"], budget)
            self._add(f"context of {budget:,} tokens", recall_at(ids, gold, len(ids)))
            self._add(f"search, recall@{limit}", recall_at(searched, gold, limit))
            if ids and budget == min(BUDGETS):
                self._add("lines of gold or its session", _of_gold(ids, gold, sessions))
        if f"{store.name}/{question['id']}" in self._lists:
            query = CandidateQuery(question["text"])
            found = await recall.recall(memory, query, None, store.lineage, counted=False)
            ids = [store.ids[str(result.ref.id)] for result in found]
            self._add("list questions, recall", recall_at(ids, gold, len(ids)))
            self._add("list questions, search@10", recall_at(searched, gold, LIMIT))

    def _add(self, name: str, share: float) -> None:
        self._shares[name].append(share)

    def show(self) -> None:
        """Print the mean of each."""
        for name, shares in sorted(self._shares.items()):
            print(f"{'':<10} {name:<30} {mean(shares):6.1f}  ({len(shares)} questions)")


async def _context_ids(memory: Memory, store: sets.Store, text: str, budget: int) -> list[str]:
    query = ContextQuery(text, token_budget=budget)
    built = await build_context(memory, query, store.lineage, counted=False)
    lines = [line for part in built.block.included.values() for line in part]
    return [store.ids[str(line.ref.id)] for line in lines]


def _of_gold(ids: Sequence[str], gold: Sequence[str], sessions: Mapping[str, str]) -> float:
    """Return the share of lines that are gold or of a session of gold."""
    wanted = {sessions[id] for id in gold if sessions[id]}
    return sum(id in gold or sessions[id] in wanted for id in ids) / len(ids)
