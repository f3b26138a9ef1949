"""A batch gives what storing its memories one by one gives."""

import asyncio
import json
import random
import re
import uuid
from dataclasses import replace

import pytest

from butlers.errors import ButlersError, InvalidInput, Unavailable
from butlers.memory.flows import batch as flow
from butlers.memory.model import Lineage, NewEpisode
from butlers.memory.operations import OPERATIONS, OperationContext
from butlers.memory.operations.batch import MOST
from memory import index
from memory.audit_stream import event_types, sizes

STORE = OPERATIONS["store_batch"]
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOBODY = str(uuid.UUID(int=(0x4000 << 64) | (0x8 << 60)))
SESSIONS = [str(uuid.uuid5(uuid.NAMESPACE_OID, name)) for name in ("monday", "tuesday")]
# What is compared row by row; numbers that a sequence gives are none of a memory's own.
TABLES = (
    "select to_jsonb(t) - 'sequence' from memory_events t where tenant_id = $1 order by sequence",
    "select to_jsonb(t) from episodes t where tenant_id = $1",
    "select to_jsonb(t) from facts t where tenant_id = $1",
    "select to_jsonb(t) from rules t where tenant_id = $1",
    "select to_jsonb(t) from memory_links t where tenant_id = $1",
    "select to_jsonb(t) from index_names t where tenant_id = $1",
    "select to_jsonb(t) - 'doc' from index_memories t where tenant_id = $1 order by doc",
    "select to_jsonb(w) - 'doc' || to_jsonb(i.memory_id) from index_words w "
    "join index_memories i using (tenant_id, doc) where tenant_id = $1 order by doc, word",
    "select to_jsonb(v) - 'doc' || to_jsonb(i.memory_id) from index_vectors v "
    "join index_memories i using (tenant_id, doc) where tenant_id = $1 order by doc",
)


def facts(count, **more):
    return [
        {"memory_type": "fact", "subject": f"s{n}", "predicate": "is", "content": f"c{n}", **more}
        for n in range(count)
    ]


def any_memory(chance):
    """A memory as somebody might give it: keys repeat, and one in eight is not fit to be stored."""
    said = {"session_id": chance.choice([None, *SESSIONS]), "author": chance.choice([None, "Ann"])}
    if chance.random() < 0.3:
        said |= {"place": chance.randrange(5), "said_at": "2026-01-02T03:04:05+02:00"}
    fault = chance.choice([{"content": " "}, {"importance": 11}, {"source_episode_id": NOBODY},
                           {"entity_id": NOBODY}, {"colour": "red"}])  # fmt: skip
    words = " ".join(chance.choices(["tea", "boat", "Ann", "harbour", "red", "Friday"], k=5))
    common = {
        "content": words,
        "metadata": {"n": chance.randrange(3)},
        **({"idempotency_key": f"k{chance.randrange(25)}"} if chance.random() < 0.3 else {}),
        **(fault if chance.random() < 0.125 else {}),
    }
    key = {"subject": chance.choice("abc"), "predicate": chance.choice("xy")}
    return chance.choice([
        {"memory_type": "episode", **said, **common},
        {"memory_type": "fact", **key, **said, "tags": ["t"], **common},
        {"memory_type": "rule", **common},
    ])  # fmt: skip


async def one_by_one(ctx, memories):
    """What a batch should answer: what each memory is answered alone."""
    results = []
    for place, given in enumerate(memories):
        fields = {name: value for name, value in given.items() if name != "memory_type"}
        try:
            told = await OPERATIONS[f"store_{given['memory_type']}"].perform(ctx, **fields)
            results.append({"place": place, "memory_type": given["memory_type"], **told})
        except ButlersError as error:
            results.append({"place": place, "error": str(error)})
    return results


class Reader:
    """Reads what a tenant has, with every id replaced by when it was first seen."""

    def __init__(self, tenant):
        self.tenant, self.seen = tenant, {}

    def plain(self, value):
        told = json.dumps(value) if not isinstance(value, str) else value
        named = told.replace(f'"{self.tenant}"', '"tenant"')
        return UUID.sub(lambda found: self._number(found[0]), named)

    def _number(self, found):
        return (
            found
            if found in (NOBODY, *SESSIONS)
            else f"#{self.seen.setdefault(found, len(self.seen))}"
        )

    async def rows(self, owner):
        return [
            [self.plain(row[0]) for row in await owner.fetch(table, self.tenant)]
            for table in TABLES
        ]


@pytest.mark.parametrize("seed", range(3))
async def test_a_batch_gives_what_storing_one_by_one_gives(memory, owner, seed):
    chance = random.Random(seed)
    memories = [any_memory(chance) for _ in range(130)]
    alone, together = Lineage("alone", "tester", "r"), Lineage("together", "tester", "r")
    singly, batched = Reader("alone"), Reader("together")
    wanted = [
        singly.plain(one) for one in await one_by_one(OperationContext(memory, alone), memories)
    ]
    answer = await STORE.perform(OperationContext(memory, together), memories=memories)
    assert [batched.plain(one) for one in answer["results"]] == wanted
    errors = [one for one in wanted if '"error"' in one]
    assert (answer["stored"], answer["failed"]) == (130 - len(errors), len(errors))
    assert 5 < len(errors) < 30
    for there, expected in zip(await batched.rows(owner), await singly.rows(owner), strict=True):
        assert sorted(there) == sorted(expected)
        assert len(expected) > 0
    assert await index.differences(owner) == []


async def test_a_later_fact_supersedes_an_earlier_one_of_the_batch(memory, lineage, owner):
    given = facts(1) + facts(1, content="other")
    first, second = (await STORE.perform(OperationContext(memory, lineage), memories=given))[
        "results"
    ]
    assert (first["superseded_id"], second["superseded_id"]) == (None, first["id"])
    assert await event_types(owner) == ["fact_created", "fact_created", "fact_superseded"]


async def test_each_fault_is_told_in_its_place_and_loses_no_other(memory, lineage, owner):
    good = facts(60)
    bad = ["no object", {}, {"memory_type": "note"}, {"memory_type": ["fact"]},
           {"memory_type": "rule"}, {"memory_type": "rule", "content": "x", "importance": 1},
           facts(1, entity_id="abcdef")[0], facts(1, content="\0")[0]]  # fmt: skip
    answer = await STORE.perform(
        OperationContext(memory, lineage), memories=[*good[:30], *bad, *good[30:]]
    )
    assert (answer["stored"], answer["failed"]) == (60, len(bad))
    assert [one["place"] for one in answer["results"]] == list(range(60 + len(bad)))
    assert [one["error"].split(":")[0] for one in answer["results"][30 : 30 + len(bad)]] == [
        "found 'no object'; valid is a JSON object with memory_type",
        "memory_type", "memory_type", "memory_type", "content", "importance", "entity_id",
        "content",
    ]  # fmt: skip
    assert all(one.keys() == {"place", "error"} for one in answer["results"] if "error" in one)
    assert (await sizes(owner))["facts"] == 60


@pytest.mark.parametrize("count", [0, MOST + 1])
async def test_a_batch_has_one_to_a_thousand_memories(memory, lineage, owner, count):
    with pytest.raises(InvalidInput, match="memories: found .*at (least 1|most 1000) item"):
        await STORE.perform(OperationContext(memory, lineage), memories=facts(count))
    assert (await sizes(owner))["facts"] == 0


async def test_texts_are_embedded_some_at_a_time_while_no_connection_is_held(memory, lineage):
    pool, toy, handed = memory.database._pool.pool, memory.embedder(), []

    async def embed(texts):
        assert pool.get_size() == pool.get_idle_size()
        handed.append(len(texts))
        return toy.embed_batch(texts)

    toy.embed_batch_async = embed
    await STORE.perform(OperationContext(memory, lineage), memories=facts(300))
    assert handed == [256, 44, 1], "the texts, and the one predicate they have"


async def test_others_are_served_while_a_batch_is_checked(memory, lineage):
    long = NewEpisode("a settled word " * 250, "general", importance=99.0)
    refused = [replace(long, author=f"a{number}") for number in range(40)]
    turns, batch = 0, asyncio.create_task(flow.store_batch(memory, refused, lineage))
    while not batch.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 40


async def test_progress_is_told_after_each_transaction(memory, lineage):
    told = []
    ctx = OperationContext(memory, lineage, on_progress=lambda *far: told.append(far))
    await STORE.perform(ctx, memories=facts(120))
    assert told == [(50, 120), (100, 120), (120, 120)]


async def test_two_batches_with_the_same_keys_at_once_lose_nothing(memory, lineage, owner):
    forth, back = facts(100), facts(100)[::-1]
    for n, one in enumerate(forth):
        one["idempotency_key"] = f"forth {n % 40}"
    answers = await asyncio.gather(
        *(
            STORE.perform(OperationContext(memory, lineage), memories=one)
            for one in (forth, back, forth)
        )
    )
    assert [one["failed"] for one in answers] == [0, 0, 0]
    rows = await owner.fetch(
        "select subject, count(*) from facts where validity = 'active' group by 1"
    )
    assert {row["count"] for row in rows} == {1}
    assert await owner.fetchval("select count(*) from facts") == 140
    assert await index.differences(owner) == []


@pytest.fixture
async def failing(owner):
    """A database that stops serving when it is told a certain content."""
    await owner.execute(
        "create function fail() returns trigger language plpgsql as $$ begin "
        "raise 'terminating' using errcode = '57P01'; end $$; "
        "create trigger failing before insert on facts for each row "
        "when (new.content = 'stop') execute function fail()"
    )
    yield
    await owner.execute("drop trigger failing on facts; drop function fail")


@pytest.mark.usefixtures("failing")
async def test_what_was_stored_before_the_database_failed_is_told(memory, lineage, owner):
    given = facts(120)
    given[70]["content"] = "stop"
    answer = await STORE.perform(OperationContext(memory, lineage), memories=given)
    assert (answer["stored"], answer["failed"]) == (flow.STORED_AT_ONCE, 70)
    assert "the database cannot serve now" in answer["results"][119]["error"]
    assert (await sizes(owner))["facts"] == 50


@pytest.mark.usefixtures("failing")
async def test_a_batch_of_which_nothing_was_stored_fails_as_a_whole(memory, lineage, owner):
    given = facts(120)
    given[40]["content"] = "stop"
    with pytest.raises(Unavailable, match="the database cannot serve now"):
        await STORE.perform(OperationContext(memory, lineage), memories=given)
    assert (await sizes(owner))["facts"] == 0


def test_the_schema_is_that_of_storing_one_and_refers_to_nothing():
    schema = STORE.input_model.model_json_schema()
    assert "$ref" not in json.dumps(schema)
    kinds = schema["properties"]["memories"]["items"]["anyOf"]
    for kind, one in zip(("episode", "fact", "rule"), kinds, strict=True):
        alone = OPERATIONS[f"store_{kind}"].input_model.model_fields
        assert one["properties"].keys() == {"memory_type", *alone}
        assert one["properties"]["memory_type"]["enum"] == [kind]


async def test_metadata_nested_beyond_reason_refuses_its_memory_alone(memory, lineage):
    deep = {}
    for _ in range(5_000):
        deep = {"a": deep}
    long = NewEpisode("a settled word " * 400, "general")
    given = [long, NewEpisode("tea", "general", metadata=deep), replace(long, content="x" * 5_000)]
    stored = await flow.store_batch(memory, given, lineage)
    assert [result.stored is not None for result in stored.results] == [True, False, True]
    assert "deep" in stored.results[1].error
