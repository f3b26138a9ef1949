"""One operation, one declaration: every door offers it, with the same fields, or says why not."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from butlers.errors import InvalidInput
from butlers.host.registry import KNOWN
from butlers.interfaces import methods
from butlers.interfaces.cli import app
from butlers.interfaces.http.routes import operation_routes
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.kernel.token_count import count_tokens
from butlers.memory.operations import OPERATIONS, OperationContext, retrieval, storage
from butlers.module import ButlerEnvironment
from butlers.operation import Detail, Operation, OperationEffect, Toolset
from references import operations as docs

DOCS = Path(__file__).parents[2] / "docs"
ALL = [(name, operation) for name, module in KNOWN.items() for operation in module.operations]
every_operation = pytest.mark.parametrize(
    ("module", "operation"), ALL, ids=[f"{name}.{one.name}" for name, one in ALL]
)
# What a door adds to the fields of an operation, or says by other means, and why.
ENVELOPE = {
    "mcp": {"request_context", "tenant_id"},  # lineage; compatibility, refused unless one's own
    "cli": {"butler", "home", "tenant", "agent", "as_json"},  # where and as whom
}
SAID_OTHERWISE = {
    "cli": {"detail": "a table shows what fits it, --json everything", "agent": "--agent says it"},
    "python": methods.WIRE_FIELDS,
}


def offering(toolset: Toolset) -> dict[str, Any]:
    modules = [module(ButlerEnvironment("general")) for module in KNOWN.values()]
    return ButlerMCP("general", modules, toolset=toolset).tools


TOOLS = offering(Toolset.ALL)
ROUTES = operation_routes().routes
_GROUPS = {"memory": [], "notebook": ["notes"]}
ROOT = typer.main.get_command(app)


def command_of(module: str, operation: Operation) -> Any:
    """The click command that stands for an operation."""
    path = [*_GROUPS[module], *operation.command.split()]
    command, context = ROOT, ROOT.make_context("butlers", [], resilient_parsing=True)
    for name in path:
        command = command.get_command(context, name)
        assert command is not None, path
        context = command.make_context(name, [], context, resilient_parsing=True)
    return command


def test_there_is_something_to_look_at() -> None:
    assert len(ALL) >= 45
    for missing in ("undo_correction", "correct", "restore", "history", "explain", "get_links",
                    "dead_letters", "requeue", "reembed", "list_facts"):  # fmt: skip
        assert OPERATIONS[missing].words


@every_operation
def test_a_door_that_leaves_it_out_says_why(module: str, operation: Operation) -> None:
    assert operation.left_out.keys() <= {"mcp", "http", "cli", "python"}
    assert all(len(why) > 20 for why in operation.left_out.values())
    left_out = {
        "mcp": operation.tool not in TOOLS,
        "http": operation.name not in {route.name for route in ROUTES},
        "cli": command_of(module, operation) is None,
        "python": module != "memory" or not hasattr(methods.Methods, operation.name),
    }
    assert {door for door, out in left_out.items() if out} == operation.left_out.keys()


@every_operation
def test_every_door_has_the_same_fields(module: str, operation: Operation) -> None:
    fields = set(operation.input_model.model_fields)
    if operation.tool in TOOLS:
        served = set(TOOLS[operation.tool].parameters["properties"])
        assert served - ENVELOPE["mcp"] == fields - set(operation.tool_without)
    names = {one.name for one in command_of(module, operation).params} - {"help"}
    typed = {name.removeprefix("f_") for name in names if name.startswith("f_")}
    if "ids" in typed:
        typed = typed - {"ids"} | {operation.arguments[0]} | fields & {"memory_type"}
    assert {name for name in names if not name.startswith("f_")} <= ENVELOPE["cli"]
    assert typed == fields - SAID_OTHERWISE["cli"].keys()
    if "python" not in operation.left_out:
        called = set(methods.signature_of(operation).parameters) - {"self"}
        assert called == fields - SAID_OTHERWISE["python"].keys()


@every_operation
def test_every_route_has_the_same_fields(module: str, operation: Operation) -> None:
    for route in ROUTES:
        if route.name != operation.name or operation.tool not in route.operation_id:
            continue
        dependant = route.dependant
        asked = [
            one.field_info.annotation for one in (*dependant.query_params, *dependant.body_params)
        ]
        told = {name for model in asked for name in getattr(model, "model_fields", ())}
        named = {one.name for one in dependant.path_params} - {"name"}
        kinds = {"fact_id", "rule_id", "episode_id"} - set(operation.input_model.model_fields)
        if named & kinds:
            named = named - kinds | {"memory_id", "memory_type"}
        assert told | named == set(operation.input_model.model_fields), route.path


@every_operation
def test_it_is_described_for_a_model_and_for_a_person(module: str, operation: Operation) -> None:
    assert operation.words.endswith(".")
    assert "Returns" in operation.words
    for name, field in operation.input_model.model_fields.items():
        assert field.description, name


@pytest.mark.parametrize("page", docs.PAGES)
def test_the_references_are_up_to_date(page: str) -> None:
    written = (DOCS / page).read_text("utf-8")
    assert written == docs.filled(written, docs.PAGES[page]())
    assert "made from the operations" in written


def test_the_types_of_the_methods_are_up_to_date() -> None:
    assert docs.STUB.read_text("utf-8") == docs.stub()


def test_the_core_tools_are_six_and_cost_little() -> None:
    core = offering(Toolset.CORE)
    assert set(core) == {
        "memory_context", "memory_recall", "memory_store_episode", "memory_store_fact",
        "memory_store_rule", "memory_forget",
    } | {"note_save", "note_recall"} & set(core)  # fmt: skip
    memory = [tool for name, tool in core.items() if name.startswith("memory_")]
    assert len(memory) == 6
    schemas = [{"name": one.name, "inputSchema": one.parameters} for one in memory]
    assert count_tokens(json.dumps(schemas)) < 2_000


def test_sets_of_tools_hold_each_other() -> None:
    core, standard = offering(Toolset.CORE), offering(Toolset.STANDARD)
    assert set(core) < set(standard) < set(TOOLS)
    assert len([name for name in standard if not name.startswith("note_")]) == 19


async def test_ten_recalled_memories_take_less_than_five_kilobytes(memory, lineage) -> None:
    ctx = OperationContext(memory, lineage)
    for number in range(10):
        await storage.store_fact.perform(
            ctx,
            subject=f"Person {number}",
            predicate="preference",
            content=f"likes her tea number {number} without sugar and with a slice of lemon in it",
        )
    brief = await retrieval.recall.perform(ctx, topic="likes tea")
    full = await retrieval.recall.perform(ctx, topic="likes tea", detail=Detail.FULL)
    assert len(brief) == len(full) == 10
    assert len(json.dumps(brief)) < 5_000 < len(json.dumps(full))
    for one in brief:
        assert {"id", "memory_type", "content", "subject", "predicate", "state", "created_at",
                "composite_score", "score_parts", "rrf_score"} <= one.keys()  # fmt: skip
        assert "tenant_id" not in one
        assert None not in one.values()
    digits = [value for one in brief for value in one["score_parts"].values()]
    assert all(len(repr(value)) <= 6 for value in digits)


async def test_brief_tells_how_long_a_cut_text_is(memory, lineage) -> None:
    ctx = OperationContext(memory, lineage)
    stored = await storage.store_rule.perform(ctx, content="tea " * 1_000)
    (found,) = await retrieval.search.perform(ctx, query="tea")
    assert (len(found["content"]), found["content_length"]) == (2_000, 3_999)
    for detail in Detail:  # who reads one memory is told all of it
        whole = await retrieval.get.perform(ctx, memory_id=stored["id"], detail=detail)
        assert (len(whole["content"]), "content_length" in whole) == (3_999, False)


async def test_metadata_is_told_as_it_was_given(memory, lineage) -> None:
    ctx, given = (
        OperationContext(memory, lineage),
        {"seen_at": "noon", "confidence": 0.123456789, "n": None},
    )
    await storage.store_rule.perform(ctx, content="Drink tea", metadata=given)
    (found,) = await retrieval.search.perform(ctx, query="tea")
    assert found["metadata"] == given


def test_what_changes_something_says_so() -> None:
    """Whoever forgets to say it would be offered as reading only, and called unasked."""
    writing = {operation.name for _, operation in ALL if operation.effect is OperationEffect.WRITES}
    assert writing == {
        "store_episode", "store_fact", "store_rule", "store_batch", "correct", "undo_correction",
        "confirm", "mark_helpful", "mark_harmful", "forget", "restore", "create_link",
        "create_entity", "update_entity", "merge_entities", "unmerge_entities",
        "run_consolidation", "requeue", "reembed", "save",
        "summarize", "claim_episodes", "submit_consolidation", "accept_proposal",
        "decline_proposal", "share_project", "move_project", "accept_quarantined",
        "reject_quarantined", "undo_source", "keep", "settle_conflict", "tell_predicate",
        "restore_decision", "retire_decision",
    }  # fmt: skip


def test_what_cannot_be_undone_is_known() -> None:
    final = {operation.name for _, operation in ALL if operation.effect is OperationEffect.FINAL}
    assert final == {"run_episode_cleanup"}
    assert TOOLS["memory_run_episode_cleanup"].annotations.destructive_hint is True


@pytest.mark.contract("L37")
@pytest.mark.parametrize(
    "operation", [storage.store_episode, storage.store_fact, storage.store_rule]
)
def test_a_caller_may_lower_its_own_origin_and_never_raise_it(operation: Operation) -> None:
    given = {"subject": "a", "predicate": "b", "content": "c"}
    given = {name: value for name, value in given.items() if name in operation.fields}
    assert operation.parse({**given, "origin": "document"}).origin == "document"
    assert operation.parse({**given, "origin": None}).origin is None
    for raised in ("operator", "user", "agent", "inferred", "", 1):
        with pytest.raises(InvalidInput, match="valid are document, tool"):
            operation.parse({**given, "origin": raised})
