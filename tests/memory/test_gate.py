"""No secret gets past the gate, through whichever field of whichever operation it comes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from butlers.errors import InvalidInput
from butlers.kernel.secrets import mark
from butlers.memory.operations import OPERATIONS, OperationContext
from butlers.memory.settings import MemoryModuleConfig
from butlers.operation import Operation, OperationEffect
from memory.scripted_model import answer, fact

KEY = "gh" + "p_" + "x7Q" * 12
MASKED = mark("github token")
LOOKED_UP = "it names what is there, and is not stored"
NOT_STORED = {
    ("share_project", "project"): LOOKED_UP,
    ("move_project", "project"): LOOKED_UP,
    ("move_project", "to"): LOOKED_UP,
    ("undo_source", "token"): LOOKED_UP,
    ("store_fact", "valid_from"): "an instant, or it is refused",
    ("store_fact", "valid_to"): "an instant, or it is refused",
    ("settle_conflict", "since"): "an instant, or it is refused",
    ("undo_source", "session"): LOOKED_UP,
    ("reembed", "to"): "a directory of this machine, by the operator",
}


def takes_text(schema: dict[str, Any]) -> bool:
    """Whether a field may hold any text, at any depth."""
    if "enum" in schema or "format" in schema or schema.get("maxLength") == 36:
        return False
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return schema.get("type") in ("string", "object") or any(map(takes_text, inner))


def text_fields() -> Iterator[tuple[Operation, str, dict[str, Any]]]:
    """Every text that any writing operation may be given."""
    for operation in OPERATIONS:
        if operation.effect is not OperationEffect.READS:
            for name, schema in operation.input_model.model_json_schema()["properties"].items():
                if takes_text(schema) and (operation.name, name) not in NOT_STORED:
                    yield operation, name, schema


def planted(schema: dict[str, Any], value: str) -> Any:
    """A value for a field that holds the text, as deep as the field allows."""
    kinds = [one.get("type") for one in (schema, *schema.get("anyOf", ()))]
    if "object" in kinds:
        return {"note": [{"deep": f"use {value}"}], value: "x", "api_key": "Zx81Yw"}
    return [f"use {value}"] if "array" in kinds else f"use {value}"


async def a_home(ctx: OperationContext) -> dict[str, dict[str, Any]]:
    """What operations need to be called at all, by the name of each."""
    known = {"subject": "Ann", "predicate": "drinks", "content": "tea"}
    stored = await OPERATIONS["store_fact"].perform(ctx, **known)
    rule = await OPERATIONS["store_rule"].perform(ctx, content="Serve tea")
    person = {"canonical_name": "Ann", "entity_type": "person"}
    entity = await OPERATIONS["create_entity"].perform(ctx, **person)
    return {
        "store_episode": {"content": "Ann came"},
        "store_fact": {**known, "predicate": "eats"},
        "store_rule": {"content": "Serve tea"},
        "correct": {"fact_id": stored["id"], "content": "coffee"},
        "mark_helpful": {"rule_id": rule["id"]},
        "mark_harmful": {"rule_id": rule["id"]},
        "create_entity": {"canonical_name": "Bob", "entity_type": "person"},
        "update_entity": {"entity_id": entity["entity_id"]},
        "tell_predicate": {"holds": "one"},
    }


async def whole_database(owner: asyncpg.Connection) -> str:
    names = await owner.fetch(
        "select table_name from information_schema.tables where table_schema = 'public'"
        " and table_type = 'BASE TABLE'"
    )
    dumps = [await owner.fetch(f'select row_to_json(t)::text from "{one[0]}" t') for one in names]
    return "\n".join(row[0] for rows in dumps for row in rows)


async def test_every_text_of_every_writing_operation_is_masked(memory, lineage, owner) -> None:
    ctx = OperationContext(memory, lineage)
    calls = await a_home(ctx)
    walked = 0
    for operation, name, schema in text_fields():
        if operation.name in ("store_batch", "submit_consolidation"):
            continue  # told in tests of their own below
        if operation.name == "create_entity" and name != "canonical_name":
            calls["create_entity"]["canonical_name"] = f"Bob, by {name}"
        needed = calls.get(operation.name)
        assert needed is not None, f"{operation.name}.{name}: say how it is called, or why not"
        await operation.perform(ctx, **{**needed, name: planted(schema, f"{operation.name} {KEY}")})
        walked += 1
    kept = await whole_database(owner)
    assert KEY not in kept and "Zx81Yw" not in kept
    assert kept.count(MASKED) >= walked - 3, "but for the three idempotency keys"
    assert walked >= 25


async def test_a_batch_and_an_agents_answer_are_masked_too(memory, lineage, owner) -> None:
    ctx = OperationContext(memory, lineage)
    memories = [
        {"memory_type": "fact", "subject": "Ann", "predicate": "login", "content": KEY},
        {"memory_type": "episode", "content": f"Ann said {KEY}", "metadata": {KEY: [KEY]}},
        {"memory_type": "rule", "content": "Serve tea"},
    ]
    told = await OPERATIONS["store_batch"].perform(ctx, memories=memories)
    assert [one.get("masked") for one in told["results"]] == [1, 3, None]
    claim = await OPERATIONS["claim_episodes"].perform(ctx)
    drawn = fact("Ann", "has", KEY, source_episode_ids=[1])
    await OPERATIONS["submit_consolidation"].perform(
        ctx, claim_id=claim["claim_id"], answer=json.loads(answer(new_facts=[drawn]))
    )
    assert KEY not in await whole_database(owner)


async def test_what_was_masked_is_told_and_identities_stay(memory, lineage) -> None:
    ctx, store = OperationContext(memory, lineage), OPERATIONS["store_fact"]
    wifi = {"subject": "home", "predicate": "wifi password", "content": "swordfish"}
    first = await store.perform(ctx, **wifi, idempotency_key=f"a {KEY}")
    again = await store.perform(ctx, **wifi, idempotency_key=f"a {KEY}")
    other = await store.perform(ctx, **wifi, idempotency_key=f"b {KEY}")
    assert first["masked"] == 1
    assert first["id"] == again["id"] != other["id"]
    told = await OPERATIONS["get"].perform(ctx, memory_id=first["id"], memory_type="fact")
    assert told["content"] == mark("password")
    plain = await store.perform(ctx, subject="Ann", predicate="drinks", content="tea")
    assert set(plain) == {"id", "superseded_id"}


async def test_a_butler_may_refuse_secrets_or_keep_them(memory, lineage, owner) -> None:
    def context_of(secrets: str) -> OperationContext:
        config = MemoryModuleConfig.model_validate({"secrets": secrets})
        return OperationContext(replace(memory, settings=config), lineage)

    calls = await a_home(context_of("mask"))
    for operation, name, schema in text_fields():
        if operation.name in calls:
            given = {**calls[operation.name], name: planted(schema, f"{operation.name} {KEY}")}
            with pytest.raises(InvalidInput) as refused:
                await operation.perform(context_of("refuse"), **given)
            assert str(refused.value).startswith(name)
            assert "github token" in str(refused.value) and KEY not in str(refused.value)
    assert MASKED not in await whole_database(owner)
    await OPERATIONS["store_rule"].perform(context_of("keep"), content=f"Push with {KEY}")
    assert KEY in await whole_database(owner)
    block = await OPERATIONS["context"].perform(context_of("keep"), trigger_prompt="how to push")
    assert f"Push with {MASKED}" in block["text"]
