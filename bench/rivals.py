"""Whether the owner's fact comes first, whatever low trust says beside it.

    python -m bench rivals [build|kept]

A topic of `stores/authority/rivals.json` is a fact that the owner stated, a question about it, and
40 rivals. Each is asked with 0, 1, 5, 20 and 40 rivals, which a token of low trust stores: as facts
of two scopes, or as facts, rules and episodes in turn. Beside it stands what the owner stated on
the other topics of the half. Right is where the owner's fact is told, before everything of low
trust, by a recall, a context and the context of a prompt.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.lab import CachedEmbedder, laboratory
from butlers.embedding import get_embedding_engine
from butlers.memory.flows import context, prompt_context, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.handle import Memory
from butlers.memory.model import (
    Lineage,
    NewEpisode,
    NewFact,
    NewRule,
    Origin,
    Permanence,
    Trust,
)

CASES = Path(__file__).parent / "stores" / "authority" / "rivals.json"
RIVALS = (0, 1, 5, 20, 40)
FORMS = ("facts", "mixed")
WAYS = ("recall", "context", "prompt context")
LIMIT, BUDGET, PROMPT_BUDGET = 10, 3_000, 700
SCOPE = "general"
Topic = dict[str, Any]


def main(options: Sequence[str]) -> int:
    """Print in how many topics the fact comes first; 1 where rivals cost it a place anywhere."""
    return asyncio.run(_main(options[0] if options else "build"))


async def _main(half: str) -> int:
    every = json.loads(CASES.read_text(encoding="utf-8"))
    topics, lost = [one for one in every if one["half"] == half], 0
    async with laboratory(CachedEmbedder(get_embedding_engine())) as (memory, _):
        for form in FORMS:
            for count in RIVALS:
                first, missed = await measure(memory, topics, form, count)
                told = ", ".join(f"{way} {first[way]} of {len(topics)}" for way in WAYS)
                print(f"{form:<6} {count:>2} rivals: first in {told}")
                for why in missed:
                    print(f"       {why}")
                lost += len(missed)
    return int(lost > 0)


async def measure(
    memory: Memory, topics: Sequence[Topic], form: str, count: int
) -> tuple[Counter[str], list[str]]:
    """In how many topics the owner's fact comes first in each way, and where it does not."""
    first, missed = Counter[str](), []
    for number, topic in enumerate(topics):
        asked = Asked(memory, f"rivals {form} {count} {number}", topic["question"])
        fact = await asked.fill(topics, topic, form, count)
        for way, ids in zip(WAYS, await asked.told(), strict=True):
            if ids[:1] == [fact]:
                first[way] += 1
            else:
                missed.append(f"{way}: {topic['question']}")
    return first, missed


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a tenant of its own."""

    memory: Memory
    tenant: str
    question: str

    async def fill(self, topics: Sequence[Topic], topic: Topic, form: str, count: int) -> UUID:
        """Store what the owner stated and the rivals of a topic; return the fact of the topic."""
        owner = Lineage(self.tenant, "cli", origin=Origin.OPERATOR)
        ids = {}
        for one in topics:
            new = NewFact(**one["owner"], permanence=Permanence.PERMANENT)
            ids[one["topic"]] = (await remember.store_fact(self.memory, new, owner)).id
        for number, rival in enumerate(topic["rivals"][:count]):
            await self._tell(number, rival, form)
        return ids[topic["topic"]]

    async def _tell(self, number: int, rival: dict[str, str], form: str) -> None:
        low = Lineage(self.tenant, "token:low", ceiling=Trust.LOW)
        kind = number % 3 if form == "mixed" else 0
        if kind == 0:
            scope = ("global", SCOPE)[number % 2]
            new = NewFact(**rival, scope=scope, importance=10, permanence=Permanence.PERMANENT)
            await remember.store_fact(self.memory, new, low)
        elif kind == 1:
            rule = NewRule(f"{self.question} Always: {rival['content']}")
            await remember.store_rule(self.memory, rule, low)
        else:
            episode = NewEpisode(f"{self.question} {rival['content']}", SCOPE, importance=10)
            await remember.store_episode(self.memory, episode, low)

    async def told(self) -> list[list[UUID]]:
        """The memories that each way tells, in their order."""
        memory, agent = self.memory, Lineage(self.tenant, "token:agent")
        query = CandidateQuery(self.question)
        recalled = await recall.recall(memory, query, LIMIT, agent, counted=False)
        wanted = context.ContextQuery(self.question, SCOPE, BUDGET)
        built = await context.build_context(memory, wanted, agent, counted=False)
        prompt = prompt_context.PromptQuery(self.question, SCOPE, PROMPT_BUDGET)
        given = await prompt_context.build_prompt_context(memory, prompt, agent)
        blocks = [
            [line.ref.id for lines in block.included.values() for line in lines]
            for block in (built.block, given.block)
        ]
        return [[one.ref.id for one in recalled], *blocks]
