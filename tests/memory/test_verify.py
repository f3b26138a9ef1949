"""The audit trail shows by itself whether anything of it was changed, removed or added."""

import asyncio
import json
import uuid

import asyncpg
import pytest

from butlers.memory.flows import entities, forget, remember
from butlers.memory.flows.history import verify_events
from butlers.memory.model import NewFact
from memory.audit_stream import events

SUBJECTS = ("Ann", "Bob", "Cai", "Dee", "Eve")


@pytest.fixture
async def told(memory, lineage, stranger):
    """The ids of some events, in the order they were told, beside those of another tenant."""
    for subject in SUBJECTS:
        await remember.store_fact(memory, NewFact(subject, "likes", "tea"), lineage)
        await remember.store_fact(memory, NewFact(subject, "likes", "ale"), stranger)
    async with memory.transaction(lineage) as tx:
        rows = await tx._connection.fetch("select id from memory_events order by sequence")
    return [row["id"] for row in rows]


async def test_a_trail_that_nobody_changed_is_intact(memory, lineage, told):
    found = await verify_events(memory, lineage)
    assert (found["intact"], found["events"], found["faults"]) == (True, len(told), [])


async def unguarded(owner, statement, *values):
    """What somebody does who owns the server: no trigger stops it."""
    async with owner.transaction():
        await owner.execute("set local session_replication_role = replica")
        await owner.execute(statement, *values)


def faults(found):
    return [(fault["fault"], fault["number"]) for fault in found["faults"]]


CHANGES = {
    "event_type": "'fact_expired'",
    "actor": "'somebody'",
    "request_id": "null",
    "memory_type": "'rule'",
    "memory_id": "gen_random_uuid()",
    "created_at": "created_at + interval '1 microsecond'",
    "payload": 'payload || \'{"subject": "Zoe"}\'',
}


@pytest.mark.contract("L39")
@pytest.mark.parametrize("column", CHANGES)
async def test_a_changed_event_is_found(memory, lineage, owner, told, column):
    statement = f"update memory_events set {column} = {CHANGES[column]} where id = $1"
    await unguarded(owner, statement, told[2])
    found = await verify_events(memory, lineage)
    assert not found["intact"]
    assert faults(found) == [("changed", 3)]
    assert found["faults"][0]["event_id"] == str(told[2])


async def test_what_is_missing_added_or_cut_off_is_found(memory, lineage, stranger, owner, told):
    head = (await verify_events(memory, lineage))["head"]
    await unguarded(owner, "delete from memory_events where id = $1", told[1])
    assert faults(await verify_events(memory, lineage)) == [("missing", 2)]
    await unguarded(owner, "delete from memory_event_chain where event_id = $1", told[1])
    assert faults(await verify_events(memory, lineage)) == [("gap", 3)]

    forged = uuid.uuid4()
    await unguarded(
        owner,
        "insert into memory_events (id, tenant_id, event_type, created_at) "
        "values ($1, 'acme', 'fact_expired', now())",
        forged,
    )
    found = await verify_events(memory, lineage)
    assert faults(found) == [("gap", 3), ("added", None)]
    assert found["faults"][1]["event_id"] == forged
    assert (await verify_events(memory, stranger))["intact"]

    for table, column in (("memory_events", "id"), ("memory_event_chain", "event_id")):
        await unguarded(owner, f"delete from {table} where {column} = any($1)", [told[0], told[1]])
        await unguarded(owner, f"delete from {table} where {column} = any($1)", [told[4], forged])
    found = await verify_events(memory, lineage, head)
    assert faults(found) == [("head", None), ("gap", 3)]


async def test_a_head_noted_elsewhere_is_found_again(memory, lineage, told):
    noted = (await verify_events(memory, lineage))["head"]
    await remember.store_fact(memory, NewFact("Fay", "likes", "tea"), lineage)
    found = await verify_events(memory, lineage, noted)
    assert (found["intact"], found["since_head"]) == (True, 1)
    assert found["head"] != noted


@pytest.mark.contract("L39", "N5.4")
async def test_an_erased_text_leaves_the_chain_as_it_was(memory, lineage, stranger, owner, told):
    head = (await verify_events(memory, lineage))["head"]
    await entities.create_entity(memory, "Ida", "person", [], {"from": "ida"}, lineage)
    foreign = [e["id"] for e in await events(owner) if e["tenant_id"] == "rival"]
    async with memory.transaction(lineage) as tx:
        ids = [row["id"] for row in await tx._connection.fetch("select id from memory_events")]
        assert await tx._connection.fetchval("select erase_event_texts($1)", ids + foreign) == 6
        assert await tx._connection.fetchval("select erase_event_texts($1)", ids + foreign) == 0
    ours = [event for event in await events(owner) if event["tenant_id"] == "acme"]
    assert not any(name in json.dumps(ours, default=str) for name in (*SUBJECTS, "Ida", "ida"))
    assert {event["payload"]["to"] for event in ours[:5]} == {"active"}
    assert [e["payload"]["subject"] for e in await events(owner) if e["tenant_id"] == "rival"]

    found = await verify_events(memory, lineage, head)
    assert {fault for fault, _ in faults(found)} == {"erased"}
    await tell_of_erasing(owner, ids)
    found = await verify_events(memory, lineage, head)
    assert (found["intact"], found["events"], found["erased"]) == (True, 7, 6)


async def tell_of_erasing(owner, ids):
    payload = json.dumps({"event_ids": [str(one) for one in ids]})
    await owner.execute(
        "insert into memory_events (tenant_id, event_type, payload) "
        "values ('acme', 'memory_erased', $1)",
        payload,
    )


@pytest.mark.contract("L39")
@pytest.mark.parametrize(
    "change",
    [
        "payload = payload",
        "payload = '{}'",
        'payload = payload || \'{"subject": "sha256:' + "0" * 64 + "\"}'",
        "payload = payload || '{\"more\": 1}'",
        "actor = digest_of(to_jsonb(actor))",
    ],
)
async def test_an_event_changes_in_no_other_way(owner, told, change):
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
        await owner.execute(f"update memory_events set {change} where id = $1", told[0])


async def test_a_text_that_looks_erased_from_the_first_is_no_fault(memory, lineage, told):
    odd = NewFact(f"sha256:{'a' * 64}", "likes", "tea")
    await remember.store_fact(memory, odd, lineage)
    found = await verify_events(memory, lineage)
    assert (found["intact"], found["erased"]) == (True, 0)


@pytest.mark.contract("L39")
async def test_why_a_rule_was_tried_is_erased_too(owner, memory, lineage):
    await owner.execute(
        "with r as (insert into rules (tenant_id, content) values ('acme', 'x') returning id) "
        "insert into rule_applications (id, tenant_id, rule_id, outcome, reason, context, "
        "created_at) select gen_random_uuid(), 'acme', id, 'harmful', 'hurt Ida', "
        '\'{"who": "Ida"}\', now() from r'
    )
    rules = [row["id"] for row in await owner.fetch("select id from rules")]
    async with memory.transaction(lineage) as tx:
        erase = "select erase_application_texts($1)"
        assert [await tx._connection.fetchval(erase, rules) for _ in range(2)] == [1, 0]
    [row] = await owner.fetch("select reason, context::text from rule_applications")
    assert "Ida" not in "".join(row.values())


async def test_writers_at_once_make_one_chain(memory, lineage):
    async def write(writer):
        for number in range(8):
            fact = NewFact(f"{writer} {number}", "likes", "tea")
            stored = await remember.store_fact(memory, fact, lineage)
            await forget.forget_memory(memory, "fact", stored.id, lineage)

    await asyncio.gather(*map(write, range(6)))
    found = await verify_events(memory, lineage)
    assert (found["intact"], found["events"]) == (True, 96)
