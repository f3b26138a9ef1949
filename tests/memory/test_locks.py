"""Who waits for whom: a test holds what one flow locks, and sees that another waits for it."""

import asyncio
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from butlers.errors import NotFound
from butlers.memory.flows import conflicts, correct, entities, forget, remember
from butlers.memory.flows.accept_proposal import accept
from butlers.memory.flows.proposals import decline, find_proposals
from butlers.memory.model import NewFact, Settlement, Trust
from butlers.memory.store import conflicts as conflict_store
from butlers.memory.store import facts
from butlers.memory.store import proposals as proposal_store
from butlers.memory.store.facts import FactKey

_WAITS = (
    "select exists (select from pg_stat_activity "
    "where datname = current_database() and wait_event_type = 'Lock')"
)


@asynccontextmanager
async def waiting(owner, work: Coroutine):
    """The work, begun within the block and waiting for a lock that is held there."""
    task = asyncio.create_task(work)
    async with asyncio.timeout(30):
        while not task.done() and not await owner.fetchval(_WAITS):
            await asyncio.sleep(0.01)
    assert not task.done(), "it did not wait"
    yield task


async def told(memory, lineage, predicate, content, **more):
    return await remember.store_fact(memory, NewFact("Ann", predicate, content, **more), lineage)


@pytest.mark.contract("L2")
async def test_two_writers_of_one_entitys_fact_wait_for_each_other(memory, lineage, owner):
    ann = await entities.create_entity(memory, "Ann", "person", None, None, lineage)
    key = FactKey("global", "city", "Ann", ann)
    async with memory.transaction(lineage) as tx:
        await facts.hold_keys(tx, key)
        async with waiting(owner, told(memory, lineage, "city", "Oslo", entity_id=ann)) as writer:
            pass
    first = await asyncio.wait_for(writer, 30)
    writers = [
        remember.store_fact(memory, NewFact(name, "city", name, entity_id=ann), lineage)
        for name in ("Anna", "Annie", "Anouk", "Anja")
    ]
    stored = await asyncio.gather(*writers)
    active = await owner.fetch("select id from facts where validity = 'active'")
    assert len(active) == 1
    replaced = {one.superseded_id for one in stored}
    assert replaced | {active[0]["id"]} == {first.id, *(one.id for one in stored)}


@pytest.fixture
async def two_cities(memory, lineage):
    """Two facts that contradict each other, and their conflict."""
    berlin = await told(memory, lineage, "city", "Berlin")
    memory.now.advance(hours=1)
    madrid = await told(memory, lineage, "lives_in", "Madrid")
    return berlin.id, madrid.id, madrid.conflicts[0].id


@pytest.mark.parametrize("side", [0, 1])
async def test_what_is_being_settled_is_forgotten_afterwards(
    memory, lineage, owner, two_cities, side
):
    """Whoever settles decides by facts that stay as they are until the decision is made."""
    id, conflict = two_cities[side], two_cities[2]
    async with memory.transaction(lineage) as tx:
        assert await conflict_store.lock(tx, id=conflict) is not None
        async with waiting(owner, forget.forget_memory(memory, "fact", id, lineage)) as forgetting:
            pass
    assert await asyncio.wait_for(forgetting, 30)
    with pytest.raises(NotFound, match="no open conflict"):
        await conflicts.settle(memory, conflict, Settlement.NEWER, lineage)


async def test_settling_and_correcting_at_once_leave_one_fact_of_a_key(
    memory, lineage, owner, two_cities
):
    berlin, _, conflict = two_cities
    await asyncio.gather(
        conflicts.settle(memory, conflict, Settlement.BOTH, lineage),
        correct.correct_fact(memory, berlin, "Bern", lineage),
        return_exceptions=True,
    )
    rows = await owner.fetch(
        "select predicate, content from facts where validity = 'active' order by predicate"
    )
    assert [row["predicate"] for row in rows] == ["city", "lives_in"]


async def test_two_people_decide_a_proposal_one_after_the_other(memory, lineage, owner):
    await told(memory, lineage, "city", "Oslo")
    low = replace(lineage, ceiling=Trust.LOW)
    await told(memory, low, "city", "Rome")
    (proposal,) = await find_proposals(memory, 10, lineage)
    async with memory.transaction(lineage) as tx:
        assert await proposal_store.lock(tx, id=proposal["id"]) is not None
        async with (
            waiting(owner, decline(memory, proposal["id"], lineage)) as declining,
        ):
            pass
    assert await asyncio.wait_for(declining, 30)
    with pytest.raises(NotFound, match="no open proposal"):
        await accept(memory, proposal["id"], lineage)
