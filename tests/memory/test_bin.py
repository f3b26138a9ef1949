"""The bin: what a cleanup removed shows nowhere, can be had back whole, and goes in the end."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from butlers.errors import Conflict
from butlers.memory.flows import browse, recall, remember
from butlers.memory.flows.consolidation.lease import find_binned
from butlers.memory.flows.forget import forget_memory, restore_memory
from butlers.memory.flows.lifecycle import episode_retention
from butlers.memory.flows.lifecycle.episode_retention import (
    CleanupReport,
    empty_bin,
    run_episode_cleanup,
)
from butlers.memory.model import MemoryType, NewEpisode
from butlers.memory.settings import MemoryModuleConfig
from db.databases import emptied, the_dead_let_go
from memory.audit_stream import event_types, events
from memory.consolidation_stories import found, tell

READ = "update episodes set consolidated = true, consolidation_status = 'consolidated'"
WHOLE = (
    "select to_jsonb(episodes) - array['expires_at', 'embedding_version_id'] from episodes "
    "where id = $1"
)
EVERY_COLUMN = """
  update episodes set session_id = gen_random_uuid(), importance = 7.25, reference_count = 3,
    consolidation_status = 'dead_letter', consolidation_attempts = 5,
    last_consolidation_error = 'no', next_consolidation_retry_at = created_at,
    dead_letter_reason = 'gave up', last_referenced_at = created_at + interval '1 microsecond',
    metadata = '{"a": [1, {"b": null}]}', idempotency_key = 'once', place = 4, author = 'Ann',
    said_at = created_at - interval '1 day', consolidation_batch = 2,
    origin = 'document', trust = 2, stored_by = 'token:x', agent = 'codex', accepted_by = 'cli'
"""


async def binned(memory, lineage):
    return [row["id"] for row in await find_binned(memory, 100, lineage)]


@pytest.fixture
async def gone(memory, lineage, owner, clock):
    """An episode that was read, expired, and was cleaned up after."""
    episode = await tell(memory, lineage, "the boiler is a Vaillant")
    await owner.execute(READ)
    clock.advance(days=8)
    assert await run_episode_cleanup(memory, lineage) == CleanupReport(1, 0, 0)
    return episode


@pytest.mark.contract("L25", "R15.1")
async def test_what_lies_there_shows_nowhere_else(memory, lineage, owner, gone):
    assert await found(memory, lineage, "boiler") == []
    assert await recall.get_memory(memory, MemoryType.EPISODE, gone, lineage) is None
    assert (await browse.memory_stats(memory, None, lineage))["episodes"]["total"] == 0
    listed = await browse.list_page(memory, browse.EpisodeFilter(), browse.PageRequest(), lineage)
    assert list(listed.items) == []
    for table in ("episodes", "index_memories", "index_words", "index_vectors"):
        assert await owner.fetchval(f"select count(*) from {table}") == 0, table


@pytest.mark.contract("L25")
async def test_it_says_what_and_why_and_until_when(memory, lineage, stranger, clock, gone):
    [told] = await find_binned(memory, 100, lineage)
    assert (told["id"], told["reason"]) == (str(gone), "expired")
    assert (told["content"], told["butler"]) == ("the boiler is a Vaillant", "general")
    assert told["binned_at"] == clock.now.isoformat()
    assert told["until"] == (clock.now + timedelta(days=30)).isoformat()
    assert await find_binned(memory, 100, stranger) == []


@pytest.mark.contract("L25", "R15.2")
async def test_so_does_what_had_to_make_room(memory, lineage, owner):
    episode = await tell(memory, lineage)
    await owner.execute(READ)
    assert (await run_episode_cleanup(memory, lineage, 0)).capacity_deleted == 1
    [told] = await find_binned(memory, 100, lineage)
    assert (told["id"], told["reason"]) == (str(episode), "evicted")


@pytest.mark.contract("L25")
async def test_an_episode_comes_back_whole_and_is_found(memory, lineage, owner, clock):
    episode = await tell(memory, lineage, "the boiler is a Vaillant")
    await owner.execute(EVERY_COLUMN)
    before = json.loads(await owner.fetchval(WHOLE, episode))
    empty = {name for name, value in before.items() if value is None}
    only_of_pieces = {"piece", "past_by"}
    assert empty - only_of_pieces == {"leased_by", "leased_until", "quarantined"}, (
        "a column needs a value here"
    )
    clock.advance(days=8)
    await run_episode_cleanup(memory, lineage)
    assert await restore_memory(memory, "episode", episode, lineage)
    assert json.loads(await owner.fetchval(WHOLE, episode)) == before
    until = clock.now + timedelta(days=7)
    assert await owner.fetchval("select expires_at from episodes") == until
    assert await found(memory, lineage, "boiler") == [str(episode)]
    assert await binned(memory, lineage) == []
    told = (await events(owner, episode))[-1]
    assert told["event_type"] == "episode_restored"
    assert told["payload"] == {
        "from": "removed", "to": "dead_letter", "expires_at": until.isoformat()
    }  # fmt: skip
    assert not await restore_memory(memory, "episode", episode, lineage)


async def test_what_was_forgotten_comes_back_before_and_after_it_was_removed(
    memory, lineage, clock
):
    episode = await tell(memory, lineage)
    for _ in range(2):
        await forget_memory(memory, "episode", episode, lineage)
        assert await restore_memory(memory, "episode", episode, lineage)
        assert await found(memory, lineage, "tea")
        await forget_memory(memory, "episode", episode, lineage)
        clock.advance(seconds=1)
        await run_episode_cleanup(memory, lineage)
        assert await restore_memory(memory, "episode", episode, lineage)


@pytest.mark.contract("L1")
async def test_nobody_takes_out_what_is_anothers_or_not_there(memory, lineage, stranger, gone):
    assert not await restore_memory(memory, "episode", gone, stranger)
    assert not await restore_memory(memory, "episode", UUID(int=5), lineage)
    assert await binned(memory, lineage) == [str(gone)]


async def test_of_two_who_restore_at_once_one_does(memory, lineage, owner, gone):
    both = (restore_memory(memory, "episode", gone, lineage) for _ in range(2))
    assert sorted(await asyncio.gather(*both)) == [False, True]
    assert (await event_types(owner, gone)).count("episode_restored") == 1


async def test_one_that_was_stored_again_stays_where_it_is(memory, lineage, clock):
    new = NewEpisode("Ann called", "general", idempotency_key="session 1")
    first = (await remember.store_episode(memory, new, lineage)).id
    clock.advance(days=8)
    await run_episode_cleanup(memory, lineage)
    await remember.store_episode(memory, new, lineage)
    with pytest.raises(Conflict, match="stored again"):
        await restore_memory(memory, "episode", first, lineage)
    assert await binned(memory, lineage) == [str(first)]


@pytest.mark.contract("L25")
async def test_it_is_emptied_after_its_days_with_an_event(memory, lineage, owner, clock, gone):
    since = clock.now
    clock.advance(days=30, microseconds=-1)
    assert await empty_bin(memory, lineage) == 0
    clock.advance(microseconds=1)
    assert await empty_bin(memory, lineage) == 1
    assert await binned(memory, lineage) == []
    told = (await events(owner, gone))[-1]
    assert told["event_type"] == "episode_deleted"
    assert told["payload"] == {"binned_at": since.isoformat(), "reason": "expired"}
    assert not await restore_memory(memory, "episode", gone, lineage)


async def test_a_bin_of_no_days_keeps_nothing(memory, lineage, clock):
    memory.settings = MemoryModuleConfig.model_validate({"retention": {"bin_days": 0}})
    await tell(memory, lineage)
    clock.advance(days=8)
    assert await run_episode_cleanup(memory, lineage) == CleanupReport(1, 0, 0)
    assert await empty_bin(memory, lineage) == 1


# A process killed while it cleans up

SCRIPT = Path(__file__).with_name("cleanup_crash.py")


class Doomed:
    """The process that cleans up to be killed."""

    def __init__(self, process):
        self._process = process

    def run(self, step, at):
        self._process.stdin.write(f"{step} {at.isoformat()}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@pytest.fixture
def doomed(worker_access):
    paths = (str(SCRIPT.parents[1]), *(path for path in sys.path if path))
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), f"{worker_access.owner_dsn} {worker_access.runtime_dsn}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    ) as process:
        yield Doomed(process)


async def seed(memory, lineage, owner, clock):
    """Three that have lain in the bin for long, three that expired, three that nobody has read."""
    await emptied(
        owner,
        "episodes, memory_events, memory_event_chain, memory_links, binned_episodes, "
        "index_memories, index_words, index_vectors",
    )
    old = [await tell(memory, lineage, f"old {number}") for number in range(3)]
    await owner.execute(READ)
    clock.advance(days=8)
    await run_episode_cleanup(memory, lineage)
    clock.advance(days=24)
    done = [await tell(memory, lineage, f"done {number}") for number in range(3)]
    await owner.execute(READ)
    new = [await tell(memory, lineage, f"new {number}") for number in range(3)]
    clock.advance(days=8)
    return old, done, new


@pytest.mark.slow
@pytest.mark.contract("N4.4", "L25")
async def test_a_kill_at_any_step_of_a_cleanup_loses_and_doubles_nothing(
    memory, lineage, owner, clock, doomed, monkeypatch
):
    monkeypatch.setattr(episode_retention, "BATCH", 2)
    old, done, new = await seed(memory, lineage, owner, clock)
    steps = int(doomed.run(0, clock.now))
    await cleaned_up_once(memory, lineage, owner, old, done, new)
    assert steps > 30
    for step in range(1, steps + 1):
        old, done, new = await seed(memory, lineage, owner, clock)
        assert doomed.run(step, clock.now) == "killed"
        await the_dead_let_go(owner)
        await nothing_is_lost(owner, old, done, new)
        assert doomed.run(0, clock.now).isdigit()
        await cleaned_up_once(memory, lineage, owner, old, done, new)


async def nothing_is_lost(owner, old, done, new):
    """Each lies in one place, and whatever is gone was told to be."""
    rows = await owner.fetch(
        "select id from episodes union all select episode_id from binned_episodes "
        "union all select memory_id from memory_events where event_type = 'episode_deleted'"
    )
    assert Counter(row["id"] for row in rows) == Counter([*old, *done, *new])


async def cleaned_up_once(memory, lineage, owner, old, done, new):
    assert sorted(await binned(memory, lineage)) == sorted(map(str, done))
    left = await owner.fetch("select id from episodes order by id")
    assert [row["id"] for row in left] == new
    told = Counter(await event_types(owner))
    assert (told["episode_expired"], told["episode_deleted"]) == (6, 3)
    assert told["episode_kept"] == 3


async def test_what_has_lain_there_longest_goes_first(memory, lineage, owner, clock, monkeypatch):
    """A run that is cut short has removed the oldest, batch by batch."""
    monkeypatch.setattr(episode_retention, "BATCH", 1)
    binned_ids = []
    for number in range(3):
        binned_ids.append(await tell(memory, lineage, f"call {number}"))
        await owner.execute(READ)
        clock.advance(days=8)
        await run_episode_cleanup(memory, lineage)
    clock.advance(days=40)
    assert await empty_bin(memory, lineage) == 3
    deleted = [
        row["memory_id"] for row in await events(owner) if row["event_type"] == "episode_deleted"
    ]
    assert deleted == binned_ids
