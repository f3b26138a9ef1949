"""Finding an episode by the key it was stored under."""

from butlers.memory.flows.lookup import find_episode_by_key
from butlers.memory.flows.remember import store_episode
from butlers.memory.model import NewEpisode


async def test_an_episode_is_found_by_its_key_and_by_its_tenant_alone(memory, lineage, stranger):
    new = NewEpisode("tea at five", "general", metadata={"through": "5"}, idempotency_key="s:1")
    stored = await store_episode(memory, new, lineage)
    found = await find_episode_by_key(memory, "s:1", lineage)
    assert found is not None
    assert (found["id"], found["content"], found["metadata"]["through"]) == (
        stored.id, "tea at five", "5",
    )  # fmt: skip
    assert await find_episode_by_key(memory, "s:2", lineage) is None
    assert await find_episode_by_key(memory, "s:1", stranger) is None
