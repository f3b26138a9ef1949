"""What nobody has read is kept: its expiry is moved on, with an event, up to a bound."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from butlers.memory.flows import remember, undo
from butlers.memory.flows.check import StoreCheck
from butlers.memory.flows.forget import forget_memory
from butlers.memory.flows.lifecycle import episode_retention
from butlers.memory.flows.lifecycle.episode_retention import (
    Unread,
    count_unread,
    crowded,
    keep_unread,
    run_episode_cleanup,
)
from butlers.memory.flows.undo_plan import UndoSource
from butlers.memory.model import NewFact, Origin
from butlers.memory.settings import EpisodesConfig, MemoryModuleConfig
from memory.audit_stream import event_types, events
from memory.consolidation_stories import found, tell

STATUS = (
    "update episodes set consolidation_status = $2::text, consolidated = ($2 = 'consolidated'), "
    "dead_letter_reason = case when $2 = 'dead_letter' then 'gave up' end where id = $1"
)


def keeping(memory, **episodes):
    memory.settings = MemoryModuleConfig.model_validate({"episodes": episodes})


async def expiries(owner):
    return {r["id"]: r["expires_at"] for r in await owner.fetch("select * from episodes")}


@pytest.mark.contract("L25")
@pytest.mark.parametrize("status", ["pending", "failed", "dead_letter"])
async def test_before_its_expiry_passes_it_is_moved_on_by_the_ttl(
    memory, lineage, owner, clock, status
):
    episode = await tell(memory, lineage)
    if status != "pending":
        await owner.execute(STATUS, episode, status)
    until = clock.now + timedelta(days=7)
    clock.advance(days=5)
    assert await keep_unread(memory, lineage) == 0
    clock.advance(minutes=1)
    assert await keep_unread(memory, lineage) == 1
    moved = until + timedelta(days=7)
    assert await expiries(owner) == {episode: moved}
    told = (await events(owner, episode))[-1]
    assert (told["event_type"], told["actor"]) == ("episode_kept", lineage.actor)
    assert told["payload"] == {"expires_at": {"from": until.isoformat(), "to": moved.isoformat()}}
    assert await keep_unread(memory, lineage) == 0


@pytest.mark.contract("L25")
async def test_what_expired_while_nobody_was_there_is_found_again(memory, lineage, owner, clock):
    episode = await tell(memory, lineage, "the boiler is a Vaillant")
    clock.advance(days=21)
    assert await found(memory, lineage, "boiler") == []
    await keep_unread(memory, lineage)
    assert await expiries(owner) == {episode: clock.now + timedelta(days=7)}
    assert await found(memory, lineage, "boiler") == [str(episode)]
    assert (await run_episode_cleanup(memory, lineage)).expired_deleted == 0


@pytest.mark.contract("L25", "R05.8")
async def test_what_was_forgotten_by_an_undo_or_with_a_fact_stays_so_while_the_clock_goes_on(
    memory, lineage, owner, clock
):
    """The event is written a moment after the episode."""

    def ticking():
        clock.advance(milliseconds=1)
        return clock.now

    memory.now = ticking
    person = replace(lineage, origin=Origin.OPERATOR)
    undone, source = await tell(memory, lineage, "Ann rang"), await tell(memory, lineage, "Bo rang")
    await undo.undo_source(memory, UndoSource(episode_id=undone), person)
    new = NewFact("Bo", "did", "ring", source_episode_id=source)
    drawn = await remember.store_fact(memory, new, lineage)
    gone = await forget_memory(memory, "fact", drawn.id, lineage, with_sources=True)
    assert [one["id"] for one in gone.sources_forgotten] == [source]
    forgotten = await expiries(owner)
    clock.advance(days=1)
    assert await keep_unread(memory, lineage) == 0
    assert await expiries(owner) == forgotten
    assert (await StoreCheck(memory).run()).lines == []


async def test_what_was_read_expires_as_it_was_meant_to(memory, lineage, owner, clock):
    episode = await tell(memory, lineage)
    await owner.execute(STATUS, episode, "consolidated")
    clock.advance(days=8)
    assert await keep_unread(memory, lineage) == 0
    assert (await run_episode_cleanup(memory, lineage)).expired_deleted == 1


@pytest.mark.contract("L25")
@pytest.mark.parametrize("status", ["pending", "dead_letter"])
async def test_what_somebody_asked_to_forget_is_not_kept(memory, lineage, owner, clock, status):
    episode = await tell(memory, lineage)
    if status != "pending":
        await owner.execute(STATUS, episode, status)
    clock.advance(days=6)
    await forget_memory(memory, "episode", episode, lineage)
    clock.advance(seconds=1)
    assert await keep_unread(memory, lineage) == 0
    assert (await run_episode_cleanup(memory, lineage)).expired_deleted == 1


@pytest.mark.contract("L25")
async def test_a_setting_switches_it_off(memory, lineage, clock):
    keeping(memory, keep_unread=False)
    await tell(memory, lineage)
    clock.advance(days=8)
    assert await keep_unread(memory, lineage) == 0
    assert (await run_episode_cleanup(memory, lineage)).expired_deleted == 1


@pytest.mark.contract("L25")
@pytest.mark.parametrize(
    ("bound", "characters"), [({"MAX_UNREAD_EPISODES": 3}, 1), ({"MAX_UNREAD_MB": 1}, 330_000)]
)
async def test_beyond_the_bound_the_oldest_expire_but_for_dead_letters(
    memory, lineage, owner, clock, bound, characters, set_limits
):
    set_limits(**bound)
    ids = []
    for number in range(5):
        ids.append(await tell(memory, lineage, f"call {number} " + "x" * characters))
        clock.advance(minutes=1)
    await owner.execute(STATUS, ids[0], "dead_letter")
    clock.advance(days=6)
    assert await keep_unread(memory, lineage) == 4
    clock.advance(days=2)
    report = await run_episode_cleanup(memory, lineage)
    assert report.expired_deleted == 1
    assert sorted(await expiries(owner)) == [ids[0], *ids[2:]]
    assert await event_types(owner, ids[1]) == ["episode_created", "episode_expired"]


async def test_many_are_kept_in_batches_once_each(memory, lineage, owner, clock, monkeypatch):
    monkeypatch.setattr(episode_retention, "KEEP_BATCH", 2)
    for number in range(5):
        await tell(memory, lineage, f"call {number}")
    clock.advance(days=6)
    kept = await asyncio.gather(*(keep_unread(memory, lineage) for _ in range(3)))
    assert sum(kept) == 5
    assert (await event_types(owner)).count("episode_kept") == 5


async def test_whoever_is_waited_for_keeps_no_more_than_a_batch(
    memory, lineage, owner, clock, monkeypatch
):
    monkeypatch.setattr(episode_retention, "KEEP_BATCH", 2)
    for number in range(3):
        await tell(memory, lineage, f"call {number}")
    clock.advance(days=6)
    assert await keep_unread(memory, lineage, at_once=True) == 2
    assert await keep_unread(memory, lineage) == 1


async def test_with_the_shortest_life_one_event_is_enough(memory, lineage, owner, clock):
    keeping(memory, default_ttl_days=1)
    await tell(memory, lineage)
    clock.advance(days=9)
    assert await keep_unread(memory, lineage) == 1
    assert list((await expiries(owner)).values()) == [clock.now + timedelta(days=1)]


@pytest.mark.contract("L42")
async def test_what_a_clock_that_ran_ahead_moved_too_far_comes_back(memory, lineage, owner, clock):
    episode = await tell(memory, lineage)
    today = clock.now
    clock.advance(days=3650)
    await keep_unread(memory, lineage)
    clock.now = today + timedelta(hours=1)
    assert await keep_unread(memory, lineage) == 1
    assert await expiries(owner) == {episode: clock.now + timedelta(days=7)}
    assert await keep_unread(memory, lineage) == 0


async def test_an_expiry_that_somebody_gave_it_is_left_alone(memory, lineage, owner, clock):
    await tell(memory, lineage)
    await owner.execute("update episodes set expires_at = '2036-01-01T00:00:00Z'")
    assert await keep_unread(memory, lineage) == 0


async def test_each_tenant_keeps_its_own(memory, lineage, stranger, owner, clock):
    await tell(memory, lineage)
    theirs = await tell(memory, stranger)
    clock.advance(days=6)
    assert await keep_unread(memory, lineage) == 1
    assert (await expiries(owner))[theirs] == clock.now + timedelta(days=1)


async def test_it_is_counted_with_how_long_it_waits(memory, lineage, owner, clock):
    assert await count_unread(memory, lineage) == Unread(0, 0, 0, None)
    first, oldest = await tell(memory, lineage, "né"), clock.now
    clock.advance(days=1)
    second, third = await tell(memory, lineage, "two"), await tell(memory, lineage, "read")
    await owner.execute(STATUS, third, "consolidated")
    assert await count_unread(memory, lineage) == Unread(2, 6, 2, oldest)
    await owner.execute(STATUS, first, "dead_letter")
    assert await count_unread(memory, lineage) == Unread(2, 6, 1, clock.now)
    assert second != third


@pytest.mark.contract("L25")
@pytest.mark.parametrize(
    ("episodes", "megabytes", "told"),
    [
        (79, 0.0, None),
        (80, 0.0, "80 of 100 unread episodes, 0 of 10 MB: beyond that the oldest expire unread"),
        (1, 8.0, "1 of 100 unread episodes, 8 of 10 MB: beyond that the oldest expire unread"),
        (
            101,
            1.0,
            "101 of 100 unread episodes, 1 of 10 MB: the oldest beyond that expire unread, "
            "and lie in the bin from then on",
        ),
    ],
)
def test_from_four_fifths_of_the_bound_on_it_is_said(episodes, megabytes, told, set_limits):
    set_limits(MAX_UNREAD_EPISODES=100, MAX_UNREAD_MB=10)
    settings = EpisodesConfig()
    found = Unread(episodes, int(megabytes * 1_000_000), 1, None)
    assert crowded(found, settings) == told
    assert crowded(found, settings.model_copy(update={"keep_unread": False})) is None
