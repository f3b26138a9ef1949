"""A request's id, from the call to its answer and to the audit stream."""

import asyncpg
import pytest
from mcp import Client

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from interfaces.daemons import Daemon
from interfaces.mcp.clients import over_http, refusal, snapshot, text_of
from interfaces.mcp.test_surface import ALL
from interfaces.mcp.walkthrough import MUTATING, Furnished, arguments, furnish


async def furnished(client: Client, tenant: str) -> Furnished:
    """Furnished, with an expired episode for the cleanup to remove."""
    of = await furnish(client, tenant, "Quill")
    await client.call_tool("memory_forget", {"memory_type": "episode", "memory_id": of.episode})
    return of


def case(of: Furnished, tool: str) -> dict[str, object]:
    """A call that finds something to do."""
    if tool == "memory_forget":
        return {"memory_type": "fact", "memory_id": of.fact}
    return arguments(of)[tool]


@pytest.mark.contract("N9.2")
@pytest.mark.parametrize("tool", ALL)
async def test_the_request_id_comes_back_and_stays_with_every_event(
    tool: str, daemon: Daemon, tokens: TokenStore, rows: asyncpg.Connection
) -> None:
    tenant, given = f"lineage-{tool}", f" trace\t{tool} \x00ü"
    wanted = f"trace {tool} ü"
    record, token = tokens.create("general", tenant, rights=Right.OPERATE)
    async with over_http(daemon, token) as client:
        of = await furnished(client, tenant)
        result = await client.call_tool(
            tool, case(of, tool) | {"request_context": {"request_id": given, "more": [1]}}
        )
        assert not result.is_error, text_of(result)
        assert result.structured_content["request_id"] == wanted
        assert result.meta["request_id"] == wanted
        without = await client.call_tool("memory_stats", {})
    assert "request_id" not in without.structured_content
    assert "request_id" not in (without.meta or {})
    events = await rows.fetch(
        "select tenant_id, actor from memory_events where request_id = $1", wanted
    )
    assert bool(events) == (tool in MUTATING)
    for event in events:
        assert tuple(event) == (tenant, f"token:{record.id}")


@pytest.mark.contract("N9.2")
async def test_a_refusal_names_its_request_too(daemon: Daemon, tokens: TokenStore) -> None:
    _, token = tokens.create("general", "lineage-refusal")
    async with over_http(daemon, token) as client:
        for tool, given in (("memory_store_rule", {}), ("no_such_tool", {}), ("entity_get", {})):
            result = await client.call_tool(tool, given | {"request_context": {"request_id": "r9"}})
            assert result.is_error
            assert result.meta["request_id"] == "r9"


async def test_a_bad_request_context_is_refused_by_name(
    daemon: Daemon, tokens: TokenStore, rows: asyncpg.Connection
) -> None:
    tenant = "bad-lineage"
    _, token = tokens.create("general", tenant, rights=Right.OPERATE)
    async with over_http(daemon, token) as client:
        of = await furnished(client, tenant)
        before = await snapshot(rows, tenant)
        for tool in ALL:
            await refuse_bad_contexts(client, tool, case(of, tool))
    assert await snapshot(rows, tenant) == before


async def refuse_bad_contexts(client: Client, tool: str, given: dict[str, object]) -> None:
    """Call a tool with every kind of bad request context."""
    for bad in ("text", 5, True, [], [{"request_id": "r"}]):
        said = await refusal(client, tool, **given, request_context=bad)
        assert said.startswith("request_context: found "), said
    for bad in ("", " \n", 5, ["r"], {"r": 1}, "x" * 201, "x" * 1_000_000):
        context = {"request_id": bad}
        said = await refusal(client, tool, **given, request_context=context)
        assert said.startswith("request_context.request_id: found "), said
        assert "valid is a text of 1 to 200 characters" in said
        assert len(said) < 300
