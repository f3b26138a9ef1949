"""Episode cleanup: what goes, in which order, and what is never touched."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from butlers.errors import InvalidInput
from butlers.memory.flows import history, remember
from butlers.memory.flows.lifecycle import episode_retention, for_every_tenant
from butlers.memory.flows.lifecycle.episode_retention import CleanupReport, run_episode_cleanup
from butlers.memory.model import (
    EventType,
    Lineage,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
)
from butlers.memory.settings import MemoryModuleConfig
from db.databases import emptied
from memory.audit_stream import event_types, events


async def an_episode(memory, lineage, content="Ann called"):
    return (await remember.store_episode(memory, NewEpisode(content, "general"), lineage)).id


async def consolidate(owner, *ids):
    """Mark episodes as consolidated, as a run of consolidation does."""
    await owner.execute(
        "update episodes set consolidated = true, consolidation_status = 'consolidated' "
        "where id = any($1)",
        list(ids),
    )


async def left(owner, tenant="acme"):
    rows = await owner.fetch("select id from episodes where tenant_id = $1 order by id", tenant)
    return [row["id"] for row in rows]


@pytest.fixture
async def ten(memory, lineage, owner, clock):
    """Ten episodes an hour apart, the even ones consolidated."""
    ids = []
    for i in range(10):
        ids.append(await an_episode(memory, lineage, f"call {i}"))
        clock.advance(hours=1)
    await consolidate(owner, *ids[::2])
    return ids


# Expiry


@pytest.mark.contract("R15.1", "R15.3", "N7.3")
async def test_expired_episodes_go_whether_consolidated_or_not(memory, lineage, owner, clock):
    done, waiting = await an_episode(memory, lineage), await an_episode(memory, lineage)
    await consolidate(owner, done)
    clock.advance(days=5)
    young = await an_episode(memory, lineage)
    clock.advance(days=2, seconds=1)
    assert await run_episode_cleanup(memory, lineage) == CleanupReport(2, 0, 1)
    assert await left(owner) == [young]
    told = {e["memory_id"]: e for e in await events(owner) if e["event_type"] == "episode_expired"}
    assert {i: e["payload"]["from"] for i, e in told.items()} == {
        done: "consolidated",
        waiting: "pending",
    }


@pytest.mark.contract("R15.1", "N5.1")
async def test_an_episode_is_not_expired_before_its_moment_has_passed(
    memory, lineage, owner, clock
):
    episode = await an_episode(memory, lineage)
    clock.advance(days=7)
    assert (await run_episode_cleanup(memory, lineage)).expired_deleted == 0
    clock.advance(microseconds=1)
    assert (await run_episode_cleanup(memory, lineage)).expired_deleted == 1
    assert episode not in await left(owner)


async def test_an_episode_without_end_never_expires(memory, lineage, owner, clock):
    await an_episode(memory, lineage)
    await owner.execute("update episodes set expires_at = null")
    clock.advance(days=36_000)
    assert await run_episode_cleanup(memory, lineage) == CleanupReport(0, 0, 1)


@pytest.mark.contract("R33.3")
async def test_what_was_removed_is_told_once(memory, lineage, owner, clock):
    episode = await an_episode(memory, lineage)
    created = clock.now
    clock.advance(days=8)
    await run_episode_cleanup(memory, lineage)
    assert await event_types(owner, episode) == ["episode_created", EventType.EPISODE_EXPIRED]
    told = (await events(owner, episode))[-1]
    assert (told["actor"], told["request_id"]) == (lineage.actor, lineage.request_id)
    assert (told["tenant_id"], told["created_at"]) == ("acme", clock.now)
    assert told["payload"] == {
        "from": "pending",
        "to": "removed",
        "butler": "general",
        "created_at": created.isoformat(),
        "expires_at": (created + timedelta(days=7)).isoformat(),
    }


# Capacity


@pytest.mark.contract("R15.2", "N7.3")
async def test_the_oldest_consolidated_go_until_the_limit_is_kept(memory, lineage, owner, ten):
    assert await run_episode_cleanup(memory, lineage, 7) == CleanupReport(0, 3, 7)
    assert await left(owner) == [one for one in ten if one not in (ten[0], ten[2], ten[4])]
    told = [e["memory_id"] for e in await events(owner) if e["event_type"] == "episode_evicted"]
    assert told == [ten[0], ten[2], ten[4]]


@pytest.mark.contract("R15.2", "N5.1")
async def test_what_was_never_consolidated_is_not_removed_for_room(memory, lineage, owner, ten):
    assert await run_episode_cleanup(memory, lineage, 0) == CleanupReport(0, 5, 5)
    assert await left(owner) == ten[1::2]


@pytest.mark.contract("R15.2", "N5.1")
@pytest.mark.parametrize("status", ["failed", "dead_letter"])
async def test_neither_is_what_failed(memory, lineage, owner, status):
    for i in range(3):
        await an_episode(memory, lineage, f"call {i}")
    await owner.execute(
        "update episodes set consolidation_status = $1::text, "
        "dead_letter_reason = case when $1::text = 'dead_letter' then 'five failures' end",
        status,
    )
    assert await run_episode_cleanup(memory, lineage, 0) == CleanupReport(0, 0, 3)


async def test_among_equals_the_smaller_id_goes_first(memory, lineage, owner):
    ids = [await an_episode(memory, lineage, f"call {i}") for i in range(4)]
    await consolidate(owner, *ids)
    assert (await run_episode_cleanup(memory, lineage, 2)).capacity_deleted == 2
    assert await left(owner) == sorted(ids)[2:]


@pytest.mark.contract("N8", "R15.2")
async def test_the_limit_is_a_setting(memory, lineage, owner, ten):
    memory.settings = MemoryModuleConfig.model_validate({"episodes": {"max_entries": 9}})
    assert await run_episode_cleanup(memory, lineage) == CleanupReport(0, 1, 9)


async def test_a_limit_below_nothing_is_refused(memory, lineage):
    with pytest.raises(InvalidInput, match="max_entries: found -1; valid is 0 or more"):
        await run_episode_cleanup(memory, lineage, -1)


async def test_what_expired_makes_room_first(memory, lineage, owner, clock, ten):
    await owner.execute("update episodes set expires_at = $1 where id = $2", clock.now, ten[9])
    clock.advance(seconds=1)
    assert await run_episode_cleanup(memory, lineage, 9) == CleanupReport(1, 0, 9)


# Leases, batches, crashes, company


async def test_what_a_consolidation_holds_is_left_until_its_lease_ends(
    memory, lineage, owner, clock
):
    held, _ = await an_episode(memory, lineage), await an_episode(memory, lineage)
    clock.advance(days=8)
    await owner.execute(
        "update episodes set leased_until = $1, leased_by = 'worker' where id = $2",
        clock.now + timedelta(minutes=5),
        held,
    )
    assert await run_episode_cleanup(memory, lineage, 0) == CleanupReport(1, 0, 1)
    assert await left(owner) == [held]
    clock.advance(minutes=5)
    assert await run_episode_cleanup(memory, lineage) == CleanupReport(1, 0, 0)


@pytest.mark.contract("N4.4")
async def test_what_was_done_before_a_crash_stays_done(memory, lineage, owner, clock, monkeypatch):
    monkeypatch.setattr(episode_retention, "BATCH", 2)
    for i in range(5):
        await an_episode(memory, lineage, f"call {i}")
    clock.advance(days=8)
    known, ids = memory.new_id, []

    def dying():
        ids.append(known())
        if len(ids) == 4:
            raise KeyboardInterrupt
        return ids[-1]

    memory.new_id = dying
    with pytest.raises(KeyboardInterrupt):
        await run_episode_cleanup(memory, lineage)
    assert len(await left(owner)) == 3
    assert (await event_types(owner)).count("episode_expired") == 2
    memory.new_id = known
    assert await run_episode_cleanup(memory, lineage) == CleanupReport(3, 0, 0)
    assert (await event_types(owner)).count("episode_expired") == 5


@pytest.mark.contract("N4.4")
async def test_two_cleanups_at_once_remove_no_more_than_one_would(
    memory, lineage, owner, ten, monkeypatch
):
    monkeypatch.setattr(episode_retention, "BATCH", 1)
    reports = await asyncio.gather(*(run_episode_cleanup(memory, lineage, 7) for _ in range(3)))
    assert sum(one.capacity_deleted for one in reports) == 3
    assert len(await left(owner)) == 7
    assert (await event_types(owner)).count("episode_evicted") == 3


@pytest.mark.contract("R29.2", "N4.4")
async def test_each_tenant_is_cleaned_up_after_on_its_own(memory, lineage, stranger, owner, clock):
    await an_episode(memory, lineage)
    await an_episode(memory, stranger)
    clock.advance(days=8)
    assert (await run_episode_cleanup(memory, lineage)).expired_deleted == 1
    assert len(await left(owner, "rival")) == 1
    cleaned = await for_every_tenant(memory, "cleaner", run_episode_cleanup)
    assert cleaned.failed == {}
    assert cleaned.done == {"acme": CleanupReport(0, 0, 0), "rival": CleanupReport(1, 0, 0)}


# Provenance


async def sources(memory, memory_type, memory_id, lineage):
    told = await history.explain_memory(memory, memory_type, memory_id, lineage)
    return [(one["id"], one["gone"]) for one in told["source_episodes"]]


@pytest.mark.contract("R15.1")
async def test_a_memory_still_says_which_episode_it_came_from(memory, lineage, owner, clock):
    episode = await an_episode(memory, lineage)
    fact = await remember.store_fact(
        memory, NewFact("Ann", "likes", "tea", source_episode_id=episode), lineage
    )
    rule = await remember.store_rule(
        memory, NewRule("offer tea", source_episode_id=episode), lineage
    )
    assert await sources(memory, MemoryType.FACT, fact.id, lineage) == [(str(episode), False)]
    clock.advance(days=8)
    await run_episode_cleanup(memory, lineage)
    assert await owner.fetchval("select source_episode_id from facts") is None
    assert await sources(memory, MemoryType.FACT, fact.id, lineage) == [(str(episode), True)]
    assert await sources(memory, MemoryType.RULE, rule.id, lineage) == [(str(episode), True)]


@pytest.mark.parametrize(
    ("kind", "columns", "values"),
    [
        (MemoryType.FACT, "subject, predicate, content", "'Ann', 'likes', 'tea'"),
        (MemoryType.RULE, "content", "'offer tea'"),
    ],
)
async def test_so_does_one_from_before_there_were_events(
    memory, lineage, owner, clock, kind, columns, values
):
    """No event tells its source: only the link that the cleanup leaves behind can."""
    episode = await an_episode(memory, lineage)
    old = await owner.fetchval(
        f"insert into {kind}s (tenant_id, {columns}, source_episode_id) "
        f"values ('acme', {values}, $1) returning id",
        episode,
    )
    clock.advance(days=8)
    await run_episode_cleanup(memory, lineage)
    assert await sources(memory, kind, old, lineage) == [(str(episode), True)]


# Against a straightforward model

HOURS = st.integers(-48, 48)
EPISODES = st.fixed_dictionaries(
    {
        "age_hours": st.integers(0, 400),
        "expires_hours": st.one_of(st.none(), HOURS),
        "leased_hours": st.one_of(st.none(), st.none(), HOURS),
        "status": st.sampled_from(["pending", "consolidated", "consolidated", "failed"]),
    }
)
INSERT = (
    "insert into episodes (tenant_id, butler, content, created_at, expires_at, leased_until, "
    "leased_by, consolidation_status, consolidated) values ('acme', 'general', 'x', $1, $2, $3, "
    "case when $3::timestamptz is not null then 'worker' end, $4::text, "
    "$4::text = 'consolidated') returning id"
)


def expected_report(rows, max_entries):
    """What a cleanup removes, said as simply as possible."""
    free = [not (row["leased_hours"] or 0) > 0 for row in rows]
    expired = [
        row["expires_hours"] is not None and row["expires_hours"] < 0 and unheld
        for row, unheld in zip(rows, free, strict=True)
    ]
    staying = len(rows) - sum(expired)
    removable = sum(
        row["status"] == "consolidated" and unheld and not gone
        for row, unheld, gone in zip(rows, free, expired, strict=True)
    )
    evicted = min(removable, max(0, staying - max_entries))
    return CleanupReport(sum(expired), evicted, staying - evicted)


@pytest.mark.contract("R15.1", "R15.2", "R15.3")
async def test_the_cleanup_agrees_with_a_straightforward_model(memory, owner, clock, monkeypatch):
    monkeypatch.setattr(episode_retention, "BATCH", 3)
    lineage, loop = Lineage("acme", "tester"), asyncio.get_running_loop()

    @settings(
        max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(EPISODES, max_size=12), st.integers(0, 12))
    def check(rows, max_entries):
        asyncio.run_coroutine_threadsafe(compare(rows, max_entries), loop).result()

    async def compare(rows, max_entries):
        await emptied(owner, "episodes")
        await owner.executemany(
            INSERT,
            [
                (
                    clock.now - timedelta(hours=row["age_hours"]),
                    hours(row["expires_hours"]),
                    hours(row["leased_hours"]),
                    row["status"],
                )
                for row in rows
            ],
        )
        found = await run_episode_cleanup(memory, lineage, max_entries)
        assert found == expected_report(rows, max_entries)
        assert len(await left(owner)) == found.remaining

    def hours(number):
        return None if number is None else clock.now + timedelta(hours=number)

    await asyncio.to_thread(check)
