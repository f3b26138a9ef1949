"""Storing episodes, facts and rules."""

import asyncio
import json
import uuid
from collections import Counter
from datetime import timedelta

import pytest

from butlers.errors import InvalidInput, NotFound
from butlers.memory.flows import recall, remember
from butlers.memory.flows.lifecycle.decay_sweep import run_decay_sweep
from butlers.memory.model import (
    Lineage,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
)
from butlers.memory.policy.inputs import checked_new
from butlers.memory.settings import MemoryModuleConfig
from memory.audit_stream import event_types, events, fade, metadata, sizes

NOTHING = dict.fromkeys(
    ("episodes", "facts", "rules", "memory_links", "memory_events", "rule_applications"), 0
)
TEA = NewFact("Ann", "likes", "tea")
COFFEE = NewFact("Ann", "likes", "coffee")


async def entity(owner, tenant="acme"):
    """A new entity of a tenant."""
    return await owner.fetchval(
        "insert into entities (tenant_id, canonical_name, entity_type) values ($1, $2, 'person') "
        "returning id",
        tenant,
        str(uuid.uuid4()),
    )


# Episodes


@pytest.mark.contract("R05.1")
async def test_an_episode_is_stored_searchable_and_expires_in_seven_days(
    memory, lineage, owner, clock
):
    stored = await remember.store_episode(
        memory, NewEpisode("Ann called about the boat", "general"), lineage
    )
    row = await owner.fetchrow(
        "select *, embedding is not null as embedded, "
        "search_vector = to_tsvector('english', content) as indexed from episodes"
    )
    assert row["id"] == stored.id
    assert (row["embedded"], row["indexed"]) == (True, True)
    assert row["expires_at"] == stored.expires_at == clock.now + timedelta(days=7)
    assert (row["tenant_id"], row["butler"], row["created_at"]) == ("acme", "general", clock.now)
    assert (row["consolidation_status"], row["consolidated"], row["importance"]) == (
        "pending",
        False,
        5.0,
    )


@pytest.mark.contract("R05.1")
async def test_the_days_an_episode_lives_are_a_setting(memory, lineage, clock):
    memory.settings = MemoryModuleConfig.model_validate({"episodes": {"default_ttl_days": 2}})
    stored = await remember.store_episode(memory, NewEpisode("x", "general"), lineage)
    assert stored.expires_at == clock.now + timedelta(days=2)


@pytest.mark.contract("N7.1")
async def test_storing_an_episode_again_only_appends(memory, lineage, owner):
    first = await remember.store_episode(memory, NewEpisode("same", "general"), lineage)
    before = await owner.fetchrow("select * from episodes where id = $1", first.id)
    second = await remember.store_episode(memory, NewEpisode("same", "general"), lineage)
    assert second.id != first.id
    assert await owner.fetchrow("select * from episodes where id = $1", first.id) == before
    assert await owner.fetchval("select count(*) from episodes") == 2


# Facts


@pytest.mark.contract("R02.1", "L3")
async def test_a_fact_is_born_active_sure_and_confirmed(memory, lineage, owner, clock):
    stored = await remember.store_fact(memory, TEA, lineage)
    row = await owner.fetchrow("select * from facts where id = $1", stored.id)
    assert (row["validity"], row["confidence"]) == ("active", 1.0)
    assert row["last_confirmed_at"] == row["created_at"] == clock.now
    assert (row["tenant_id"], row["scope"], row["supersedes_id"]) == ("acme", "global", None)


@pytest.mark.contract("L22")
async def test_a_fact_is_found_by_subject_predicate_and_content(memory, lineage, owner):
    stored = await remember.store_fact(memory, NewFact("Ann", "sails", "a boat"), lineage)
    indexed = await owner.fetchval(
        "select search_vector = to_tsvector('english', 'Ann sails a boat') from facts"
    )
    vector = await owner.fetchval("select embedding::text from facts where id = $1", stored.id)
    expected = memory.embedder().embed("Ann sails a boat")
    assert indexed
    assert [float(x) for x in vector.strip("[]").split(",")] == pytest.approx(expected, abs=1e-6)


@pytest.mark.contract("R04.1")
@pytest.mark.parametrize(
    ("permanence", "rate"),
    [("permanent", 0.0), ("stable", 0.002), ("standard", 0.008), ("volatile", 0.03),
     ("ephemeral", 0.1)],
)  # fmt: skip
async def test_permanence_decides_the_decay_rate(memory, lineage, owner, permanence, rate):
    new = NewFact("Ann", "likes", "tea", permanence=Permanence(permanence))
    await remember.store_fact(memory, new, lineage)
    row = await owner.fetchrow("select permanence, decay_rate from facts")
    assert (row["permanence"], row["decay_rate"]) == (permanence, rate)


@pytest.mark.contract("R04.2")
async def test_an_unknown_permanence_is_refused_with_the_valid_ones(memory, lineage, owner):
    new = NewFact("Ann", "likes", "tea", permanence="eternal")
    with pytest.raises(ValueError, match="permanence: found 'eternal'") as refusal:
        await remember.store_fact(memory, new, lineage)
    assert all(level in str(refusal.value) for level in Permanence)
    assert await sizes(owner) == NOTHING


@pytest.mark.contract("R02.2", "R05.2", "N7.1")
async def test_a_fact_under_a_taken_key_supersedes(memory, lineage, owner):
    first = await remember.store_fact(memory, TEA, lineage)
    second = await remember.store_fact(memory, COFFEE, lineage)
    assert (first.superseded_id, second.superseded_id) == (None, first.id)
    rows = await owner.fetch("select id, validity, supersedes_id from facts order by id")
    assert [tuple(row) for row in rows] == [
        (first.id, "superseded", None),
        (second.id, "active", first.id),
    ]
    link = await owner.fetchrow("select * from memory_links")
    assert (link["source_id"], link["relation"], link["target_id"], link["tenant_id"]) == (
        second.id,
        "supersedes",
        first.id,
        "acme",
    )


@pytest.mark.contract("R02.2")
@pytest.mark.parametrize(
    "other",
    [NewFact("Bob", "likes", "coffee"), NewFact("Ann", "drinks", "coffee"),
     NewFact("Ann", "likes", "coffee", scope="work")],
)  # fmt: skip
async def test_a_fact_under_another_key_supersedes_nothing(memory, lineage, owner, other):
    await remember.store_fact(memory, TEA, lineage)
    stored = await remember.store_fact(memory, other, lineage)
    assert stored.superseded_id is None
    assert await owner.fetchval("select count(*) from facts where validity = 'active'") == 2


@pytest.mark.contract("R02.2")
async def test_an_entity_is_the_key_whatever_the_subject_is_called(memory, lineage, owner):
    ann = await entity(owner)
    first = await remember.store_fact(
        memory, NewFact("Ann", "likes", "tea", entity_id=ann), lineage
    )
    unkeyed = await remember.store_fact(memory, TEA, lineage)
    second = await remember.store_fact(
        memory, NewFact("Annie", "likes", "milk", entity_id=ann), lineage
    )
    assert (unkeyed.superseded_id, second.superseded_id) == (None, first.id)


async def test_another_tenants_fact_is_never_superseded(memory, lineage, stranger, owner):
    await remember.store_fact(memory, TEA, lineage)
    theirs = await remember.store_fact(memory, COFFEE, stranger)
    assert theirs.superseded_id is None
    assert await owner.fetchval("select count(*) from facts where validity = 'active'") == 2


@pytest.mark.contract("R05.3")
async def test_a_fact_about_an_unknown_entity_is_refused(memory, lineage, owner):
    missing, theirs = uuid.uuid4(), await entity(owner, tenant="rival")
    for entity_id in (missing, theirs):
        with pytest.raises(ValueError, match=f"entity {entity_id} does not exist"):
            await remember.store_fact(
                memory, NewFact("Ann", "likes", "tea", entity_id=entity_id), lineage
            )
    assert await sizes(owner) == NOTHING


async def test_a_source_episode_must_be_the_tenants_own(memory, lineage, stranger, owner):
    theirs = await remember.store_episode(memory, NewEpisode("secret", "general"), stranger)
    before = await sizes(owner)
    with pytest.raises(NotFound, match="source_episode_id"):
        await remember.store_fact(
            memory, NewFact("a", "b", "c", source_episode_id=theirs.id), lineage
        )
    with pytest.raises(NotFound, match="source_episode_id"):
        await remember.store_rule(memory, NewRule("r", source_episode_id=theirs.id), lineage)
    assert await sizes(owner) == before


@pytest.mark.contract("R05.2", "L2", "R33.1")
async def test_eight_writers_of_one_key_leave_one_unbroken_chain(memory, lineage, owner):
    stored = await asyncio.gather(
        *(remember.store_fact(memory, NewFact("a", "b", str(i)), lineage) for i in range(8))
    )
    replaced_by = {row.superseded_id: row.id for row in stored}
    chain, following = [], replaced_by.get(None)
    while following:
        chain.append(following)
        following = replaced_by.get(following)
    assert set(chain) == {row.id for row in stored}
    assert len(chain) == 8
    active = await owner.fetch("select id from facts where validity = 'active'")
    assert [row["id"] for row in active] == [chain[-1]]
    links = await owner.fetch("select source_id, target_id from memory_links")
    assert {tuple(row) for row in links} == set(zip(chain[1:], chain, strict=False))
    assert Counter(await event_types(owner)) == {"fact_created": 8, "fact_superseded": 7}


@pytest.mark.contract("R33.1")
async def test_storing_and_superseding_are_told(memory, lineage, owner, clock):
    first = await remember.store_fact(memory, TEA, lineage)
    await fade(owner, "facts", first.id)
    clock.advance(days=1)
    second = await remember.store_fact(memory, COFFEE, lineage)
    created, superseded = await events(owner, first.id)
    assert (created["event_type"], created["actor"], created["request_id"]) == (
        "fact_created",
        "tester",
        "request-1",
    )
    assert (created["tenant_id"], created["memory_type"]) == ("acme", "fact")
    assert superseded["payload"] == {
        "from": "fading",
        "to": "superseded",
        "superseded_by": str(second.id),
        "window": {"from": [None, None], "to": [None, clock.now.isoformat()]},
    }
    assert (superseded["event_type"], superseded["created_at"]) == ("fact_superseded", clock.now)
    assert (await events(owner, second.id))[0]["payload"]["supersedes"] == str(first.id)


# Rules


@pytest.mark.contract("R05.4", "L3", "L8", "N7.1")
async def test_a_rule_starts_as_a_candidate(memory, lineage, owner, clock):
    stored = await remember.store_rule(memory, NewRule("be brief", tags=("style",)), lineage)
    row = await owner.fetchrow("select * from rules where id = $1", stored.id)
    assert (row["maturity"], row["confidence"], row["decay_rate"]) == ("candidate", 0.5, 0.01)
    counts = ("effectiveness_score", "applied_count", "success_count", "harmful_count")
    assert [row[name] for name in counts] == [0, 0, 0, 0]
    assert row["last_confirmed_at"] == row["created_at"] == clock.now
    assert row["embedding"] is not None
    assert await event_types(owner) == ["rule_created"]


@pytest.mark.contract("L8")
async def test_a_rule_nobody_gave_a_rate_decays_by_the_column_default(owner):
    rate = await owner.fetchval(
        "insert into rules (tenant_id, content) values ('acme', 'x') returning decay_rate"
    )
    assert rate == 0.008


# Reading back


@pytest.mark.contract("R05.6")
@pytest.mark.parametrize("kind", list(MemoryType))
async def test_getting_a_memory_counts_as_a_use(memory, lineage, stranger, clock, kind):
    store, new = {
        MemoryType.EPISODE: (remember.store_episode, NewEpisode("x", "general")),
        MemoryType.FACT: (remember.store_fact, TEA),
        MemoryType.RULE: (remember.store_rule, NewRule("x")),
    }[kind]
    stored = await store(memory, new, lineage)
    clock.advance(hours=1)
    got = [await recall.get_memory(memory, kind, stored.id, lineage) for _ in range(2)]
    assert [row["reference_count"] for row in got] == [1, 2]
    assert got[0]["last_referenced_at"] == clock.now.isoformat()
    assert (got[0]["id"], got[0]["content"]) == (str(stored.id), new.content)
    assert await recall.get_memory(memory, kind, uuid.uuid4(), lineage) is None
    assert await recall.get_memory(memory, kind, stored.id, stranger) is None


# Once only


@pytest.mark.parametrize("kind", list(MemoryType))
async def test_the_same_key_stores_once_also_when_asked_at_once(memory, lineage, owner, kind):
    store, new, table = {
        MemoryType.EPISODE: (
            remember.store_episode,
            NewEpisode("x", "general", idempotency_key="k"),
            "episodes",
        ),
        MemoryType.FACT: (
            remember.store_fact,
            NewFact("a", "b", "c", idempotency_key="k"),
            "facts",
        ),
        MemoryType.RULE: (remember.store_rule, NewRule("x", idempotency_key="k"), "rules"),
    }[kind]
    together = await asyncio.gather(*(store(memory, new, lineage) for _ in range(6)))
    again = await store(memory, new, lineage)
    ids = [row["id"] for row in await owner.fetch(f"select id from {table}")]
    assert len(ids) == 1
    assert {stored.id for stored in (*together, again)} == set(ids)
    assert len(await event_types(owner)) == 1


async def test_an_idempotent_repeat_supersedes_nothing(memory, lineage, owner):
    tea = NewFact("Ann", "likes", "tea", idempotency_key="one")
    first = await remember.store_fact(memory, tea, lineage)
    second = await remember.store_fact(memory, COFFEE, lineage)
    before = await sizes(owner)
    repeat = await remember.store_fact(memory, tea, lineage)
    assert (repeat.id, repeat.superseded_id) == (first.id, None)
    assert await sizes(owner) == before
    active = await owner.fetchval("select id from facts where validity = 'active'")
    assert active == second.id


async def test_different_facts_under_one_key_at_once_are_one_fact(memory, lineage, owner):
    new = [NewFact(f"subject {i}", "is", "here", idempotency_key="k") for i in range(6)]
    stored = await asyncio.gather(*(remember.store_fact(memory, fact, lineage) for fact in new))
    assert len({fact.id for fact in stored}) == 1
    assert await event_types(owner) == ["fact_created"]


async def test_another_tenant_may_use_the_same_key(memory, lineage, stranger):
    new = NewRule("x", idempotency_key="k")
    mine = await remember.store_rule(memory, new, lineage)
    theirs = await remember.store_rule(memory, new, stranger)
    assert mine.id != theirs.id


# What may be stored


@pytest.mark.contract("L22")
async def test_nul_is_removed_from_everything_stored(memory, lineage, owner):
    dirty = {"k\x00ey": ["v\x00alue", {"in\x00ner": "\ud800"}]}
    clean = {"key": ["value", {"inner": "�"}]}
    episode = await remember.store_episode(
        memory,
        NewEpisode("he\x00llo", "gen\x00eral", metadata=dirty, idempotency_key="k\x00"),
        lineage,
    )
    fact = await remember.store_fact(
        memory,
        NewFact(
            "A\x00nn", "li\x00kes", "t\x00ea", scope="wo\x00rk", tags=("ho\x00t",),
            source_butler="gen\x00eral", metadata=dirty, idempotency_key="k\x00",
        ),
        lineage,
    )  # fmt: skip
    rule = await remember.store_rule(
        memory, NewRule("be\x00 brief", metadata=dirty, source_butler="gen\x00eral"), lineage
    )
    stored = await owner.fetchrow(
        "select e.content, e.butler, e.idempotency_key, f.subject, f.predicate, f.content, "
        "f.scope, f.tags->>0, f.source_butler, f.idempotency_key, r.content, r.source_butler "
        "from episodes e, facts f, rules r"
    )
    assert tuple(stored) == (
        "hello", "general", "k", "Ann", "likes", "tea", "work", "hot", "general", "k",
        "be brief", "general",
    )  # fmt: skip
    for table, one in (("episodes", episode), ("facts", fact), ("rules", rule)):
        assert await metadata(owner, table, one.id) == clean


@pytest.mark.contract("L22")
async def test_a_nul_in_the_request_is_removed_from_the_audit_stream(memory, owner):
    await remember.store_rule(memory, NewRule("x"), Lineage("acme", "a\x00gent", "re\x00q"))
    (told,) = await events(owner)
    assert (told["actor"], told["request_id"]) == ("agent", "req")


@pytest.mark.contract("L22", "L19")
@pytest.mark.parametrize(
    ("store", "new", "length", "limit"),
    [
        (remember.store_episode, NewEpisode("x" * 1_000_001, "general"), 1_000_001, 1_000_000),
        (remember.store_episode, NewEpisode("x", "b" * 101), 101, 100),
        (remember.store_episode, NewEpisode("x", "b", idempotency_key="k" * 401), 401, 400),
        (remember.store_fact, NewFact("s" * 201, "p", "c"), 201, 200),
        (remember.store_fact, NewFact("s", "p" * 101, "c"), 101, 100),
        (remember.store_fact, NewFact("s", "p", "c" * 20_001), 20_001, 20_000),
        (remember.store_fact, NewFact("s", "p", "c", scope="x" * 101), 101, 100),
        (remember.store_fact, NewFact("s", "p", "c", tags=("t" * 101,)), 101, 100),
        (remember.store_fact, NewFact("s", "p", "c", source_butler="b" * 101), 101, 100),
        (remember.store_rule, NewRule("r" * 20_001), 20_001, 20_000),
        (remember.store_rule, NewRule("r", metadata={"k": "v" * 50_000}), 50_009, 50_000),
    ],
    ids=lambda value: value if isinstance(value, int) else "",
)
async def test_what_is_too_long_is_refused_with_length_and_limit(
    memory, lineage, owner, store, new, length, limit
):
    with pytest.raises(InvalidInput, match=rf"{length}\b.*\b{limit}\b"):
        await store(memory, new, lineage)
    assert await sizes(owner) == NOTHING


@pytest.mark.contract("L19")
@pytest.mark.parametrize(
    ("store", "new", "field"),
    [
        (remember.store_episode, NewEpisode(" \x00 ", "general"), "content"),
        (remember.store_episode, NewEpisode("x", "general", importance=10.5), "importance"),
        (remember.store_fact, NewFact("a", "b", "c", importance=float("nan")), "importance"),
        (remember.store_fact, NewFact("a", "\n", "c"), "predicate"),
        (remember.store_fact, NewFact("a", "b", "c", tags=("t",) * 51), "tags"),
        (remember.store_fact, NewFact("a", "b", "c", metadata={"x": float("inf")}), "metadata"),
        (remember.store_rule, NewRule("x", metadata={"x": object()}), "metadata"),
    ],
)
async def test_what_cannot_be_used_is_refused_by_field(memory, lineage, owner, store, new, field):
    with pytest.raises(InvalidInput, match=f"^{field}: found"):
        await store(memory, new, lineage)
    assert await sizes(owner) == NOTHING


async def test_metadata_nested_beyond_reason_is_refused(memory, lineage, owner):
    deep = {}
    for _ in range(5_000):
        deep = {"d": deep}
    with pytest.raises(InvalidInput, match="^metadata: found"):
        await remember.store_rule(memory, NewRule("x", metadata=deep), lineage)
    assert await sizes(owner) == NOTHING


@pytest.mark.contract("R05.1", "L22")
async def test_a_megabyte_of_different_words_is_stored_and_found_by_its_beginning(
    memory, lineage, owner
):
    """Its full text index would exceed what PostgreSQL can hold."""
    content = "kumquat " + " ".join(f"w{number:07d}" for number in range(110_000))
    stored = await remember.store_episode(memory, NewEpisode(content, "general"), lineage)
    found = await owner.fetchval(
        "select id from episodes where search_vector @@ plainto_tsquery('english', 'kumquat')"
    )
    assert found == stored.id
    kept = await owner.fetchval("select content from episodes")
    assert kept == content


@pytest.mark.parametrize("key", ["status", "forgotten", "needs_inversion", "reported_harmful"])
async def test_no_memory_is_born_fading_or_forgotten(memory, lineage, owner, key):
    with pytest.raises(InvalidInput, match=key):
        await remember.store_fact(memory, NewFact("s", "p", "c", metadata={key: True}), lineage)
    assert await sizes(owner) == NOTHING


@pytest.mark.contract("L35")
async def test_a_fading_fact_that_is_stored_again_does_not_fade(memory, lineage, owner, clock):
    first = NewFact("Ann", "likes", "tea", permanence="volatile", metadata={"seen": "cafe"})
    old = (await remember.store_fact(memory, first, lineage)).id
    clock.advance(days=60)
    await run_decay_sweep(memory, lineage)
    state = "select fact_state(validity, metadata) from facts where id = $1"
    assert await owner.fetchval(state, old) == "fading"
    new = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    assert await owner.fetchval(state, new.id) == "active"
    kept = await owner.fetchval("select metadata from facts where id = $1", new.id)
    assert json.loads(kept) == {"seen": "cafe"}


def test_a_default_given_as_text_becomes_the_default_and_an_empty_author_none():
    given = NewFact("Ann", "likes", "tea", permanence="standard", author="", source_butler="")
    new = checked_new(given, MemoryModuleConfig())
    assert new.permanence is Permanence.STANDARD
    assert (new.author, new.source_butler) == (None, None)
    with pytest.raises(InvalidInput, match="author: found an empty text"):
        checked_new(NewFact("Ann", "likes", "tea", author=" "), MemoryModuleConfig())
