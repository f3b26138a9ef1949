"""How many memories were in which state, day by day."""

from butlers.memory.flows import forget, remember
from butlers.memory.flows.browse import memory_timeline
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewEpisode, NewFact
from conftest import WalkingClock
from memory.scripted_model import NOTHING, ScriptedModel, answer, failing


async def _fact(memory: Memory, lineage: Lineage, predicate: str, content: str = "x"):
    new = NewFact("Ann", predicate, content)
    return (await remember.store_fact(memory, new, lineage)).id


async def test_states_are_counted_at_the_end_of_each_day(
    memory: Memory, clock: WalkingClock, lineage: Lineage
):
    await _fact(memory, lineage, "long ago")
    clock.advance(days=40)
    await _fact(memory, lineage, "tea", "green")
    clock.advance(days=1)
    replacing = await _fact(memory, lineage, "tea", "black")
    clock.advance(days=1)
    await forget.forget_memory(memory, "fact", replacing, lineage)
    told = await memory_timeline(memory, 4, lineage)
    assert len(told.days) == 4 and told.days[-1] == clock().date()
    assert told.facts["active"] == [1, 2, 2, 1]
    assert told.facts["superseded"] == [0, 0, 1, 1]
    assert told.facts["retracted"] == [0, 0, 0, 1]


async def test_consolidation_is_counted_on_the_day_it_ended(
    memory: Memory, clock: WalkingClock, lineage: Lineage
):
    await remember.store_episode(memory, NewEpisode("first", "general"), lineage)
    await run_consolidation(memory, ScriptedModel(answer(**NOTHING)), lineage)
    clock.advance(days=5)
    await remember.store_episode(memory, NewEpisode("second", "general"), lineage)
    await run_consolidation(memory, failing(), lineage)
    told = await memory_timeline(memory, 3, lineage)
    assert told.episodes["consolidated"] == [1, 1, 1]
    assert told.episodes["failed"] == [0, 0, 1]
    # What ended before the first day shown is not counted as of it.
    assert told.consolidation == {
        "consolidated": [0, 0, 0], "failed": [0, 0, 1], "dead_letter": [0, 0, 0],
    }  # fmt: skip


def counted(told) -> int:
    return sum(map(sum, (*told.facts.values(), *told.episodes.values())))


async def test_another_tenant_counts_for_nothing(
    memory: Memory, lineage: Lineage, stranger: Lineage
):
    await _fact(memory, lineage, "tea")
    assert counted(await memory_timeline(memory, 2, stranger)) == 0
    assert counted(await memory_timeline(memory, 2, lineage)) > 0
