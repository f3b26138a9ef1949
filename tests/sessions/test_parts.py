"""What sessions leave in a real database: each part once, linked, and what was stated in it."""

import asyncio
import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.context import ContextQuery, build_context
from butlers.memory.flows.feedback import confirm_memory
from butlers.memory.flows.forget import forget_memory
from butlers.memory.flows.history import explain_memory
from butlers.memory.flows.lifecycle.episode_retention import run_episode_cleanup
from butlers.memory.flows.recall import search_memories
from butlers.memory.flows.remember import store_episode, store_fact
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, NewEpisode, NewFact, SearchMode
from butlers.memory.operations import OperationContext
from butlers.memory.settings import MemoryModuleConfig
from butlers.sessions.essence import store_session
from butlers.sessions.transcripts import parse
from conftest import WalkingClock

SESSION = "2c0097b0-63b9-4aff-974c-3f10e9e95ab6"
STATED = [
    "My name is Tobias Quint.",
    "Never order flour on a Friday.",
    "We decided to sell rye bread.",
    "Merk dir: der Ofen braucht zwei Stunden.",
    "今後は必ず敬語で返信してください。",
]


def line(role: str, text: str, minute: int) -> str:
    message = {"role": role, "content": text}
    at = f"2026-01-10T{minute // 60:02}:{minute % 60:02}:00Z"
    return json.dumps({"type": role, "message": message, "timestamp": at})


def turns(*said: str, start: int = 0) -> list[str]:
    return [
        one
        for place, text in enumerate(said, start)
        for one in (line("user", text, 2 * place), line("assistant", "Done.", 2 * place + 1))
    ]


LONG = turns(*(f"Take step {number}. " + "And further. " * 30 for number in range(120)))


async def end(
    memory: Memory, lines: list[str], lineage: Lineage, session: str = SESSION
) -> str | None:
    ctx = OperationContext(memory, lineage)
    stored = await store_session(ctx, session, parse("\n".join(lines)), {"project": "x"})
    return str(stored) if stored else None


async def rows(owner: asyncpg.Connection, table: str, order: str = "created_at, id") -> list[Any]:
    whole = "where piece is null" if table == "episodes" else ""
    return await owner.fetch(f"select * from {table} {whole} order by {order}")


async def test_a_long_session_is_several_episodes_each_linked_to_the_one_before(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    last = await end(memory, LONG, lineage)
    found = await rows(owner, "episodes", "place")
    assert len(found) > 2
    assert [row["place"] for row in found] == list(range(len(found)))
    assert {str(row["session_id"]) for row in found} == {SESSION}
    assert last == str(found[-1]["id"])
    links = await rows(owner, "memory_links", "created_at, source_id")
    ids = [row["id"] for row in found]
    assert [(one["source_id"], one["target_id"]) for one in links] == [
        *zip(ids[1:], ids, strict=False)
    ]
    assert {one["relation"] for one in links} == {"related_to"}
    assert all(f"Take step {number}." in str(found) for number in range(120))


@pytest.mark.contract("P1")
async def test_a_session_that_is_delivered_again_or_grows_doubles_nothing(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    lines = turns(*STATED) + LONG[20:]
    for length in (2, 2, 7, 40, len(lines), len(lines)):
        await end(memory, lines[:length], lineage)
    told = "\n".join(row["content"] for row in await rows(owner, "episodes", "place"))
    for number in range(10, 120):
        assert told.count(f"Take step {number}.") == 1
    assert [told.count(sentence) for sentence in STATED] == [1] * len(STATED)
    assert await owner.fetchval("select count(*) from facts") == 3
    assert await owner.fetchval("select count(*) from rules") == 2


async def test_deliveries_at_once_of_what_grew_meanwhile_leave_everything_once(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    lines = turns(*STATED) + LONG[20:]
    lengths = (len(lines), 6, 60, len(lines), 2, 120)
    await asyncio.gather(*(end(memory, lines[:length], lineage) for length in lengths))
    found = await rows(owner, "episodes", "place")
    told = "\n".join(row["content"] for row in found)
    assert [row["place"] for row in found] == list(range(len(found)))
    for number in range(10, 120):
        assert told.count(f"Take step {number}.") == 1
    assert await owner.fetchval("select count(*) from facts") == 3
    assert await owner.fetchval("select count(*) from rules") == 2


async def test_a_session_is_known_though_its_episodes_are_gone(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection, clock: WalkingClock
) -> None:
    await end(memory, turns("Paint it."), lineage)
    await owner.execute("delete from episodes")
    assert await end(memory, turns("Paint it."), lineage) is None
    await end(memory, turns("Paint it.", "Sell it."), lineage)
    (row,) = await rows(owner, "episodes")
    assert row["content"] == "Request: Sell it.\nOutcome: Done."
    assert row["place"] == 1
    assert await owner.fetchval("select count(*) from memory_links") == 0


async def test_a_session_that_an_earlier_version_stored_is_not_stored_again(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    """Then the audit stream did not tell how far a session is stored."""
    lines = turns("Paint it.", "Sell it.", "Rent it.")
    for place, (key, through) in enumerate([("", ""), (":2026-01-10T00:00:00Z", "2")]):
        through = "2026-01-10T00:02:00Z" if through else "2026-01-10T00:00:00Z"
        old = NewEpisode(
            "Request: …",
            "general",
            metadata={"session": SESSION, "through": through},
            idempotency_key=f"session:{SESSION}{key}",
            place=place,
        )
        await store_episode(memory, old, lineage)
    await end(memory, lines, lineage)
    newest = (await rows(owner, "episodes"))[-1]
    assert newest["content"] == "Request: Rent it.\nOutcome: Done."


async def test_tenants_have_sessions_of_their_own(
    memory: Memory, lineage: Lineage, stranger: Lineage, owner: asyncpg.Connection
) -> None:
    assert await end(memory, turns(*STATED), lineage)
    assert await end(memory, turns(*STATED), stranger)
    assert await owner.fetchval("select count(distinct tenant_id) from facts") == 2
    assert await owner.fetchval("select count(*) from facts") == 6


async def test_what_was_stated_is_found_at_once_and_says_where_it_was(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    episode = await end(memory, turns("Hello there.", *STATED), lineage)
    for sentence in STATED:
        query = CandidateQuery(sentence, scope="general", min_confidence=0.2)
        found = await search_memories(memory, query, SearchMode.HYBRID, 5, lineage)
        assert sentence in [one["content"] for one in found]
    said_at = await owner.fetchval("select said_at from episodes where id = $1", UUID(episode))
    assert said_at is not None
    for table in ("facts", "rules"):
        for row in await rows(owner, table):
            assert json.loads(row["metadata"])["stated_in"] == SESSION
            assert json.loads(row["metadata"])["project"] == "x"
            assert str(row["source_episode_id"]) == episode
            assert json.loads(row["tags"]) == ["stated"]
            assert row["confidence"] == 0.5
            assert row["scope"] == "general"
            assert row["said_at"] == said_at
            kind = MemoryType(table.rstrip("s"))
            explained = await explain_memory(memory, kind, row["id"], lineage)
            assert [str(one["id"]) for one in explained["source_episodes"]] == [episode]
    links = await owner.fetch("select * from memory_links where relation = 'derived_from'")
    assert {str(one["target_id"]) for one in links} == {episode}
    assert len(links) == len(STATED)


@pytest.mark.contract("L27")
async def test_what_users_want_always_or_never_is_told_whatever_is_asked(
    memory: Memory, lineage: Lineage
) -> None:
    await end(memory, turns(*STATED), lineage)
    told = (await build_context(memory, ContextQuery("zzz", "general"), lineage)).text
    assert "Never order flour on a Friday." in told
    assert "今後は必ず敬語で返信してください。" in told
    assert "rye" not in told.partition("## Recent Episodes")[0]


async def test_a_candidate_stands_beside_what_was_not_drawn_from_a_statement(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    known = await store_fact(
        memory, NewFact("user", "editor", "Vim, since 1998", scope="general"), lineage
    )
    await end(memory, turns("My editor is Helix."), lineage, "one")
    await end(memory, turns("My editor is Helix.", start=1), lineage, "two")
    await end(memory, turns("my  editor is HELIX.", start=2), lineage, "three")
    await end(memory, turns("My editor is Emacs.", start=3), lineage, "four")
    found = await owner.fetch("select * from facts order by created_at, id")
    assert [(row["predicate"], row["content"], row["validity"]) for row in found] == [
        ("editor", "Vim, since 1998", "active"),
        ("editor (said 2026-01-10)", "My editor is Helix.", "superseded"),
        ("editor (said 2026-01-10)", "My editor is Emacs.", "active"),
    ]
    assert found[0]["id"] == known.id
    assert found[0]["confidence"] == 1.0
    assert await owner.fetchval("select count(*) from episodes where piece is null") == 4


async def test_a_later_statement_supersedes_an_earlier_one_about_the_same(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    await end(
        memory, turns("We decided that releases happen on Tuesdays.", start=1), lineage, "one"
    )
    await end(memory, turns("We agreed that releases happen on Fridays.", start=2), lineage, "two")
    first, second = await rows(owner, "facts")
    assert (first["subject"], first["predicate"]) == ("releases", "day")
    assert (first["validity"], second["validity"]) == ("superseded", "active")
    assert second["supersedes_id"] == first["id"]
    events = await owner.fetch("select * from memory_events where event_type = 'fact_superseded'")
    assert [one["memory_id"] for one in events] == [first["id"]]
    # A session that was held before is read late: what was said last stays.
    await end(memory, turns("We decided that releases happen on Mondays."), lineage, "three")
    assert (
        await owner.fetchval("select validity from facts where id = $1", second["id"]) == "active"
    )


async def test_what_may_have_many_values_is_stored_beside_and_never_twice(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    said = ("I prefer rye bread.", "I prefer tabs.", "I hate dill.", "I prefer oak.")
    await end(memory, turns(*said), lineage, "one")
    await end(memory, turns(*said, start=10), lineage, "two")
    found = [(row["predicate"], row["content"]) for row in await rows(owner, "facts")]
    assert found == [
        ("prefer", "I prefer rye bread."),
        ("prefer (said 2026-01-10)", "I prefer tabs."),
        ("hate", "I hate dill."),
        ("prefer (said 2026-01-10, 2)", "I prefer oak."),
    ]
    assert {row["validity"] for row in await rows(owner, "facts")} == {"active"}


async def test_a_rule_that_is_known_is_not_stored_again(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    said = [turns("Never order flour on a Friday.", start=n) for n in range(5)]
    await asyncio.gather(*(end(memory, said[n], lineage, f"session-{n}") for n in range(4)))
    (rule,) = await rows(owner, "rules")
    assert await owner.fetchval("select count(*) from episodes where piece is null") == 4
    # Somebody who says it again after it was forgotten wants it.
    await forget_memory(memory, "rule", rule["id"], lineage)
    await end(memory, said[4], lineage, "session-9")
    assert await owner.fetchval("select count(*) from rules") == 2
    await end(memory, said[4], lineage, "session-9")
    assert await owner.fetchval("select count(*) from rules") == 2


async def test_a_candidate_is_sure_once_somebody_confirms_it(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    await end(memory, turns("My editor is Helix."), lineage)
    (row,) = await rows(owner, "facts")
    assert await confirm_memory(memory, "fact", row["id"], lineage)
    assert await owner.fetchval("select confidence from facts") == 1.0
    payload = json.loads(
        await owner.fetchval(
            "select payload from memory_events where event_type = 'fact_confirmed'"
        )
    )
    assert payload["confidence"] == {"from": 0.5, "to": 1.0}
    query = CandidateQuery("my editor", scope="general", min_confidence=0.9)
    assert await search_memories(memory, query, SearchMode.HYBRID, 5, lineage)


async def test_it_can_be_switched_off(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    settings = MemoryModuleConfig.model_validate({"statements": {"enabled": False}})
    await end(replace(memory, settings=settings), turns(*STATED), lineage)
    (row,) = await rows(owner, "episodes")
    assert all(sentence in row["content"] for sentence in STATED)
    assert await owner.fetchval("select count(*) from facts") == 0
    assert await owner.fetchval("select count(*) from rules") == 0


async def test_what_agents_tools_and_memory_said_makes_no_fact(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    known = "# Memory Context\n## Key Facts\n- [oven] [time]: the old oven needs two hours to heat"
    content = [{"type": "tool_result", "tool_use_id": "t", "content": "My name is Eve."}]
    lines = [
        json.dumps({"type": "attachment", "attachment": {
            "type": "hook_additional_context", "content": [known]}}),
        line("user", "Bake. I prefer ovens.", 0),
        json.dumps({"type": "user", "message": {"role": "user", "content": content}}),
        line("assistant", "My name is Claude. We decided to bake. Never open the door.", 1),
        line("user", "Remember that the old oven needs two hours to heat.", 2),
    ]  # fmt: skip
    await end(memory, lines, lineage)
    (fact,) = await rows(owner, "facts")
    assert fact["content"] == "I prefer ovens."
    assert await owner.fetchval("select count(*) from rules") == 0


async def test_a_part_is_stored_whole_or_not_at_all(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    await owner.execute("alter table rules rename to rules_gone")
    try:
        with pytest.raises(Exception, match="rules"):
            await end(memory, turns(*STATED), lineage)
    finally:
        await owner.execute("alter table rules_gone rename to rules")
    assert await owner.fetchval("select count(*) from episodes") == 0
    assert await owner.fetchval("select count(*) from facts") == 0
    assert await end(memory, turns(*STATED), lineage)
    assert await owner.fetchval("select count(*) from facts") == 3


async def test_sources_that_are_cleaned_up_are_still_named(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection, clock: WalkingClock
) -> None:
    episode = await end(memory, turns(*STATED), lineage)
    await owner.execute(
        "update episodes set consolidation_status = 'consolidated', consolidated = true"
    )
    clock.advance(days=8)
    await run_episode_cleanup(memory, lineage)
    assert await owner.fetchval("select count(*) from episodes where piece is null") == 0
    links = await owner.fetch("select target_id from memory_links")
    assert {str(one["target_id"]) for one in links} == {episode}
    assert await owner.fetchval("select count(*) from facts where validity = 'active'") == 3


async def test_what_a_later_session_settles_makes_earlier_words_past(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection
) -> None:
    old, new = "Let's use the Oslo bucket for uploads.", "Scrap that, let's use Rome for uploads."
    await end(memory, turns("Look.", old), lineage, "one")
    await end(memory, turns("Look.", new, start=5), lineage, "two")
    first, second = await owner.fetch(
        "select * from episodes where piece = 'said' and content <> 'Look.' order by said_at"
    )
    assert (first["content"], second["content"]) == (old, new)
    assert (first["past_by"], second["past_by"]) == (second["id"], None)
    # Within a session words belong to a task: the next ones do not undo what was asked for.
    await end(memory, turns(old.replace("Oslo", "Bonn"), new, start=10), lineage, "three")
    bonn = await owner.fetchrow(
        "select * from episodes where content like '%Bonn%' and piece = 'said'"
    )
    assert bonn["past_by"] is None
