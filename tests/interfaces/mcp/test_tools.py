"""Every tool, called by the SDK's client over both transports and both eras of the protocol."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client

from butlers.auth.token_store import TokenStore
from interfaces.daemons import Daemon, butlers, operating
from interfaces.mcp.clients import assert_serialised, call, over_http, over_stdio, refusal

# What may be known of how something was said, beyond what the contract names.
CIRCUMSTANCES = {"session_id", "place", "author", "said_at"}
ORIGIN = {
    "origin", "trust", "stored_by", "quarantined", "less_trusted", "source", "agent", "accepted_by",
}  # fmt: skip
EPISODE_KEYS = CIRCUMSTANCES | ORIGIN | {
    "memory_type", "id", "tenant_id", "butler", "content", "importance",
    "reference_count", "consolidated", "consolidation_status", "consolidation_attempts",
    "last_consolidation_error", "next_consolidation_retry_at", "dead_letter_reason",
    "retry_count", "last_error", "created_at", "last_referenced_at", "expires_at", "metadata",
    "outdated_by", "piece", "past_by",
}  # fmt: skip
FACT_KEYS = CIRCUMSTANCES | ORIGIN | {
    "memory_type", "id", "tenant_id", "subject", "predicate", "content", "importance",
    "confidence", "decay_rate", "permanence", "source_butler", "source_episode_id",
    "supersedes_id", "entity_id", "validity", "state", "scope", "reference_count", "created_at",
    "last_referenced_at", "last_confirmed_at", "tags", "metadata", "effective_confidence",
    "valid_from", "valid_to", "in_doubt",
}  # fmt: skip
RULE_KEYS = ORIGIN | {
    "own_marks", "confidence_floor", "said_at",
    "id", "tenant_id", "content", "scope", "maturity", "confidence", "decay_rate", "permanence",
    "effectiveness_score", "applied_count", "success_count", "harmful_count",
    "source_episode_id", "source_butler", "created_at", "last_applied_at", "last_evaluated_at",
    "last_confirmed_at", "reference_count", "last_referenced_at", "tags", "metadata", "state",
    "effective_confidence", "in_doubt",
}  # fmt: skip
SAID = "2026-01-31T12:00:00+00:00"
HYBRID = {"rrf_score", "semantic_rank", "keyword_rank", "relevance", "signals"}


class Walk:
    """A client that remembers which tools it called."""

    def __init__(self, client: Client, tenant: str) -> None:
        self.client, self.tenant = client, tenant
        self.called: set[str] = set()

    async def __call__(self, tool: str, /, **arguments: Any) -> Any:
        self.called.add(tool)
        answer = await call(self.client, tool, **arguments)
        assert_serialised(answer)
        return answer


@asynccontextmanager
async def client_of(transport: str, daemon: Daemon) -> AsyncIterator[Walk]:
    """A client of a tenant that has nothing yet."""
    way, mode = transport.split()
    if way == "stdio":
        async with over_stdio(daemon.home, mode) as client:
            yield Walk(client, "default")
        return
    tenant = f"walk-{mode}"
    new = ("token", "new", "--tenant", tenant, "--rights", "operate", "--home", daemon.home.root)
    made = butlers(*new, env=operating(daemon.home))
    async with over_http(daemon, made.stdout.splitlines()[-1], mode) as client:
        yield Walk(client, tenant)


@pytest.mark.contract("L19", "R27.1", "R27.2", "N7.1", "L46")
@pytest.mark.parametrize("transport", ["http auto", "http legacy", "stdio auto", "stdio legacy"])
async def test_every_tool_answers_in_its_shape(transport: str, daemon: Daemon) -> None:
    async with client_of(transport, daemon) as walk:
        modern = walk.client.protocol_version >= "2026"
        assert modern == transport.endswith("auto")
        stored = await write(walk)
        await read(walk, stored)
        await find(walk, stored)
        await judge(walk)
        await entities(walk)
        await look_after(walk)
        offered = {tool.name for tool in (await walk.client.list_tools()).tools}
        assert walk.called == offered


@dataclass
class Stored:
    """What was written, under a mark that no other run of the walk shares."""

    mark: str
    session: str
    episode: dict[str, Any]
    superseded: str
    fact: str
    rule: str


def told(mark: str) -> str:
    return f"Ann planted quinces {mark}"


async def write(walk: Walk) -> Stored:
    mark = uuid.uuid4().hex
    session = str(uuid.uuid4())
    episode = await walk(
        "memory_store_episode",
        content=told(mark),
        butler="general",
        session_id=session,
        importance=7,
    )
    assert set(episode) == {"id", "expires_at"}
    first = await walk("memory_store_fact", subject=mark, predicate="drinks", content="coffee")
    assert first == {"id": first["id"], "superseded_id": None}
    tea = {"subject": mark, "predicate": "drinks", "content": "tea", "tags": ["taste"]}
    fact = await walk("memory_store_fact", **tea, said_at=SAID)
    assert fact == {"id": fact["id"], "superseded_id": first["id"]}
    rule = await walk("memory_store_rule", content=f"Offer quinces {mark}", scope="general")
    assert set(rule) == {"id"}
    return Stored(mark, session, episode, first["id"], fact["id"], rule["id"])


async def read(walk: Walk, stored: Stored) -> None:
    episode = stored.episode
    read = (await walk("memory_get", memory_type="episode", memory_id=episode["id"]))["result"]
    assert set(read) == EPISODE_KEYS
    assert (read["content"], read["session_id"], read["importance"]) == (
        told(stored.mark),
        stored.session,
        7,
    )
    assert (read["expires_at"], read["reference_count"]) == (episode["expires_at"], 1)
    read = (await walk("memory_get", memory_type="fact", memory_id=stored.fact))["result"]
    assert set(read) == FACT_KEYS
    assert (read["content"], read["tags"], read["state"]) == ("tea", ["taste"], "active")
    assert read["said_at"] == SAID
    assert (read["supersedes_id"], read["tenant_id"]) == (stored.superseded, walk.tenant)
    old = (await walk("memory_get", memory_type="fact", memory_id=stored.superseded))["result"]
    assert old["state"] == "superseded"
    nobody = await walk("memory_get", memory_type="rule", memory_id=str(uuid.uuid4()))
    assert nobody == {"result": None}


async def find(walk: Walk, stored: Stored) -> None:
    mark = stored.mark
    found = (await walk("memory_search", query=f"{mark} tea", limit=5, detail="full"))["result"]
    by_id = {one["id"]: one for one in found}
    assert stored.superseded not in by_id, "a superseded fact is not found"
    assert HYBRID <= set(by_id[stored.fact]) <= FACT_KEYS | HYBRID | {"similarity", "rank"}
    assert set(by_id[stored.rule]) - HYBRID - {"similarity", "rank"} == RULE_KEYS | {"memory_type"}
    for mode, score in (("semantic", "similarity"), ("keyword", "rank")):
        asked = {"query": f"{mark} tea", "mode": mode, "types": ["fact"], "detail": "full"}
        found = (await walk("memory_search", **asked))["result"]
        mine = next(one for one in found if one["id"] == stored.fact)
        assert set(mine) == FACT_KEYS | {score, "relevance"}

    recalled = (await walk("memory_recall", topic=f"{mark} tea", limit=3, detail="full"))["result"]
    assert 1 <= len(recalled) <= 3
    scores = [one["composite_score"] for one in recalled]
    assert scores == sorted(scores, reverse=True)
    mine = next(one for one in recalled if one["id"] == stored.fact)
    assert set(mine) == FACT_KEYS | {"composite_score", "score_parts", "rrf_score", "signals"}
    assert set(mine["score_parts"]) == {"relevance", "importance", "recency", "confidence"}
    assert mine["reference_count"] == 2, "memory_get, then memory_recall"

    block = (await walk("memory_context", trigger_prompt=f"{mark} tea", butler="general"))["result"]
    assert block.startswith("# Memory Context\n")
    # Only this way of asking says nothing of the program that asks.
    agent = "an agent" if walk.tenant == "walk-legacy" else "mcp"
    assert f"- [{mark}] [drinks]: tea (confidence: 1.00, via {agent})" in block
    small = await walk("memory_context", trigger_prompt=mark, butler="general", token_budget=10)
    assert len(small["result"]) <= 40


async def judge(walk: Walk) -> None:
    fact = (await walk("memory_store_fact", subject="Ann", predicate="p", content="c"))["id"]
    rule = (await walk("memory_store_rule", content="Knock before entering"))["id"]
    assert await walk("memory_confirm", memory_type="fact", memory_id=fact) == {"confirmed": True}
    unknown = str(uuid.uuid4())
    answer = await walk("memory_confirm", memory_type="rule", memory_id=unknown)
    assert answer == {"confirmed": False}
    marked = await walk("memory_mark_helpful", rule_id=rule, detail="full")
    assert set(marked) == RULE_KEYS
    assert (marked["success_count"], marked["applied_count"]) == (1, 1)
    marked = await walk("memory_mark_harmful", rule_id=rule, reason="woke the baby")
    assert (marked["harmful_count"], marked["applied_count"]) == (1, 2)
    assert marked["metadata"]["harmful_reasons"] == ["woke the baby"]
    said = await refusal(walk.client, "memory_mark_helpful", rule_id=unknown)
    assert f"rule {unknown} does not exist" in said

    before = await walk("memory_stats")
    assert set(before) == {"episodes", "facts", "rules", "inbox"}
    assert set(before["episodes"]) == {
        "total", "unconsolidated", "consolidated", "failed", "dead_letter", "backlog_age_hours",
    }  # fmt: skip
    assert set(before["facts"]) == {"active", "fading", "superseded", "expired", "retracted"}
    assert set(before["rules"]) == {
        "candidate", "established", "proven", "anti_pattern", "forgotten",
    }  # fmt: skip
    forget = {"memory_type": "fact", "memory_id": fact}
    assert await walk("memory_forget", **forget) == {"forgotten": True}
    assert await walk("memory_forget", **forget) == {"forgotten": False}
    after = await walk("memory_stats", scope="general")
    assert after["facts"]["retracted"] == before["facts"]["retracted"] + 1
    assert after["facts"]["active"] == before["facts"]["active"] - 1


async def entities(walk: Walk) -> None:
    name = f"Ann {uuid.uuid4().hex[:8]}"
    ann = await walk(
        "entity_create",
        canonical_name=name,
        entity_type="person",
        tenant_id=walk.tenant,
        aliases=["Annie"],
        metadata={"team": "blue"},
    )
    assert set(ann) == {"entity_id"}
    other = await walk(
        "entity_create", canonical_name=f"Anna-{name}", entity_type="person", tenant_id=walk.tenant
    )
    about = {"subject": name, "predicate": "city", "content": "Graz", **ann}
    fact = await walk("memory_store_fact", **about)
    changed = await walk("entity_update", **ann, metadata={"role": "cook"})
    assert set(changed) == {
        "entity_id", "canonical_name", "entity_type", "aliases", "metadata", "created_at",
        "updated_at",
    }  # fmt: skip
    assert changed["metadata"] == {"team": "blue", "role": "cook"}
    assert await walk("entity_get", **ann) == {"result": changed}
    found = (await walk("entity_resolve", name=name.upper()))["result"]
    best = found[0]
    assert set(best) == {
        "entity_id", "canonical_name", "entity_type", "score", "name_match", "aliases",
    }  # fmt: skip
    assert (best["entity_id"], best["name_match"], best["score"]) == (
        ann["entity_id"],
        "exact",
        100,
    )
    merged = await walk(
        "entity_merge",
        source_entity_id=ann["entity_id"],
        target_entity_id=other["entity_id"],
        tenant_id=walk.tenant,
    )
    assert merged == {
        "source_entity_id": ann["entity_id"],
        "target_entity_id": other["entity_id"],
        "facts_repointed": 1,
        "facts_superseded": 0,
        "aliases_added": 2,
    }
    read = (await walk("memory_get", memory_type="fact", memory_id=fact["id"]))["result"]
    assert read["entity_id"] == other["entity_id"]
    gone = (await walk("entity_get", **ann))["result"]
    assert gone["metadata"]["merged_into"] == other["entity_id"]


async def look_after(walk: Walk) -> None:
    waiting = (await walk("memory_stats"))["episodes"]["unconsolidated"]
    report = await walk("memory_run_consolidation")
    assert report["dry_run"] is True, "no language model is configured"
    assert report["episodes_processed"] == waiting > 0
    assert report["facts_created"] == 0
    report = await walk("memory_run_episode_cleanup", max_entries=0)
    assert report == {"expired_deleted": 0, "capacity_deleted": 0, "remaining": waiting}


async def test_text_that_looks_like_json_stays_text(daemon: Daemon, tokens: TokenStore) -> None:
    _, token = tokens.create("general", "texts")
    async with over_http(daemon, token) as client:
        rule = (await call(client, "memory_store_rule", content="[1]"))["id"]
        for reason in ("null", "true", '{"a": 1}', '["b"]', '"c"', "4"):
            marked = await call(client, "memory_mark_harmful", rule_id=rule, reason=reason)
            if marked["metadata"].get("original_content") is None:
                assert marked["metadata"]["harmful_reasons"][-1] == reason
        # A client that sends a list as a string means the list.
        fact = {"subject": "s", "predicate": "p", "content": "{}"}
        stored = await call(client, "memory_store_fact", **fact, tags='["x", "y"]')
        read = await call(client, "memory_get", memory_type="fact", memory_id=stored["id"])
        assert (read["result"]["tags"], read["result"]["content"]) == (["x", "y"], "{}")
