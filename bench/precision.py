"""PrecisionMemBench: of what comes back for a question, how much should have.

Each belief is a fact: its name as subject, its aliases and content as text, under its scope;
superseded and pinned ones are left out. A case is asked in its scopes; expecting nothing and
getting nothing counts as right.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.lab import laboratory
from butlers.memory.flows import recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, NewFact

LEAST_PRECISION, LEAST_RECALL = 0.6, 0.9
LIMIT = 20


async def measure(directory: Path) -> bool:
    """Whether precision or recall is too low; prints both."""
    if not directory.is_dir():
        print(f"no data at {directory}: precision is not measured")
        return False
    beliefs = json.loads((directory / "beliefs.seed.json").read_text(encoding="utf-8"))
    cases = json.loads((directory / "retrieval.cases.json").read_text(encoding="utf-8"))
    async with laboratory() as (memory, _):
        names = await _store(memory, beliefs)
        scores = [_score(case, await _ask(memory, case, names)) for case in cases]
    precision = sum(one[0] for one in scores) / len(scores)
    found = sum(one[1] for one in scores) / len(scores)
    missed = precision < LEAST_PRECISION or found < LEAST_RECALL
    told = f"precision {precision:.2f} at recall {found:.2f} over {len(scores)} cases"
    print(f"{'precision':<10} {told}{'  MISSED' if missed else ''}")
    return missed


async def _store(memory: Memory, beliefs: Sequence[dict[str, Any]]) -> dict[Any, str]:
    names = {}
    for one in beliefs:
        if one["pinned"] or one["epistemic_status"] == "superseded":
            continue
        text = f"{', '.join(one['aliases'])}. {one['content']}"
        for scope in one["scope"]:
            subject = one["canonical_name"].replace("_", " ")
            new = NewFact(subject, one["type"], text, scope=scope)
            names[(await remember.store_fact(memory, new, _whose(one["user_id"]))).id] = one["_id"]
    return names


async def _ask(memory: Memory, case: dict[str, Any], names: dict[Any, str]) -> set[str]:
    found = set()
    for scope in case["scope"]:
        query = CandidateQuery(case["query"], types=(MemoryType.FACT,), scope=scope)
        recalled = await recall.recall(memory, query, LIMIT, _whose("test-user"), counted=False)
        found |= {names[one.ref.id] for one in recalled}
    return found


def _score(case: dict[str, Any], found: set[str]) -> tuple[float, float]:
    expected = case["expect"].get("relevantBeliefs", {})
    gold = set(expected.get("shouldOnlyInclude", expected.get("mustInclude", [])))
    if not gold:
        return float(not found), 1.0
    right = len(gold & found)
    return right / len(found) if found else 0.0, right / len(gold)


def _whose(user: str) -> Lineage:
    return Lineage(user)
