"""What a reader is told of a memory, whichever way it is read."""

import uuid
from datetime import timedelta

import pytest

from butlers.memory.flows import remember
from butlers.memory.model import MemoryRef, MemoryType, NewEpisode, NewFact, NewRule
from butlers.memory.store import episodes, facts, rules, search

SESSION = uuid.uuid4()
READ_BY = {
    MemoryType.EPISODE: episodes.find,
    MemoryType.FACT: facts.find,
    MemoryType.RULE: rules.find,
}


@pytest.fixture
async def stored(memory, lineage, clock):
    """A memory of each kind, with all that may be known of how it was said."""
    said = {"session_id": SESSION, "place": 7, "author": "Ann"}
    said["said_at"] = clock.now - timedelta(days=2)
    episode = await remember.store_episode(memory, NewEpisode("tea", "general", **said), lineage)
    fact = await remember.store_fact(memory, NewFact("Ann", "likes", "tea", **said), lineage)
    rule = await remember.store_rule(memory, NewRule("offer tea"), lineage)
    return [
        MemoryRef(MemoryType.EPISODE, episode.id),
        MemoryRef(MemoryType.FACT, fact.id),
        MemoryRef(MemoryType.RULE, rule.id),
    ]


async def test_the_database_tells_what_statements_read(memory, lineage, stored, clock):
    told = await search.load_memories(memory.database, lineage.tenant_id, stored, clock.now)
    for ref in stored:
        async with memory.transaction(lineage) as tx:
            (read,) = await READ_BY[ref.type](tx, ids=[ref.id], now=clock.now)
        assert told[ref] == dict(read)


async def test_how_something_was_said_is_told(memory, lineage, stored, clock):
    told = await search.load_memories(memory.database, lineage.tenant_id, stored, clock.now)
    for ref in stored[:2]:
        said = [told[ref][key] for key in ("session_id", "place", "author", "said_at")]
        assert list(map(str, said)) == [
            str(SESSION), "7", "Ann", str(clock.now - timedelta(days=2)),
        ]  # fmt: skip
