"""What the server offers: the nineteen tools, their parameters, and words for a model."""

import asyncio
from typing import Any

import pytest

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.memory.module import MemoryModule
from butlers.memory.settings import MemoryModuleConfig
from butlers.module import ButlerEnvironment
from interfaces.daemons import Daemon
from interfaces.mcp.clients import over_http

REQUIRED = object()
OPTIONAL = None

# Every tool with its parameters and their defaults, as the contract names them.
WRITING = {
    "memory_store_episode": {
        "content": REQUIRED,
        "butler": REQUIRED,
        "session_id": OPTIONAL,
        "importance": 5.0,
    },
    "memory_store_fact": {
        "subject": REQUIRED,
        "predicate": REQUIRED,
        "content": REQUIRED,
        "importance": 5.0,
        "permanence": "standard",
        "scope": "global",
        "tags": OPTIONAL,
        "entity_id": OPTIONAL,
    },
    "memory_store_rule": {"content": REQUIRED, "scope": "global", "tags": OPTIONAL},
}
READING = {
    "memory_search": {
        "query": REQUIRED,
        "types": OPTIONAL,
        "scope": OPTIONAL,
        "mode": "hybrid",
        "limit": 10,
        "min_confidence": 0.2,
    },
    "memory_recall": {"topic": REQUIRED, "scope": OPTIONAL, "limit": 10},
    "memory_get": {"memory_type": REQUIRED, "memory_id": REQUIRED},
}
FEEDBACK = {
    "memory_confirm": {"memory_type": REQUIRED, "memory_id": REQUIRED},
    "memory_mark_helpful": {"rule_id": REQUIRED},
    "memory_mark_harmful": {"rule_id": REQUIRED, "reason": OPTIONAL},
}
MANAGEMENT = {
    "memory_forget": {"memory_type": REQUIRED, "memory_id": REQUIRED},
    "memory_stats": {"scope": OPTIONAL},
}
CONTEXT = {"memory_context": {"trigger_prompt": REQUIRED, "butler": OPTIONAL, "token_budget": 3000}}
ENTITIES = {
    "entity_create": {
        "canonical_name": REQUIRED,
        "entity_type": REQUIRED,
        "tenant_id": REQUIRED,
        "aliases": OPTIONAL,
        "metadata": OPTIONAL,
    },
    "entity_get": {"entity_id": REQUIRED, "tenant_id": OPTIONAL},
    "entity_update": {
        "entity_id": REQUIRED,
        "canonical_name": OPTIONAL,
        "aliases": OPTIONAL,
        "metadata": OPTIONAL,
        "tenant_id": OPTIONAL,
    },
    "entity_resolve": {
        "name": REQUIRED,
        "tenant_id": "default",
        "entity_type": OPTIONAL,
        "context_hints": OPTIONAL,
        "enable_fuzzy": False,
    },
    "entity_merge": {
        "source_entity_id": REQUIRED,
        "target_entity_id": REQUIRED,
        "tenant_id": OPTIONAL,
    },
}
UPKEEP = {
    "memory_run_consolidation": {},
    "memory_run_episode_cleanup": {"max_entries": 10000},
}
# What every door offers beyond the contract's parameters: optional, and safe when left out.
ATTACHED = {"metadata": OPTIONAL, "idempotency_key": OPTIONAL, "origin": OPTIONAL}
TOLD = {"detail": "brief"}
THEN = {"as_of": OPTIONAL, "known_at": OPTIONAL}
ADDED = {
    "memory_store_episode": ATTACHED,
    "memory_store_fact": ATTACHED
    | dict.fromkeys(
        ("source_episode_id", "said_at", "valid_from", "valid_to", "depends_on"), OPTIONAL
    ),
    "memory_store_rule": ATTACHED | {"source_episode_id": OPTIONAL},
    "memory_search": TOLD | THEN | {"min_relevance": 0.0},
    "memory_recall": TOLD | THEN | {"types": OPTIONAL, "counted": True, "nearest": False},
    "memory_context": THEN,
    "memory_get": {"detail": "full"},
    "memory_mark_helpful": TOLD | {"context": OPTIONAL},
    "memory_mark_harmful": TOLD | {"context": OPTIONAL},
}
ALL = WRITING | READING | FEEDBACK | MANAGEMENT | CONTEXT | ENTITIES | UPKEEP


@pytest.fixture(scope="module")
def offered(daemon: Daemon, tokens: TokenStore) -> dict[str, Any]:
    """What a client is shown, by name."""
    _, token = tokens.create("general", "surface", rights=Right.OPERATE)
    return asyncio.run(listed(daemon, token))


async def listed(daemon: Daemon, token: str, query: str = "") -> dict[str, Any]:
    async with over_http(daemon, token, query=query) as client:
        return {tool.name: tool for tool in (await client.list_tools()).tools}


@pytest.mark.contract("L18")
def test_exactly_the_nineteen_tools_are_offered(offered: dict[str, Any]) -> None:
    assert set(offered) == set(ALL)
    assert len(offered) == 19
    assert "entity_id" in offered["memory_store_fact"].input_schema["properties"]


@pytest.mark.contract("N9.1")
def test_the_twelve_stable_tools_need_nothing_beyond_their_core(offered: dict[str, Any]) -> None:
    stable = WRITING | READING | FEEDBACK | MANAGEMENT | CONTEXT
    assert len(stable) == 12
    for name, parameters in stable.items():
        needed = [key for key, default in parameters.items() if default is REQUIRED]
        assert offered[name].input_schema.get("required", []) == needed


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param(WRITING, marks=pytest.mark.contract("R19.1"), id="writing"),
        pytest.param(READING, marks=pytest.mark.contract("R19.2"), id="reading"),
        pytest.param(FEEDBACK, marks=pytest.mark.contract("R19.3"), id="feedback"),
        pytest.param(MANAGEMENT, marks=pytest.mark.contract("R19.4"), id="management"),
        pytest.param(CONTEXT, marks=pytest.mark.contract("R19.5"), id="context"),
        pytest.param(ENTITIES, marks=pytest.mark.contract("R19.6"), id="entities"),
        pytest.param(UPKEEP, marks=pytest.mark.contract("R19.7"), id="upkeep"),
    ],
)
def test_parameters_and_defaults(
    offered: dict[str, Any], expected: dict[str, dict[str, Any]]
) -> None:
    for name, parameters in expected.items():
        expected = parameters | ADDED.get(name, {}) | {"request_context": OPTIONAL}
        assert parameters_of(offered[name]) == expected, name


def parameters_of(tool: Any) -> dict[str, Any]:
    """Each parameter and its default; one that is required has none, and null goes unsaid."""
    schema = tool.input_schema
    required = schema.get("required", [])
    for name, parameter in schema["properties"].items():
        left_out = "default" in parameter or "null" in parameter.get("type", ())
        assert left_out == (name not in required)
    return {
        name: REQUIRED if name in required else parameter.get("default")
        for name, parameter in schema["properties"].items()
    }


def test_every_tool_and_parameter_is_described_for_a_model(offered: dict[str, Any]) -> None:
    for tool in offered.values():
        assert len(tool.description) > 80, tool.name
        assert "Returns" in tool.description, tool.name
        assert tool.description == tool.description.strip()
        assert "\n    " not in tool.description, "indented as in the source"
        for name, parameter in tool.input_schema["properties"].items():
            assert parameter.get("description"), f"{tool.name}.{name}"


@pytest.mark.contract("L54")
async def test_the_schema_of_every_result_is_sent_on_request(
    offered: dict[str, Any], daemon: Daemon, tokens: TokenStore
) -> None:
    assert not any(tool.output_schema for tool in offered.values())
    _, token = tokens.create("general", "surface", rights=Right.OPERATE)
    asked_for = await listed(daemon, token, "?output_schemas=true")
    assert asked_for.keys() == offered.keys()
    for tool in asked_for.values():
        assert tool.output_schema["type"] == "object"
        assert tool.output_schema["required"], tool.name


def test_what_a_tool_does_not_know_its_schema_excludes(offered: dict[str, Any]) -> None:
    for tool in offered.values():
        assert tool.input_schema["additionalProperties"] is False


def test_vocabularies_are_advertised(offered: dict[str, Any]) -> None:
    def words(tool: str, parameter: str) -> list[str]:
        return list(offered[tool].input_schema["properties"][parameter]["enum"])

    assert words("memory_store_fact", "permanence") == [
        "permanent", "stable", "standard", "volatile", "ephemeral",
    ]  # fmt: skip
    assert words("memory_search", "mode") == ["semantic", "keyword", "hybrid"]
    assert words("memory_get", "memory_type") == ["episode", "fact", "rule"]
    assert words("memory_confirm", "memory_type") == ["fact", "rule"]
    assert words("entity_create", "entity_type") == ["person", "organization", "place", "other"]


def test_reading_tools_say_that_they_only_read(offered: dict[str, Any]) -> None:
    """Clients ask their user before a tool that changes something, and may not have one to ask."""
    reading = {n for n, t in offered.items() if t.annotations and t.annotations.read_only_hint}
    assert reading == {
        "memory_search", "memory_recall", "memory_get", "memory_stats", "memory_context",
        "entity_get", "entity_resolve",
    }  # fmt: skip


def test_butlers_share_what_their_tools_have_in_common_and_keep_defaults_of_their_own() -> None:
    def shown(mode: str) -> Any:
        config = MemoryModuleConfig.model_validate({"retrieval": {"default_mode": mode}})
        module = MemoryModule(ButlerEnvironment("general"), config)
        return ButlerMCP("general", [module]).tools["memory_search"]

    one, other, third = shown("hybrid"), shown("keyword"), shown("hybrid")
    modes = [tool.parameters["properties"]["mode"]["default"] for tool in (one, other, third)]
    assert modes == ["hybrid", "keyword", "hybrid"]
    assert one.fn_metadata is third.fn_metadata is not other.fn_metadata
