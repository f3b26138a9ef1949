"""What tests of consolidation tell and ask again and again."""

import json
import re
import uuid
from typing import Any

import asyncpg

from butlers.memory.flows import recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.handle import Memory
from butlers.memory.model import (
    Lineage,
    NewEpisode,
    NewFact,
    NewRule,
    Origin,
    SearchMode,
)
from butlers.memory.settings import ConsolidationConfig, MemoryModuleConfig
from memory.scripted_model import answer, fact

STATE = (
    "select id, consolidation_status as status, consolidated, consolidation_attempts as attempts, "
    "last_consolidation_error as error, next_consolidation_retry_at as retry_at, "
    "dead_letter_reason as reason, leased_by, leased_until from episodes order by created_at, id"
)


async def tell(
    memory: Memory, lineage: Lineage, content: str = "Ann likes tea", butler: str = "general"
) -> uuid.UUID:
    """An episode, by its id."""
    return (await remember.store_episode(memory, NewEpisode(content, butler), lineage)).id


async def found(memory: Memory, lineage: Lineage, text: str) -> list[str]:
    """The ids of what a search finds."""
    told = await recall.search_memories(
        memory, CandidateQuery(text), SearchMode.HYBRID, 20, lineage
    )
    return [one["id"] for one in told]


async def know(memory: Memory, lineage: Lineage, *key: str, **more: Any) -> uuid.UUID:
    """A fact, by its id."""
    return (await remember.store_fact(memory, NewFact(*key, **more), lineage)).id


async def infer(memory: Memory, lineage: Lineage, *key: str, **more: Any) -> uuid.UUID:
    """A fact that a model drew from episodes of long ago, by its id."""
    once = f"consolidation:{key}"
    origin = Origin.INFERRED
    return await know(memory, lineage, *key, idempotency_key=once, origin=origin, **more)


async def follow(memory: Memory, lineage: Lineage, content: str, **more: Any) -> uuid.UUID:
    """A rule, by its id."""
    return (await remember.store_rule(memory, NewRule(content, **more), lineage)).id


def with_settings(memory: Memory, **values: Any) -> None:
    """Consolidation as these settings have it."""
    memory.settings = MemoryModuleConfig(consolidation=ConsolidationConfig(**values))


def contents(prompt: str) -> list[str]:
    """The episodes a prompt shows."""
    return re.findall(r"<episode_content>\n(.*?)\n</episode_content>", prompt, re.DOTALL)


def reading(prompt: str) -> str:
    """A fact for each person in the episodes; none can be read together with the poison."""
    told = contents(prompt)
    if any("poison" in text for text in told):
        return "I cannot do that."
    facts = [
        fact(text.split()[0], "likes", "tea", source_episode_ids=[number])
        for number, text in enumerate(told, start=1)
        if "likes" in text
    ]
    return answer(new_facts=facts)


async def states(owner: asyncpg.Connection) -> list[asyncpg.Record]:
    """How every episode stands, oldest first."""
    return await owner.fetch(STATE)


async def statuses(owner: asyncpg.Connection) -> list[str]:
    """The state of every episode, oldest first."""
    return [row["status"] for row in await states(owner)]


async def active_facts(owner: asyncpg.Connection) -> set[tuple[str, str, str]]:
    """Every fact that holds."""
    rows = await owner.fetch(
        "select subject, predicate, content from facts where validity = 'active'"
    )
    return {tuple(row) for row in rows}


async def derivations(owner: asyncpg.Connection) -> set[tuple[uuid.UUID, uuid.UUID]]:
    """Which memory comes from which episode."""
    rows = await owner.fetch(
        "select source_id, target_id from memory_links "
        "where relation = 'derived_from' and target_type = 'episode'"
    )
    return {tuple(row) for row in rows}


async def everything(owner: asyncpg.Connection) -> str:
    """Every row of every table, to see that nothing changed."""
    tables = ("episodes", "facts", "rules", "memory_links", "memory_events", "entities")
    found = {
        table: await owner.fetchval(
            f"select jsonb_agg(to_jsonb(t) order by to_jsonb(t)::text) from {table} t"
        )
        for table in tables
    }
    return json.dumps(found)
