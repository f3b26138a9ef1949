"""The decay sweep: fading, recovery, expiry, and that it does nothing twice."""

import asyncio
import dataclasses
import uuid
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from butlers.errors import Unavailable
from butlers.memory.flows import feedback, history, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.lifecycle import decay_sweep, for_every_tenant
from butlers.memory.flows.lifecycle.decay_sweep import SweepReport, run_decay_sweep
from butlers.memory.model import (
    EventType,
    Lineage,
    MemoryType,
    NewFact,
    NewRule,
    Permanence,
    SearchMode,
)
from butlers.memory.policy.confidence import effective_confidence
from butlers.memory.settings import MemoryModuleConfig
from db.databases import emptied
from memory.audit_stream import event_types, events, metadata

NOTHING = SweepReport(*[0] * 9)


async def a_fact(memory, lineage, name="Ann", permanence=Permanence.STANDARD):
    new = NewFact(name, "likes", "tea", permanence=permanence)
    return (await remember.store_fact(memory, new, lineage)).id


async def a_rule(memory, lineage, content="offer tea"):
    return (await remember.store_rule(memory, NewRule(content), lineage)).id


async def fact_state(owner, fact_id):
    """Validity and the note of fading, as stored."""
    row = await owner.fetchrow(
        "select validity, metadata ->> 'status' from facts where id = $1", fact_id
    )
    return tuple(row)


def report(**counts):
    return dataclasses.replace(NOTHING, **counts)


# Facts


@pytest.mark.contract("R02.5", "R09.3", "R33.3", "L6")
async def test_a_fact_fades_while_it_stays_active(memory, lineage, owner, clock):
    fact = await a_fact(memory, lineage)
    clock.advance(days=250)
    assert await run_decay_sweep(memory, lineage) == report(facts_checked=1, facts_fading=1)
    assert await fact_state(owner, fact) == ("active", "fading")
    told = (await events(owner, fact))[-1]
    assert told["event_type"] == EventType.FACT_FADING
    assert (told["actor"], told["request_id"]) == (lineage.actor, lineage.request_id)
    assert (told["tenant_id"], told["created_at"]) == ("acme", clock.now)
    assert told["payload"] == {
        "from": "active",
        "to": "fading",
        "effective_confidence": pytest.approx(2.718281828459045**-2),
    }


@pytest.mark.contract("R02.4", "R09.3", "R33.3")
@pytest.mark.parametrize(("swept_between", "was"), [(False, "active"), (True, "fading")])
async def test_a_fact_expires_with_one_event(memory, lineage, owner, clock, swept_between, was):
    fact = await a_fact(memory, lineage)
    clock.advance(days=250)
    if swept_between:
        await run_decay_sweep(memory, lineage)
    clock.advance(days=200)
    assert await run_decay_sweep(memory, lineage) == report(facts_checked=1, facts_expired=1)
    assert (await fact_state(owner, fact))[0] == "expired"
    told = [e for e in await events(owner, fact) if e["event_type"] == EventType.FACT_EXPIRED]
    assert len(told) == 1
    assert told[0]["payload"] == {
        "from": was,
        "to": "expired",
        "effective_confidence": pytest.approx(2.718281828459045**-3.6),
    }
    found = await recall.search_memories(
        memory, CandidateQuery("tea", min_confidence=0), SearchMode.KEYWORD, 10, lineage
    )
    assert found == []


@pytest.mark.contract("R09.3", "L6")
async def test_a_fact_that_is_sure_again_recovers(memory, lineage, owner, clock):
    fact = await a_fact(memory, lineage)
    clock.advance(days=250)
    await run_decay_sweep(memory, lineage)
    # Not by confirm, which lifts fading itself: a more forgiving setting does it too.
    memory.settings = MemoryModuleConfig.model_validate(
        {"facts": {"retrieval_confidence_threshold": 0.1}}
    )
    assert await run_decay_sweep(memory, lineage) == report(facts_checked=1, facts_recovered=1)
    assert await fact_state(owner, fact) == ("active", None)
    told = (await events(owner, fact))[-1]
    assert told["event_type"] == EventType.FACT_RECOVERED
    assert (told["payload"]["from"], told["payload"]["to"]) == ("fading", "active")


async def test_a_confirmed_fact_is_left_alone_by_the_next_sweep(memory, lineage, owner, clock):
    fact = await a_fact(memory, lineage)
    clock.advance(days=250)
    await run_decay_sweep(memory, lineage)
    await feedback.confirm_memory(memory, MemoryType.FACT, fact, lineage)
    before = await event_types(owner)
    assert await run_decay_sweep(memory, lineage) == report(facts_checked=1)
    assert await event_types(owner) == before


@pytest.mark.contract("R09.1", "R09.3")
async def test_what_is_permanent_is_not_even_looked_at(memory, lineage, owner, clock):
    fact = await a_fact(memory, lineage, permanence=Permanence.PERMANENT)
    await owner.execute("update facts set confidence = 0.01, last_confirmed_at = null")
    clock.advance(days=36_000)
    assert await run_decay_sweep(memory, lineage) == NOTHING
    assert await fact_state(owner, fact) == ("active", None)


@pytest.mark.contract("R09.2")
async def test_a_fact_never_confirmed_counts_for_nothing(memory, lineage, owner):
    fact = await a_fact(memory, lineage)
    await owner.execute("update facts set last_confirmed_at = null")
    assert (await run_decay_sweep(memory, lineage)).facts_expired == 1
    assert (await events(owner, fact))[-1]["payload"]["effective_confidence"] == 0


async def test_only_the_note_of_fading_is_touched(memory, lineage, owner, clock):
    new = NewFact("Ann", "likes", "tea", metadata={"seen": "twice"})
    fact = (await remember.store_fact(memory, new, lineage)).id
    clock.advance(days=250)
    await run_decay_sweep(memory, lineage)
    assert await metadata(owner, "facts", fact) == {"seen": "twice", "status": "fading"}
    memory.settings = MemoryModuleConfig.model_validate(
        {"facts": {"retrieval_confidence_threshold": 0.1}}
    )
    await run_decay_sweep(memory, lineage)
    assert await metadata(owner, "facts", fact) == {"seen": "twice"}


@pytest.mark.contract("N8")
async def test_the_thresholds_are_settings(memory, lineage, owner, clock):
    fact = await a_fact(memory, lineage)
    memory.settings = MemoryModuleConfig.model_validate(
        {
            "facts": {
                "retrieval_confidence_threshold": 0.95,
                "expiry_confidence_threshold": 0.9,
            }
        }
    )
    clock.advance(days=10)
    assert (await run_decay_sweep(memory, lineage)).facts_fading == 1
    clock.advance(days=10)
    assert (await run_decay_sweep(memory, lineage)).facts_expired == 1
    assert (await fact_state(owner, fact))[0] == "expired"


# Rules


@pytest.mark.contract("R09.3", "N7.3", "R33.3")
async def test_a_rule_fades_then_is_forgotten(memory, lineage, owner, clock):
    rule = await a_rule(memory, lineage)
    clock.advance(days=100)
    assert await run_decay_sweep(memory, lineage) == report(rules_checked=1, rules_fading=1)
    assert await metadata(owner, "rules", rule) == {"status": "fading"}
    clock.advance(days=200)
    assert await run_decay_sweep(memory, lineage) == report(rules_checked=1, rules_forgotten=1)
    assert (await metadata(owner, "rules", rule))["forgotten"] is True
    told = [(e["event_type"], e["payload"]) for e in await events(owner, rule)][1:]
    assert told == [
        (
            EventType.RULE_FADING,
            {
                "from": "active",
                "to": "fading",
                "effective_confidence": pytest.approx(0.5 / 2.718281828),
            },
        ),
        (
            EventType.RULE_FORGOTTEN,
            {
                "from": "fading",
                "to": "forgotten",
                "effective_confidence": pytest.approx(0.5 * 2.718281828**-3),
            },
        ),
    ]


async def test_a_fading_rule_recovers(memory, lineage, owner, clock):
    rule = await a_rule(memory, lineage)
    clock.advance(days=100)
    await run_decay_sweep(memory, lineage)
    memory.settings = MemoryModuleConfig.model_validate(
        {"facts": {"retrieval_confidence_threshold": 0.1}}
    )
    assert await run_decay_sweep(memory, lineage) == report(rules_checked=1, rules_recovered=1)
    assert await metadata(owner, "rules", rule) == {}


async def test_a_forgotten_rule_is_not_looked_at(memory, lineage, owner, clock):
    await a_rule(memory, lineage)
    clock.advance(days=365)
    await run_decay_sweep(memory, lineage)
    assert await run_decay_sweep(memory, lineage) == NOTHING


@pytest.mark.contract("N7.3", "L30", "L43")
async def test_a_warning_does_not_wane(memory, lineage, owner, clock):
    rule = await a_rule(memory, lineage)
    for reason in ("it spilled", "it burned", "it stained"):
        await feedback.mark_harmful(memory, rule, reason, lineage)
    assert await owner.fetchval("select maturity from rules") == "anti_pattern"
    clock.advance(days=3650)
    assert await run_decay_sweep(memory, lineage) == report(rules_checked=1)


class BrokenEmbedder:
    """A model that cannot be loaded."""

    model, version, dimensions = "toy", "1", 384

    async def embed_batch_async(self, texts):
        raise Unavailable("the model is gone")


@pytest.mark.contract("R03.5", "L7", "N7.3")
async def test_inversions_that_wait_are_done(memory, lineage, owner):
    rule = await a_rule(memory, lineage)
    working = memory.embedder
    memory.embedder = BrokenEmbedder
    for reason in ("it spilled", "it burned", "it stained"):
        await feedback.mark_harmful(memory, rule, reason, lineage)
    assert (await metadata(owner, "rules", rule))["needs_inversion"] is True
    assert (await run_decay_sweep(memory, lineage)).rules_inverted == 0
    memory.embedder = working
    assert (await run_decay_sweep(memory, lineage)).rules_inverted == 1
    row = await owner.fetchrow("select maturity, content from rules")
    assert row["maturity"] == "anti_pattern"
    assert row["content"].startswith("ANTI-PATTERN: Do NOT offer tea.")
    assert (await run_decay_sweep(memory, lineage)).rules_inverted == 0


# The ends of the bands

THRESHOLDS = [
    (0.2, "active", "active"),
    (0.2, "fading", "active"),
    (0.05, "active", "fading"),
    (0.05, "fading", "fading"),
    (0.19999999, "active", "fading"),
    (0.04999999, "active", "gone"),
]


@pytest.mark.contract("N7.3", "R09.3")
@pytest.mark.parametrize("table", ["facts", "rules"])
@pytest.mark.parametrize(("confidence", "before", "then"), THRESHOLDS)
async def test_a_confidence_that_equals_a_threshold_has_reached_it(
    memory, lineage, owner, clock, table, confidence, before, then
):
    """Just confirmed, so that the confidence left is the stored one to the last digit."""
    await owner.execute(
        INSERT[table], uuid.uuid4(), confidence, 0.1, clock.now, before == "fading", False
    )
    await run_decay_sweep(memory, lineage)
    assert await owner.fetchval(f"select {STORED_STATE[table]} from {table}") == then
    # One step at most: what fades and recovers in one sweep would look the same afterwards.
    assert len(await events(owner)) == (before != then)


# All of it


async def versions(owner):
    """Where every row version lies and who wrote it: any write shows."""
    return [
        await owner.fetch(f"select id, ctid::text, xmin::text, xmax::text from {table} order by id")
        for table in ("facts", "rules", "memory_events", "episodes")
    ]


async def some_of_each_age(memory, lineage, clock, count=9):
    for i in range(count):
        await a_fact(memory, lineage, f"fact {i}", list(Permanence)[i % 5])
        await a_rule(memory, lineage, f"rule {i}")
        clock.advance(days=45)


@pytest.mark.contract("N4.4", "R09.3")
async def test_a_second_sweep_writes_nothing(memory, lineage, owner, clock):
    await some_of_each_age(memory, lineage, clock)
    first = await run_decay_sweep(memory, lineage)
    assert (
        min(first.facts_fading, first.facts_expired, first.rules_fading, first.rules_forgotten) > 0
    )
    before = await versions(owner)
    second = await run_decay_sweep(memory, lineage)
    assert second == report(
        facts_checked=first.facts_checked - first.facts_expired,
        rules_checked=first.rules_checked - first.rules_forgotten,
    )
    assert await versions(owner) == before


async def test_pages_do_not_change_what_a_sweep_does(memory, lineage, owner, clock, monkeypatch):
    monkeypatch.setattr(decay_sweep, "PAGE", 2)
    await some_of_each_age(memory, lineage, clock, 7)
    swept = await run_decay_sweep(memory, lineage)
    assert (swept.facts_checked, swept.rules_checked) == (5, 7)
    assert await run_decay_sweep(memory, lineage) == report(
        facts_checked=5 - swept.facts_expired, rules_checked=7 - swept.rules_forgotten
    )


@pytest.mark.contract("N4.4")
async def test_two_sweeps_at_once_tell_each_transition_once(memory, lineage, owner, clock):
    await some_of_each_age(memory, lineage, clock)
    one, two = await asyncio.gather(
        run_decay_sweep(memory, lineage), run_decay_sweep(memory, lineage)
    )
    told = await owner.fetch(
        "select memory_id, event_type from memory_events where event_type not like '%created'"
    )
    assert len(told) == len(set(map(tuple, told)))
    moved = ("facts_fading", "facts_expired", "rules_fading", "rules_forgotten")
    assert len(told) == sum(getattr(one, name) + getattr(two, name) for name in moved)
    assert len(told) > 0


async def test_a_row_in_use_is_left_to_the_next_sweep(memory, lineage, owner, clock):
    fact = await a_fact(memory, lineage)
    clock.advance(days=250)
    async with owner.transaction():
        await owner.execute("select id from facts where tenant_id = 'acme' for update")
        assert await run_decay_sweep(memory, lineage) == report(facts_checked=1)
    assert (await run_decay_sweep(memory, lineage)).facts_fading == 1
    assert await fact_state(owner, fact) == ("active", "fading")


@pytest.mark.contract("R29.2")
async def test_a_sweep_stays_within_its_tenant(memory, lineage, stranger, owner, clock):
    await a_fact(memory, lineage)
    theirs = await a_fact(memory, stranger)
    clock.advance(days=250)
    assert (await run_decay_sweep(memory, lineage)).facts_checked == 1
    assert await fact_state(owner, theirs) == ("active", None)


@pytest.mark.contract("N4.4")
async def test_every_tenant_is_swept_and_one_in_trouble_stays_alone(
    memory, lineage, stranger, owner, clock
):
    await a_fact(memory, lineage)
    await a_fact(memory, stranger)
    clock.advance(days=250)
    await owner.execute(
        "alter table memory_events add constraint trouble check (tenant_id <> 'acme') not valid"
    )
    try:
        swept = await for_every_tenant(memory, "sweeper", run_decay_sweep)
    finally:
        await owner.execute("alter table memory_events drop constraint trouble")
    assert swept.done == {"rival": report(facts_checked=1, facts_fading=1)}
    assert list(swept.failed) == ["acme"]
    assert "IntegrityViolation" in swept.failed["acme"]
    assert (await for_every_tenant(memory, "sweeper", run_decay_sweep)).done[
        "acme"
    ].facts_fading == 1
    assert {e["actor"] for e in await events(owner) if "fading" in e["event_type"]} == {"sweeper"}


async def test_a_forecast_of_fading_comes_true(memory, lineage, clock):
    fact = await a_fact(memory, lineage)
    told = await history.explain_memory(memory, MemoryType.FACT, fact, lineage)
    fades_at = clock.now.fromisoformat(told["fades_at"])
    clock.now = fades_at - timedelta(minutes=1)
    assert (await run_decay_sweep(memory, lineage)).facts_fading == 0
    clock.now = fades_at + timedelta(minutes=1)
    assert (await run_decay_sweep(memory, lineage)).facts_fading == 1


# Against a straightforward model

AGES = st.one_of(st.none(), st.floats(-50, 1_200))
MEMORIES = st.fixed_dictionaries(
    {
        "confidence": st.floats(0, 1),
        "decay_rate": st.sampled_from([0.0, 0.002, 0.008, 0.01, 0.03, 0.1]),
        "age_days": AGES,
        "fading": st.booleans(),
        "gone": st.sampled_from([False, False, False, True]),
    }
)


def after(row, now, facts_settings):
    """State of a memory after a sweep, and the word for how it got there."""
    state = "gone" if row["gone"] else "fading" if row["fading"] else "active"
    if row["gone"] or row["decay_rate"] == 0:
        return state, None
    left = effective_confidence(row["confidence"], row["decay_rate"], row["confirmed_at"], now)
    wanted = "active"
    if left < facts_settings.retrieval_confidence_threshold:
        wanted = "fading"
    if left < facts_settings.expiry_confidence_threshold:
        wanted = "gone"
    return wanted, wanted if wanted != state else None


INSERT = {
    "facts": "insert into facts (id, tenant_id, subject, predicate, content, confidence, "
    "decay_rate, last_confirmed_at, metadata, validity) values ($1, 'acme', $1::uuid::text, "
    "'likes', 'tea', $2, $3, $4, case when $5 then '{\"status\": \"fading\"}' else '{}' end"
    "::jsonb, case when $6 then 'expired' else 'active' end)",
    "rules": "insert into rules (id, tenant_id, content, confidence, decay_rate, "
    "last_confirmed_at, metadata) values ($1, 'acme', 'offer tea', $2, $3, $4, "
    "case when $5 then '{\"status\": \"fading\"}' else '{}' end::jsonb "
    "|| case when $6 then '{\"forgotten\": true}' else '{}' end::jsonb)",
}
STORED_STATE = {
    "facts": "case when validity <> 'active' then 'gone' when metadata ->> 'status' = 'fading' "
    "then 'fading' else 'active' end",
    "rules": "case when metadata -> 'forgotten' = 'true' then 'gone' "
    "when metadata ->> 'status' = 'fading' then 'fading' else 'active' end",
}
WORDS = {
    EventType.FACT_EXPIRED: "gone",
    EventType.FACT_FADING: "fading",
    EventType.FACT_RECOVERED: "active",
    EventType.RULE_FORGOTTEN: "gone",
    EventType.RULE_FADING: "fading",
    EventType.RULE_RECOVERED: "active",
}


@pytest.mark.contract("N7.3", "R09.3")
@pytest.mark.parametrize("table", ["facts", "rules"])
@pytest.mark.parametrize("fading", [False, True])
@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        (1.0, "active"),
        (0.2, "active"),
        (0.19999999, "fading"),
        (0.05, "fading"),
        (0.04999999, "gone"),
        (0.0, "gone"),
    ],
)
async def test_what_is_exactly_at_a_threshold_is_still_above_it(
    memory, lineage, owner, clock, table, fading, confidence, expected
):
    """Confirmed this instant, a memory has exactly the confidence it was given."""
    await owner.execute(INSERT[table], uuid.uuid4(), confidence, 0.01, clock.now, fading, False)
    await run_decay_sweep(memory, lineage)
    assert await owner.fetchval(f"select {STORED_STATE[table]} from {table}") == expected


@pytest.mark.contract("R09.3", "L4")
@pytest.mark.parametrize("table", ["facts", "rules"])
async def test_the_sweep_agrees_with_a_straightforward_model(memory, owner, clock, table):
    lineage = Lineage("acme", "tester")
    loop = asyncio.get_running_loop()

    @settings(
        max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(MEMORIES, min_size=1, max_size=12))
    def check(rows):
        asyncio.run_coroutine_threadsafe(compare(rows), loop).result()

    async def compare(rows):
        await emptied(owner, "facts, rules, memory_events, memory_event_chain")
        dated = [row | {"confirmed_at": confirmed(row["age_days"])} for row in rows]
        ids = [uuid.uuid4() for _ in dated]
        kept = ("confidence", "decay_rate", "confirmed_at", "fading", "gone")
        await owner.executemany(
            INSERT[table],
            [(i, *(row[name] for name in kept)) for i, row in zip(ids, dated, strict=True)],
        )
        expected = {
            memory_id: after(row, clock.now, memory.settings.facts)
            for memory_id, row in zip(ids, dated, strict=True)
        }
        await run_decay_sweep(memory, lineage)
        stored = await owner.fetch(f"select id, {STORED_STATE[table]} as state from {table}")
        assert {r["id"]: r["state"] for r in stored} == {k: v[0] for k, v in expected.items()}
        told = {e["memory_id"]: WORDS[e["event_type"]] for e in await events(owner)}
        assert told == {k: v[1] for k, v in expected.items() if v[1]}
        assert len(await events(owner)) == len(told)

    def confirmed(age_days):
        return None if age_days is None else clock.now - timedelta(days=age_days)

    await asyncio.to_thread(check)
