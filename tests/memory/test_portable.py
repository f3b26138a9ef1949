"""A tenant's memory is taken along whole, and is the same wherever it is brought in."""

import json
import uuid
from dataclasses import replace

import pytest

from butlers.errors import ButlersError, Conflict, IntegrityViolation, InvalidInput
from butlers.memory.flows import portable, recall
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.portable import ImportLine
from butlers.memory.store import rows
from butlers.memory.store.rows import KINDS
from memory.index import differences
from memory.whole_store import empty, fill, tables

# Tables with rows of tenants that are not taken along, and why.
LEFT = {
    "embedding_versions": "vectors are made anew by the model of wherever they are brought",
    "episode_vectors": "as above",
    "fact_vectors": "as above",
    "rule_vectors": "as above",
    "index_memories": "kept by triggers from the memories",
    "index_words": "as above",
    "index_vectors": "as above",
    "index_names": "as above",
    "memory_event_chain": "the chain is made anew where events are brought",
    "memory_claims": "what an agent was shown is nothing in another home",
}


async def told(memory, lineage):
    return [one async for one in portable.export_rows(memory, lineage)]


def lines(rows):
    return [ImportLine(n, kind, json.loads(row), row) for n, (kind, row) in enumerate(rows, 2)]


async def test_every_table_of_a_tenant_is_taken_along_or_says_why_not(owner):
    taken = {kind.table for kind in KINDS}
    assert taken <= set(await tables(owner)) <= taken | LEFT.keys()


async def test_a_store_that_is_taken_along_is_the_same_bytes_again(
    memory, lineage, stranger, owner, clock
):
    await fill(memory, lineage, owner, clock)
    before = await told(memory, lineage)
    assert {kind for kind, _ in before} == {kind.name for kind in KINDS}
    assert [row for _, row in before if "acme" in row] == []
    await empty(owner)

    # Whatever a line refers to may stand below it among its kind, however many there are at once.
    order = [kind.name for kind in KINDS]
    turned = sorted(reversed(lines(before)), key=lambda one: order.index(one.kind))
    brought = await portable.bring(memory, turned, lineage)
    assert sum(brought.stored.values()) == len(before)
    assert sum(brought.known.values()) == 0
    made = []
    embedded = await portable.embed_brought(memory, lineage, lambda *far: made.append(far))
    assert embedded == made[-1][0] == made[-1][1] > 0
    events = [row for kind, row in before if kind == "event"]
    after = await told(memory, lineage)
    assert sorted(after) == sorted(before)
    assert [row for kind, row in after if kind != "event"] == [
        row for kind, row in before if kind != "event"
    ]
    assert [row for kind, row in after if kind == "event"] == events[::-1]
    assert await differences(owner) == []
    for table in ("episodes", "facts", "rules"):
        assert not await owner.fetchval(f"select count(*) from {table} where embedding is null")
    found = await recall.recall(memory, CandidateQuery("what does Bob drink"), 1, lineage)
    assert [one.row["content"] for one in found] == ["tea"]

    again = await portable.bring(memory, lines(before), lineage)
    assert sum(again.stored.values()) == 0
    assert await told(memory, stranger) == []


async def test_what_cannot_be_brought_in_names_its_line_and_leaves_nothing(
    memory, lineage, stranger, owner, clock
):
    await fill(memory, lineage, owner, clock)
    rows = lines(await told(memory, lineage))
    with pytest.raises(Conflict, match=r"line \d+: .*conflicts"):
        await portable.bring(memory, rows, replace(stranger, tenant_id="second"))
    await empty(owner)
    fact = next(one for one in rows if one.kind == "fact")
    wrong = {**fact.row, "confidence": 7}
    others = [one for one in rows if one.kind in ("entity", "episode")]
    bad = [*others, ImportLine(99, "fact", wrong, json.dumps(wrong))]
    with pytest.raises(InvalidInput, match="line 99: .*facts_confidence.*nothing was written"):
        await portable.bring(memory, bad, lineage)
    lost = {**fact.row, "entity_id": None, "source_episode_id": str(uuid.uuid4())}
    with pytest.raises(IntegrityViolation, match="neither in the file nor in the tenant"):
        await portable.bring(memory, [ImportLine(9, "fact", lost, json.dumps(lost))], lineage)
    assert await told(memory, lineage) == []


async def test_a_row_of_an_older_version_takes_what_it_lacks_from_the_table(memory, lineage):
    id = str(uuid.uuid4())
    row = {"id": id, "subject": "Ann", "predicate": "likes", "content": "tea"}
    await portable.bring(memory, [ImportLine(2, "fact", row, json.dumps(row))], lineage)
    [(_, written)] = await told(memory, lineage)
    assert json.loads(written).items() >= {"validity": "active", "importance": 5, **row}.items()


async def test_only_an_import_may_bring_events_of_others(memory, lineage, owner):
    """The audit trail: whoever acts through the runtime role writes events as themselves only."""
    forged = {
        "id": str(uuid.uuid4()), "event_type": "fact_created", "actor": "somebody else",
        "memory_type": "fact", "memory_id": str(uuid.uuid4()), "payload": {},
        "created_at": "2020-01-01T00:00:00+00:00",
    }  # fmt: skip
    for actor in ("tester", "token:x", ""):
        with pytest.raises(ButlersError, match="only an import"):
            async with memory.transaction(replace(lineage, actor=actor)) as tx:
                await rows.bring_events(tx, rows=json.dumps([forged]))
    assert await owner.fetchval("select count(*) from memory_events") == 0
