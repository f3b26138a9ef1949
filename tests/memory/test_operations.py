"""Operations where they are declared: what they refuse, and what is left to the settings."""

from dataclasses import replace
from typing import Any

import pytest

from butlers.errors import InvalidInput
from butlers.memory.operations import OPERATIONS, OperationContext, retrieval, storage, upkeep
from butlers.memory.settings import MemoryModuleConfig
from butlers.operation import Input, Operation, OperationTable, Output


@pytest.mark.parametrize("operation", list(OPERATIONS), ids=lambda one: one.name)
def test_what_it_does_not_know_is_refused(operation: Operation) -> None:
    with pytest.raises(InvalidInput, match="surprise: no such argument"):
        operation.parse({"surprise": 1})


def test_nothing_is_declared_twice() -> None:
    async def greet(ctx: Any, params: Input) -> None:
        """Say hello."""

    table = OperationTable("toy_")
    first = table.add(output=Output, example="greet")(greet)
    with pytest.raises(ValueError, match="greet is declared twice"):
        table.add(output=Output, example="greet")(greet)
    assert list(table) == [first]


def context_with(memory, lineage, **settings: Any) -> OperationContext:
    return OperationContext(
        replace(memory, settings=MemoryModuleConfig.model_validate(settings)), lineage
    )


async def test_a_search_is_as_the_settings_say_unless_it_says_otherwise(
    memory, lineage, clock
) -> None:
    retrieval_settings = {"default_mode": "keyword"}
    sure = {"retrieval_confidence_threshold": 0.9}
    ctx = context_with(memory, lineage, retrieval=retrieval_settings, facts=sure)
    await storage.store_fact.perform(ctx, subject="Ann", predicate="drinks", content="tea")
    (found,) = await retrieval.search.perform(ctx, query="tea")
    assert "rank" in found and "rrf_score" not in found
    (found,) = await retrieval.search.perform(ctx, query="tea", mode="hybrid")
    assert "rrf_score" in found
    clock.advance(days=30)  # four fifths of its confidence are left
    assert await retrieval.search.perform(ctx, query="tea") == []
    assert await retrieval.recall.perform(ctx, topic="tea") == []
    assert len(await retrieval.search.perform(ctx, query="tea", min_confidence=0)) == 1


async def test_a_cleanup_keeps_as_many_as_the_settings_say_unless_it_says_otherwise(
    memory, lineage, owner
) -> None:
    ctx = context_with(memory, lineage, episodes={"max_entries": 2})
    for number in range(4):
        await storage.store_episode.perform(ctx, content=f"tea number {number}")
    await owner.execute(
        "update episodes set consolidated = true, consolidation_status = 'consolidated'"
    )
    assert (await upkeep.run_episode_cleanup.perform(ctx))["remaining"] == 2
    assert (await upkeep.run_episode_cleanup.perform(ctx, max_entries=0))["remaining"] == 0
