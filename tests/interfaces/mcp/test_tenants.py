"""Two tenants of one butler: neither sees, changes, counts or infers anything of the other.

The walk is over the tools that the server offers, so that a new tool without a case fails it.
"""

import asyncio
import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

import asyncpg
import httpx2
import pytest
from mcp import Client

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from interfaces.daemons import Daemon, butlers, operating
from interfaces.mcp.clients import (
    INITIALIZE,
    RawClient,
    call,
    over_http,
    raw_client,
    refusal,
    request,
    snapshot,
    text_of,
    told,
)
from interfaces.mcp.walkthrough import Furnished, arguments, furnish

OWNER, WORD = "owner", "Zanzibarquince"
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOTHING_COUNTED = {
    "episodes": {
        "total": 0, "unconsolidated": 0, "consolidated": 0, "failed": 0, "dead_letter": 0,
        "backlog_age_hours": None,
    },
    "facts": {"active": 0, "fading": 0, "superseded": 0, "expired": 0, "retracted": 0},
    "rules": {"candidate": 0, "established": 0, "proven": 0, "anti_pattern": 0, "forgotten": 0},
}  # fmt: skip

REFUSED = "refused"
CREATED = "created"
# What a stranger gets who names the owner's ids and words.
ANSWERS: Mapping[str, Any] = {
    "memory_store_episode": CREATED,
    "memory_store_fact": REFUSED,  # it names the owner's entity
    "memory_store_rule": CREATED,
    "memory_search": {"result": []},
    "memory_recall": {"result": []},
    "memory_get": {"result": None},
    "memory_confirm": {"confirmed": False},
    "memory_mark_helpful": REFUSED,
    "memory_mark_harmful": REFUSED,
    "memory_forget": {"forgotten": False},
    "memory_stats": NOTHING_COUNTED,
    "memory_context": {"result": "# Memory Context\n"},
    "entity_create": CREATED,
    "entity_get": {"result": None},
    "entity_update": REFUSED,
    "entity_resolve": {"result": []},
    "entity_merge": REFUSED,
    "memory_run_consolidation": {"episodes_processed": 0, "groups": {}, "dry_run": True},
    "memory_run_episode_cleanup": {"expired_deleted": 0, "capacity_deleted": 0, "remaining": 0},
}


@pytest.fixture(scope="module")
def owner(daemon: Daemon, tokens: TokenStore) -> Furnished:
    """The tenant who has one of everything."""
    _, token = tokens.create("general", OWNER, rights=Right.OPERATE)
    return asyncio.run(furnish_over_http(daemon, token))


async def furnish_over_http(daemon: Daemon, token: str) -> Furnished:
    async with over_http(daemon, token) as client:
        return await furnish(client, OWNER, WORD)


@pytest.fixture(scope="module")
def offered(daemon: Daemon, tokens: TokenStore) -> list[str]:
    _, token = tokens.create("general", "rival", rights=Right.OPERATE)
    return asyncio.run(names(daemon, token))


async def names(daemon: Daemon, token: str) -> list[str]:
    async with over_http(daemon, token) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


def test_every_tool_has_a_case(offered: list[str]) -> None:
    assert set(ANSWERS) == set(offered)


@pytest.mark.contract("R29.1", "R29.2", "N9.3", "L1")
async def test_a_stranger_who_knows_every_id_gets_nothing(
    daemon: Daemon, tokens: TokenStore, rows: asyncpg.Connection, owner: Furnished, offered: Any
) -> None:
    before = await snapshot(rows, OWNER)
    for tool in offered:
        stranger = f"rival-{tool}"
        _, token = tokens.create("general", stranger, rights=Right.OPERATE)
        async with over_http(daemon, token) as client:
            await walk(client, tool, known_to(stranger, owner))
        assert await snapshot(rows, OWNER) == before, tool


def known_to(stranger: str, owner: Furnished) -> dict[str, dict[str, Any]]:
    """Calls that name what the owner has, as a tenant who may name only itself."""
    calls = arguments(owner)
    calls["memory_forget"] = {"memory_type": "fact", "memory_id": owner.fact}
    calls["entity_create"]["canonical_name"] = owner.word
    for given in calls.values():
        if "tenant_id" in given:
            given["tenant_id"] = stranger
    return calls


async def walk(client: Client, tool: str, calls: dict[str, dict[str, Any]]) -> None:
    answer = await client.call_tool(tool, calls[tool])
    assert WORD not in json.dumps(answer.structured_content) + text_of(answer), tool
    expected = ANSWERS[tool]
    if expected is REFUSED:
        assert answer.is_error, tool
        assert "does not exist" in text_of(answer)
    elif expected is CREATED:
        assert not answer.is_error, text_of(answer)
        return
    else:
        assert expected.items() <= answer.structured_content.items(), tool
    # The same question about what nobody has gets the same answer.
    unknown = await client.call_tool(tool, with_unknown_ids(calls[tool]))
    assert masked(unknown) == masked(answer), tool


def with_unknown_ids(given: dict[str, Any]) -> dict[str, Any]:
    swapped = {
        key: str(uuid.uuid4()) if isinstance(value, str) and UUID_TEXT.fullmatch(value) else value
        for key, value in given.items()
    }
    return json.loads(json.dumps(swapped).replace(WORD, "Nobodyofthename"))


def masked(answer: Any) -> str:
    said = json.dumps([answer.is_error, answer.structured_content, text_of(answer)])
    return UUID_TEXT.sub("ID", said)


@pytest.mark.contract("R29.2")
@pytest.mark.parametrize(
    ("tool", "key"),
    [("memory_get", "memory_id"), ("memory_confirm", "memory_id"), ("memory_forget", "memory_id")],
)
async def test_no_kind_of_memory_is_an_exception(
    tool: str, key: str, daemon: Daemon, tokens: TokenStore, rows: asyncpg.Connection,
    owner: Furnished,
) -> None:  # fmt: skip
    before = await snapshot(rows, OWNER)
    _, token = tokens.create("general", "rival", rights=Right.OPERATE)
    async with over_http(daemon, token) as client:
        for kind, known in (
            ("episode", owner.episode),
            ("fact", owner.fact),
            ("rule", owner.rule),
        ):
            mine, other = [
                await client.call_tool(tool, {"memory_type": kind, key: one})
                for one in (known, str(uuid.uuid4()))
            ]
            assert masked(mine) == masked(other)
    assert await snapshot(rows, OWNER) == before


@pytest.mark.contract("R29.1", "L1")
async def test_two_tenants_may_have_the_same_names_and_keys(
    daemon: Daemon, tokens: TokenStore, rows: asyncpg.Connection, owner: Furnished
) -> None:
    before = await snapshot(rows, OWNER)
    _, token = tokens.create("general", "twin", rights=Right.OPERATE)
    async with over_http(daemon, token) as client:
        twin = await furnish(client, "twin", WORD)
        found = (await call(client, "entity_resolve", name=WORD))["result"]
        assert {one["entity_id"] for one in found} == {twin.entity, twin.namesake}
        fact = {"subject": WORD, "predicate": "likes", "content": "spelt"}
        stored = await call(client, "memory_store_fact", **fact)
        assert stored["superseded_id"] == twin.fact
        recalled = (await call(client, "memory_recall", topic=WORD, detail="full"))["result"]
        assert {one["tenant_id"] for one in recalled} == {"twin"}
        assert (await call(client, "memory_stats"))["episodes"]["total"] == 1
    assert await snapshot(rows, OWNER) == before
    kept = "select tenant_id from facts where id = $1::uuid"
    assert await rows.fetchval(kept, stored["id"]) == "twin"


@pytest.mark.contract("N9.3", "L1", "L33")
async def test_naming_another_tenant_is_refused(
    daemon: Daemon, tokens: TokenStore, owner: Furnished, offered: list[str]
) -> None:
    _, token = tokens.create("general", "rival", rights=Right.OPERATE)
    calls = arguments(owner)
    named = [tool for tool in offered if "tenant_id" in calls[tool]]
    assert len(named) == 5
    async with over_http(daemon, token) as client:
        # Backwards, so that nothing can be resolved before it is created.
        for tool in sorted(named, reverse=True):
            for other in (OWNER, "nobody"):
                said = await refusal(client, tool, **calls[tool] | {"tenant_id": other})
                assert said.startswith(f"tenant_id: found {other!r}; valid is your own tenant")
                assert "'rival'" in said
            for own in ("rival", "default"):  # "default" means that none was named
                named_own = calls[tool] | {"tenant_id": own, "request_context": None}
                answer = await client.call_tool(tool, named_own)
                assert "tenant_id" not in text_of(answer)
                assert WORD not in text_of(answer) or tool == "entity_create"


@pytest.mark.contract("N9.3")
async def test_nothing_but_the_token_of_a_call_says_who_calls(
    daemon: Daemon, tokens: TokenStore
) -> None:
    """No call follows from another, so that a session's name opens nothing."""
    _, first = tokens.create("general", OWNER, rights=Right.OPERATE)
    _, other = tokens.create("general", "nobody_else", rights=Right.OPERATE)
    async with raw_client(daemon, first) as caller:
        assert "mcp-session-id" not in (await caller.call("memory_stats", "{}")).headers
        stored = '{"content": "the vault opens at nine"}'
        assert (await caller.call("memory_store_episode", stored)).status_code == 200
        caller.headers |= {"Authorization": f"Bearer {other}", "Mcp-Session-Id": "0" * 32}
        answer = told(await caller.call("memory_stats", "{}"))
    assert answer["result"]["structuredContent"]["episodes"]["total"] == 0


@pytest.mark.contract("N9.3")
async def test_a_revoked_token_is_refused_at_the_next_request(
    daemon: Daemon, tokens: TokenStore
) -> None:
    record, token = tokens.create("general", OWNER, rights=Right.OPERATE)
    async with raw_client(daemon, token) as session:
        assert (await session.call("memory_stats", "{}")).status_code == 200
        revoke = ("token", "revoke", record.id, "--home", daemon.home.root)
        done = butlers(*revoke, env=operating(daemon.home))
        assert done.returncode == 0
        assert (await session.call("memory_stats", "{}")).status_code == 401


@pytest.mark.contract("N9.3")
async def test_a_token_opens_one_butler_only(daemon: Daemon, tokens: TokenStore) -> None:
    _, token = tokens.create("kitchen", OWNER, rights=Right.OPERATE)
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
        for butler, status in (("kitchen", 200), ("general", 401)):
            client = RawClient(http, daemon.mcp(butler), token)
            answer = await client.post(request("initialize", INITIALIZE))
            assert answer.status_code == status


@pytest.mark.contract("L1")
async def test_a_tenant_of_one_butler_has_nothing_at_another(
    daemon: Daemon, tokens: TokenStore, owner: Furnished
) -> None:
    _, token = tokens.create("kitchen", OWNER, rights=Right.OPERATE)
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        client = await RawClient(http, daemon.mcp("kitchen"), token).open()
        answer = told(await client.call("memory_search", json.dumps({"query": WORD})))
        assert answer["result"]["structuredContent"] == {"result": []}
