"""One of everything in a tenant, and a valid call of every tool about it."""

import uuid
from dataclasses import dataclass
from typing import Any

from mcp import Client

from interfaces.mcp.clients import call

MUTATING = {
    "memory_store_episode", "memory_store_fact", "memory_store_rule", "memory_confirm",
    "memory_mark_helpful", "memory_mark_harmful", "memory_forget", "entity_create",
    "entity_update", "entity_merge", "memory_run_episode_cleanup",
}  # fmt: skip
"""Tools that leave an event; consolidation does too once a language model is configured."""


@dataclass(frozen=True)
class Furnished:
    """A tenant that has one of everything, all of it about one word."""

    tenant: str
    word: str
    episode: str
    fact: str
    rule: str
    entity: str
    namesake: str


async def furnish(client: Client, tenant: str, word: str) -> Furnished:
    episode = await call(client, "memory_store_episode", content=f"met {word}", butler="general")
    rule = await call(client, "memory_store_rule", content=f"Greet {word}")
    ids = [
        await call(
            client,
            "entity_create",
            canonical_name=name,
            entity_type="person",
            tenant_id=tenant,
            aliases=[f"{name} the Elder"],
            metadata={"note": word},
        )
        for name in (word, f"{word} Smith")
    ]
    entity, namesake = (one["entity_id"] for one in ids)
    key = {"predicate": "likes", "entity_id": entity}
    await call(client, "memory_store_fact", subject=word, content=f"{word} likes rye", **key)
    fact = await call(
        client, "memory_store_fact", subject=word, predicate="likes", content=f"{word} likes oats"
    )
    return Furnished(tenant, word, episode["id"], fact["id"], rule["id"], entity, namesake)


def arguments(of: Furnished) -> dict[str, dict[str, Any]]:
    """A valid call of every tool; names of what is created are new each time."""
    fact = {"memory_type": "fact", "memory_id": of.fact}
    fresh = uuid.uuid4().hex
    return {
        "memory_store_episode": {
            "content": f"met {of.word}",
            "butler": "general",
            "session_id": str(uuid.uuid4()),
            "importance": 5,
        },
        "memory_store_fact": {
            "subject": of.word,
            "predicate": "likes",
            "content": f"{of.word} likes barley",
            "importance": 5,
            "permanence": "stable",
            "scope": "global",
            "tags": ["grain"],
            "entity_id": of.entity,
        },
        "memory_store_rule": {
            "content": f"Greet {of.word}",
            "scope": "global",
            "tags": ["manners"],
        },
        "memory_search": {
            "query": f"{of.word} likes",
            "types": ["fact", "rule", "episode"],
            "scope": "general",
            "mode": "hybrid",
            "limit": 10,
            "min_confidence": 0.0,
        },
        "memory_recall": {"topic": of.word, "scope": "general", "limit": 10},
        "memory_get": fact,
        "memory_confirm": fact,
        "memory_mark_helpful": {"rule_id": of.rule},
        "memory_mark_harmful": {"rule_id": of.rule, "reason": "too loud"},
        "memory_forget": {"memory_type": "episode", "memory_id": of.episode},
        "memory_stats": {"scope": "general"},
        "memory_context": {"trigger_prompt": of.word, "butler": "general", "token_budget": 3000},
        "entity_create": {
            "canonical_name": f"{of.word} {fresh}",
            "entity_type": "person",
            "tenant_id": of.tenant,
            "aliases": ["Nick"],
            "metadata": {"a": 1},
        },
        "entity_get": {"entity_id": of.entity, "tenant_id": of.tenant},
        "entity_update": {
            "entity_id": of.entity,
            "canonical_name": f"{of.word} {fresh}",
            "aliases": ["Nick"],
            "metadata": {"a": 1},
            "tenant_id": of.tenant,
        },
        "entity_resolve": {
            "name": of.word,
            "tenant_id": of.tenant,
            "entity_type": "person",
            "context_hints": {"topic": "rye"},
            "enable_fuzzy": True,
        },
        "entity_merge": {
            "source_entity_id": of.entity,
            "target_entity_id": of.namesake,
            "tenant_id": of.tenant,
        },
        "memory_run_consolidation": {},
        "memory_run_episode_cleanup": {"max_entries": 10},
    }
