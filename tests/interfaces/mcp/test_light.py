"""A connection made by `butlers connect`: six tools that cost little, and the rest on request."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.interfaces.mcp.light import LightMCP
from butlers.kernel.token_count import count_tokens
from butlers.memory.module import MemoryModule
from butlers.memory.settings import MemoryModuleConfig
from butlers.module import ButlerEnvironment
from butlers.notebook.module import NotebookModule
from butlers.sessions.agent_connections import Connection
from interfaces.daemons import Daemon
from interfaces.mcp.clients import over_http, over_stdio, text_of

SIX = [f"memory_{name}" for name in ("context", "recall", "remember", "correct", "forget", "why")]
MOST_TOKENS, MOST_BYTES = 1_500, 4_000
ALLERGY = {"kind": "fact", "subject": "Ann", "predicate": "allergy", "content": "peanuts"}


@pytest.fixture
def module(memory: Any) -> MemoryModule:
    module = MemoryModule(ButlerEnvironment("general", "acme"), MemoryModuleConfig())
    module._memory = memory
    return module


@pytest.fixture
async def light(module: MemoryModule) -> AsyncIterator[Client]:
    async with Client(LightMCP("general", [module])) as client:
        yield client


async def said(client: Client, tool: str, /, **arguments: Any) -> Any:
    """What a model reads of an answer, which is all that is sent."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error and result.structured_content is None, result
    text = text_of(result)
    return json.loads(text) if text[:1] in "[{" else text


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


@pytest.mark.contract("L54")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_begins_with_six_tools_and_asks_for_the_rest(
    mode: str, daemon: Daemon
) -> None:
    """As `butlers connect` writes the command, forwarded to the daemon."""
    _, _, *options = Connection("general", daemon.home.root).server[-4:]
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    assert "--light" in options
    async with over_stdio(daemon.home, mode, "--light", message_handler=hear) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [*SIX, "more_tools"]
        sent = listed.model_dump_json(by_alias=True, exclude_none=True)
        assert count_tokens(sent) <= MOST_TOKENS
        for noise in ("outputSchema", "$defs", "anyOf", '"title"', "null"):
            assert noise not in sent
        fact = await said(client, "memory_remember", **ALLERGY)
        why = await said(client, "memory_why", memory_id=fact["id"])
        assert why["memory"]["content"] == "peanuts"
        rest = await said(client, "more_tools")
        assert "memory_search: Search memories by a query." in rest.splitlines()
        assert not {*SIX, "more_tools"} & {line.split(":")[0] for line in rest.splitlines()}
        await said(client, "more_tools", names=["memory_search", "memory_get"])
        assert await names(client) == [*SIX, "more_tools", "memory_search", "memory_get"]
        if mode == "legacy":
            assert any(isinstance(one, ToolListChangedNotification) for one in heard)
        found = await client.call_tool("memory_search", {"query": "Ann's allergy"})
        assert fact["id"] in text_of(found)
    async with over_stdio(daemon.home, mode, "--light") as other:
        assert await names(other) == [*SIX, "more_tools"], "what one asked for, another did not"


async def test_each_of_the_six_does_what_it_says(light: Client, module: MemoryModule) -> None:
    fact = await said(light, "memory_remember", **ALLERGY, permanence="permanent")
    rule = await said(light, "memory_remember", kind="rule", content="Ask Ann before cooking")
    passed_on = {"kind": "episode", "content": "Ann cooks on Friday", "origin": "document"}
    await said(light, "memory_remember", **passed_on)
    (known,) = await said(light, "memory_recall", topic="Ann's allergy", types=["fact"])
    assert {"id", "content", "subject", "predicate", "created_at", "source"} <= known.keys()
    assert (known["id"], known["content"]) == (fact["id"], "peanuts")
    block = await said(light, "memory_context", trigger_prompt="cook for Ann on Friday")
    assert "peanuts" in block and "Ask Ann" in block and "(from a page)" in block
    new = await said(light, "memory_correct", fact_id=fact["id"], content="cashews")
    assert new["superseded_id"] == fact["id"]
    assert await said(light, "memory_forget", memory_type="rule", memory_id=rule["id"]) == {
        "forgotten": True
    }
    assert "Ask Ann" not in await said(light, "memory_context", trigger_prompt="cook for Ann")


@pytest.mark.parametrize(
    ("tool", "given", "fault"),
    [
        ("memory_remember", {"content": "x"}, "kind: found ''; valid are fact, rule, episode"),
        ("memory_remember", {"kind": [], "content": "x"}, "kind: found []; valid are fact"),
        ("memory_remember", {"kind": "fact", "content": "x"}, "subject: required, but missing"),
        ("memory_remember", {"kind": "rule", "content": "x", "subject": "y"}, "'subject': no such"),
        ("memory_recall", {}, "topic: required, but missing"),
        ("more_tools", {"names": ["memory_guess"]}, "names: found 'memory_guess'; valid are"),
        ("more_tools", {"kind": "fact"}, "'kind': no such argument"),
    ],
)
async def test_a_wrong_call_says_what_is_valid(
    light: Client, tool: str, given: dict[str, Any], fault: str
) -> None:
    result = await light.call_tool(tool, given)
    assert result.is_error and text_of(result).startswith(fault)
    assert await names(light) == [*SIX, "more_tools"]


async def test_what_somebody_opted_in_is_listed_at_once(module: MemoryModule) -> None:
    reading = ["memory_claim_episodes", "memory_submit_consolidation"]
    async with Client(LightMCP("general", [module], opted=("consolidate",))) as client:
        assert sorted(await names(client)) == sorted([*SIX, "more_tools", *reading])


async def test_without_memory_the_other_tools_can_be_asked_for() -> None:
    module = NotebookModule(ButlerEnvironment("general"), NotebookModule.settings_model())
    async with Client(LightMCP("general", [module])) as client:
        assert await names(client) == ["more_tools"]
        await said(client, "more_tools", names=["note_save"])
        assert await names(client) == ["more_tools", "note_save"]


async def test_ten_recalled_memories_take_four_kilobytes(module: MemoryModule) -> None:
    async with Client(ButlerMCP("general", [module])) as client:
        for number in range(10):
            content = f"likes her tea number {number} without sugar and with a slice of lemon in it"
            fact = {"subject": f"Person {number}", "predicate": "preference", "content": content}
            assert not (await client.call_tool("memory_store_fact", fact)).is_error
        result = await client.call_tool("memory_recall", {"topic": "likes tea"})
        full = await client.call_tool("memory_recall", {"topic": "likes tea", "detail": "full"})
    rows = json.loads(text_of(result))
    assert len(rows) == 10 and len(text_of(result).encode()) <= MOST_BYTES
    kept = {"memory_type", "id", "content", "subject", "predicate", "created_at", "source", "state"}
    assert all(kept <= row.keys() for row in rows)
    # A program reads every score, and whoever asks for full detail gets it.
    assert all("score_parts" in row for row in result.structured_content["result"])
    assert json.loads(text_of(full)) == full.structured_content["result"]


@pytest.mark.contract("L54")
async def test_two_tools_need_the_right_to_operate(daemon: Daemon, tokens: TokenStore) -> None:
    _, token = tokens.create("general", "writer", rights=Right.WRITE)
    async with over_http(daemon, token) as client:
        assert len(await names(client)) == 17
        for tool in ("memory_run_consolidation", "memory_run_episode_cleanup"):
            refused = await client.call_tool(tool, {})
            assert refused.is_error and "operate" in text_of(refused)
