"""The note tools over real transports: who may see what, what they answer, how they refuse."""

import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import httpx2
import pytest
from mcp import Client

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from interfaces.daemons import Daemon, butlers, up
from interfaces.furnished import furnished_home
from interfaces.mcp.clients import call, over_http, over_stdio, refusal

SETTINGS = """
[modules.memory]
enabled = false
[modules.notebook]
enabled = true
"""
TOOLS = {
    "note_save": {"key", "content", "agent", "request_context"},
    "note_recall": {"key", "request_context"},
    "note_search": {
        "query", "limit", "mode", "category", "min_similarity", "request_context",
    },
    "note_list": {"category", "limit", "request_context"},
    "note_related": {"key", "limit", "request_context"},
}  # fmt: skip


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with furnished_home("general") as home:
        assert butlers("new", "general", "--home", home.root).returncode == 0
        home.butler_file("general").write_text(SETTINGS)
        with up(home) as running:
            yield running


def token(daemon: Daemon, tenant: str, agent: str = "") -> str:
    return TokenStore(daemon.home.tokens_file).create(
        "general", tenant, agent=agent, rights=Right.OPERATE
    )[1]


@pytest.fixture
async def ann(daemon: Daemon) -> AsyncIterator[Client]:
    """An agent of a tenant that no other test has."""
    async with over_http(daemon, token(daemon, f"t{uuid.uuid4().hex}", "ann")) as client:
        yield client


async def test_exactly_the_five_tools_are_offered_and_described(daemon: Daemon) -> None:
    schemas = "?output_schemas=true"
    async with over_http(daemon, token(daemon, "described"), query=schemas) as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert offered.keys() == TOOLS.keys()
    for name, parameters in TOOLS.items():
        tool = offered[name]
        assert tool.input_schema["properties"].keys() == parameters
        assert tool.input_schema["additionalProperties"] is False
        assert all("description" in schema for schema in tool.input_schema["properties"].values())
        assert tool.description and tool.output_schema


async def test_a_note_is_saved_recalled_listed_and_found(ann: Client) -> None:
    saved = await call(ann, "note_save", key="api-key", content="secret token for GitHub")
    assert saved["category"] == "credential"
    assert 0 < saved["category_confidence"] <= 1
    assert saved["agent_id"] == "ann"
    assert datetime.fromisoformat(saved["updated_at"]).utcoffset() is not None
    assert (await call(ann, "note_recall", key="api-key"))["result"] == saved
    (listed,) = (await call(ann, "note_list", category="credential"))["result"]
    assert listed["id"] == saved["id"]
    assert (await call(ann, "note_list", category="task"))["result"] == []
    found = await call(ann, "note_search", query="github token")
    assert found.keys() == {"memories", "mode", "total_candidates"}
    assert (found["mode"], found["total_candidates"]) == ("fast", 1)
    (one,) = found["memories"]
    assert one.keys() == {"memory", "score", "source"}
    assert one["memory"] == listed


async def test_saving_again_changes_the_note(ann: Client) -> None:
    first = await call(ann, "note_save", key="k", content="one")
    second = await call(ann, "note_save", key="k", content="two")
    assert second["id"] == first["id"]
    assert (await call(ann, "note_recall", key="k"))["result"]["content"] == "two"
    assert (await call(ann, "note_recall", key="nowhere"))["result"] is None


async def test_related_notes_are_found_by_key(ann: Client) -> None:
    await call(ann, "note_save", key="a", content="cluster failover runbook")
    await call(ann, "note_save", key="b", content="cluster failover drill")
    await call(ann, "note_save", key="c", content="noodles")
    (related,) = (await call(ann, "note_related", key="a"))["result"]
    assert related["memory"]["key"] == "b"
    assert 0.05 < related["score"] < 1
    told = await refusal(ann, "note_related", key="zzz")
    assert told == "key: found 'zzz'; valid is a key that note_list shows"


@pytest.mark.parametrize("text", ["% _ \" ' * NEAR(", "नमस्ते दुनिया", "{}", "123", "NOT cluster OR"])
async def test_text_is_only_text(ann: Client, text: str) -> None:
    assert (await call(ann, "note_save", key=text, content=text))["content"] == text
    assert (await call(ann, "note_recall", key=text))["result"]["content"] == text
    await call(ann, "note_search", query=text)


@pytest.mark.contract("K-I1", "L24")
async def test_neither_another_agent_nor_another_tenant_sees_a_note(daemon: Daemon) -> None:
    mine, theirs = f"t{uuid.uuid4().hex}", f"t{uuid.uuid4().hex}"
    async with (
        over_http(daemon, token(daemon, mine, "ann")) as ann,
        over_http(daemon, token(daemon, mine, "bob")) as bob,
        over_http(daemon, token(daemon, theirs, "ann")) as rival,
        over_http(daemon, token(daemon, mine)) as nobody,
    ):
        await call(ann, "note_save", key="plan", content="kubernetes of ann")
        for other in (bob, rival, nobody):
            assert (await call(other, "note_recall", key="plan"))["result"] is None
            assert (await call(other, "note_list"))["result"] == []
            assert (await call(other, "note_search", query="kubernetes"))["memories"] == []
            await refusal(other, "note_related", key="plan")
        for other in (bob, rival, nobody):
            await call(other, "note_save", key="plan", content="kubernetes elsewhere")
        found = await call(ann, "note_search", query="kubernetes")
        assert [one["memory"]["content"] for one in found["memories"]] == ["kubernetes of ann"]
        told = await refusal(bob, "note_save", key="plan", content="forged", agent="ann")
        assert told == "agent: found 'ann'; valid is your own name, 'bob', and no other"


async def test_a_new_token_for_the_same_agent_sees_the_same_notes(daemon: Daemon) -> None:
    tenant = f"t{uuid.uuid4().hex}"
    for agent in ("ann", ""):
        async with over_http(daemon, token(daemon, tenant, agent)) as client:
            await call(client, "note_save", key="k", content=f"of {agent}")
        async with over_http(daemon, token(daemon, tenant, agent)) as client:
            found = (await call(client, "note_recall", key="k"))["result"]
        assert (found["content"], found["agent_id"]) == (f"of {agent}", agent or "general")


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("note_save", {"key": " ", "content": "x"}, "key ' ' is empty; give the note a name"),
        ("note_save", {"key": "k" * 201, "content": "x"}, "key has 201 characters; the limit is"),
        ("note_save", {"key": "k"}, "content: required, but missing"),
        ("note_save", {"key": "k", "content": "x", "tenant_id": "t"}, "no such argument; valid"),
        ("note_search", {"query": "x", "mode": "slow"}, "mode is 'slow'; give one of"),
        ("note_search", {"query": "x", "limit": 0}, "limit is 0; give a whole number from 1"),
        ("note_search", {"query": "x", "min_similarity": 2}, "min_similarity is 2.0; give"),
        ("note_search", {"query": "x", "category": "food"}, "category: found 'food'; valid are"),
        ("note_list", {"category": "food"}, "category: found 'food'; valid are config, code"),
        ("note_list", {"limit": -1}, "limit is -1; give a whole number"),
        ("note_list", {"request_context": {"request_id": 7}}, "request_id: found 7; valid is"),
    ],
)
async def test_bad_input_is_refused_by_field_value_and_what_is_valid(
    ann: Client, tool: str, arguments: dict[str, Any], told: str
) -> None:
    assert told in await refusal(ann, tool, **arguments)
    assert (await call(ann, "note_list"))["result"] == []


async def test_the_request_id_comes_back(ann: Client) -> None:
    context = {"request_id": "r-17"}
    saved = await call(ann, "note_save", key="k", content="x", request_context=context)
    assert saved["request_id"] == "r-17"


async def test_the_file_lies_in_the_butlers_directory_and_health_counts(daemon: Daemon) -> None:
    file = daemon.home.butler_directory("general") / "notes.sqlite"
    assert file.stat().st_mode & 0o777 == 0o600
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
        known = {"Authorization": f"Bearer {daemon.running['key']}"}
        report = (await http.get(f"{daemon.url}/health", headers=known)).json()
    modules = report["butlers"]["general"]["modules"]
    assert modules["notebook"]["status"] == "ok"
    assert modules["notebook"]["notes"] >= 0


async def test_a_stdio_server_beside_the_daemon_is_the_butlers_own_agent(daemon: Daemon) -> None:
    async with over_stdio(daemon.home) as local:
        await call(local, "note_save", key="k", content="from stdio")
    async with over_http(daemon, token(daemon, "default")) as served:
        found = (await call(served, "note_recall", key="k"))["result"]
        assert found["content"] == "from stdio"
        async with over_stdio(daemon.home) as local:
            await call(local, "note_save", key="k", content="changed")
        assert (await call(served, "note_recall", key="k"))["result"]["content"] == "changed"
