"""A process killed at any step of a consolidation: the next run completes it, once."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from butlers.db.postgres import Access
from butlers.memory.flows.consolidation.answer import CLAIM_SECONDS, claim_episodes, submit
from butlers.memory.flows.consolidation.run import run_consolidation
from db.databases import emptied, the_dead_let_go
from memory.audit_stream import event_types
from memory.consolidation_stories import (
    active_facts,
    derivations,
    everything,
    infer,
    states,
    tell,
)
from memory.crash_story import story
from memory.scripted_model import ScriptedModel, failing

SCRIPT = Path(__file__).with_name("consolidation_crash.py")
KNOWN = {("Cid", "likes", "ale"), ("Dan", "likes", "rum")}
LEARNED = {
    ("Ann", "likes", "tea"), ("Bob", "left", "in May"),
    ("Cid", "likes", "beer"), ("Dan", "likes", "rum"),
}  # fmt: skip
TABLES = (
    "episodes, facts, rules, entities, memory_links, memory_events, "
    "memory_event_chain, rule_applications, "
    "embedding_versions, memory_tenants, memory_proposals, memory_claims, memory_conflicts"
)


class Doomed:
    """The process that runs consolidations to be killed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, step: int, at: datetime) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{step} {at.isoformat()}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@pytest.fixture
def doomed(worker_access: Access) -> Iterator[Doomed]:
    yield from _doomed(worker_access, "run")


@pytest.fixture
def doomed_agent(worker_access: Access) -> Iterator[Doomed]:
    yield from _doomed(worker_access, "agent")


def _doomed(worker_access: Access, how: str) -> Iterator[Doomed]:
    paths = (str(SCRIPT.parents[1]), *(path for path in sys.path if path))
    with subprocess.Popen(
        [
            sys.executable,
            str(SCRIPT),
            f"{worker_access.owner_dsn} {worker_access.runtime_dsn}",
            how,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    ) as process:
        yield Doomed(process)


async def seed(memory, lineage, owner) -> set:
    """Two episodes and two known facts, in an empty database."""
    await emptied(owner, TABLES)
    await infer(memory, lineage, "Cid", "likes", "ale")
    await infer(memory, lineage, "Dan", "likes", "rum")
    told = ("Ann likes tea, so offer it. Cid likes beer now", "Bob left in May; Dan drinks rum")
    return {await tell(memory, lineage, text) for text in told}


def steps_to_die_at(steps: int) -> list[int]:
    """All of them; over a cluster, where each takes four times as long, an eighth and the last."""
    every = 8 if "BUTLERS_TEST_CLUSTER" in os.environ else 1
    return [step for step in range(1, steps + 1) if step % every == 0 or step > steps - 3]


async def completed_once(owner, episodes) -> None:
    """Everything the story says is there, exactly once, and nothing is left over."""
    assert await active_facts(owner) == LEARNED
    rows = await states(owner)
    assert {row["id"] for row in rows} == episodes
    assert {(row["status"], row["leased_by"]) for row in rows} == {("consolidated", None)}
    told = Counter(await event_types(owner))
    assert told["episode_consolidated"] == 2 and told["episode_dead_lettered"] == 0
    assert told["fact_created"] == 5 and told["fact_superseded"] == 1
    assert told["rule_created"] == 1 and told["fact_confirmed"] == 1
    assert await owner.fetchval("select count(*) from rules") == 1
    made = await owner.fetch(
        "select id from facts where content <> all(array['ale', 'rum']) union select id from rules"
    )
    assert await derivations(owner) == {
        (row["id"], episode) for row in made for episode in episodes
    }


@pytest.mark.slow
@pytest.mark.contract("N7.2", "N4.4", "N4.2", "L10")
async def test_a_kill_at_any_step_loses_and_doubles_nothing(memory, lineage, owner, clock, doomed):
    episodes = await seed(memory, lineage, owner)
    steps = int(doomed.run(0, clock.now))
    await completed_once(owner, episodes)
    assert steps > 40
    crashes = Counter()
    for step in steps_to_die_at(steps):
        episodes = await seed(memory, lineage, owner)
        assert doomed.run(step, clock.now) == "killed"
        await the_dead_let_go(owner)
        crashes[await _where_it_died(owner)] += 1
        clock.advance(seconds=301)
        await run_consolidation(memory, ScriptedModel(story), lineage)
        await completed_once(owner, episodes)
        assert {row["attempts"] for row in await states(owner)} <= {0, 1}
        settled = await everything(owner)
        assert (await run_consolidation(memory, failing(), lineage)).episodes_processed == 0
        assert await everything(owner) == settled
    assert set(crashes) == {"untouched", "claimed", "consolidated"}


@pytest.mark.slow
@pytest.mark.contract("N7.2", "N4.4", "L28")
async def test_an_agent_killed_at_any_step_loses_and_doubles_nothing(
    memory, lineage, owner, clock, doomed_agent
):
    """Nor does it cost an attempt: whoever did not come back says nothing about the episodes."""
    episodes = await seed(memory, lineage, owner)
    steps = int(doomed_agent.run(0, clock.now))
    await completed_once(owner, episodes)
    assert steps > 40
    crashes = Counter()
    for step in steps_to_die_at(steps):
        episodes = await seed(memory, lineage, owner)
        assert doomed_agent.run(step, clock.now) == "killed"
        await the_dead_let_go(owner)
        crashes[await _where_it_died(owner)] += 1
        clock.advance(seconds=CLAIM_SECONDS + 1)
        claim = await claim_episodes(memory, 10, lineage)
        if claim.claim_id is not None:
            await submit(memory, claim.claim_id, json.loads(story(claim.prompt)), lineage)
        await completed_once(owner, episodes)
        assert {row["attempts"] for row in await states(owner)} == {0}
    assert set(crashes) == {"untouched", "claimed", "consolidated"}


async def _where_it_died(owner) -> str:
    """A kill leaves everything as it was, or claimed, or finished: never anything in between."""
    rows = await states(owner)
    if {row["status"] for row in rows} == {"consolidated"}:
        assert await active_facts(owner) == LEARNED
        return "consolidated"
    assert {row["status"] for row in rows} == {"pending"}
    assert await active_facts(owner) == KNOWN
    leased = {row["leased_by"] for row in rows}
    assert len(leased) == 1
    return "untouched" if leased == {None} else "claimed"
