"""Present and past decisions: which later one makes an earlier one past, and what people say."""

import json
from datetime import date
from uuid import UUID

import asyncpg
import pytest

from butlers.errors import NotFound
from butlers.interfaces.cli.memory_views import VIEWS
from butlers.memory.flows.decisions import present_decisions
from butlers.memory.flows.forget import forget_memory
from butlers.memory.flows.history import explain_memory
from butlers.memory.flows.session_parts import NewPart, store_part
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewEpisode
from butlers.memory.operations import OperationContext
from butlers.memory.operations.decisions import (
    DecisionInput,
    ListDecisions,
    RetireDecision,
    list_decisions,
    restore_decision,
    retire_decision,
)
from butlers.memory.policy.decisions import (
    WhyPast,
    frequent_words,
    may_decide,
    only_quotes,
    past_line,
    why_past,
)
from conftest import WalkingClock


@pytest.mark.parametrize(
    ("earlier", "later", "why"),
    [
        ("We release on Tuesdays.", "Releases happen on Fridays.", WhyPast.ANOTHER_VALUE),
        ("The cache is on port 6380.", "The cache is on port 6390.", WhyPast.ANOTHER_VALUE),
        ("Keep flags in YAML.", "Keep flags in Consul instead of YAML.", WhyPast.GIVEN_UP),
        ("Bilder liegen in S3.", "Bilder liegen nicht mehr in S3.", WhyPast.GIVEN_UP),
        ("Uploads go to Oslo.", "Scrap that, uploads go to Rome.", WhyPast.CHANGED),
        ("Tokens of 60 minutes.", "Tokens of 15 minutes from now on.", WhyPast.CHANGED),
        # the same again, an addition, another matter, another thing given up
        ("We release on Tuesdays.", "As said, we release on Tuesdays.", None),
        ("We release on Tuesdays.", "We also release on Fridays.", None),
        ("The cache is on port 6380.", "The queue is on port 6390.", None),
        ("The cake is vegan.", "The cake is round instead of square.", None),
        ("Tokens live 60 minutes.", "Tokens are now signed with Ed25519.", None),
        ("Logs are kept.", "Keep 30 logs.", None),
        ("We want to keep that variable.", "We want to replace the regex.", None),
        # two matters in one text: the other one still holds
        ("Tokens live an hour. Invoices get a stamp.", "Scrap that, tokens live a day.", None),
    ],
)
def test_a_decision_is_past_only_if_the_later_one_says_so(earlier, later, why) -> None:
    assert why_past(later, earlier, near=0.65) == why


def test_what_is_far_in_meaning_is_another_matter() -> None:
    earlier, later = "Uploads go to Oslo.", "Scrap that, uploads go to Rome."
    assert why_past(later, earlier, near=0.3) is None


def test_a_word_that_many_decisions_have_says_nothing() -> None:
    texts = [f"Butlers keeps topic{number}x." for number in range(12)]
    assert frequent_words(texts) == {"butl"}
    assert frequent_words(texts[:9]) == frozenset()
    later = "Change of plan: butlers goes to Rome."
    assert why_past(later, "Butlers gets a logo.", 0.65) is WhyPast.CHANGED
    assert why_past(later, "Butlers gets a logo.", 0.65, frequent_words(texts)) is None


def test_short_words_of_a_user_may_settle_something() -> None:
    assert may_decide("Where to? Let's put sessions in Redis.")
    assert not may_decide("Should sessions live in Redis?")
    assert not may_decide("Go on.")
    assert not may_decide("Sessions live in Redis. " * 4)
    assert not may_decide("Sessions live in Redis " + "and elsewhere " * 30)


def test_words_that_say_only_the_decision_are_told_with_it() -> None:
    decision = "Put sessions in Redis. Sessions expire daily."
    assert only_quotes("Where do they go? Put sessions in Redis.", decision)
    assert not only_quotes("Put sessions in Redis. The invoice template needs a stamp.", decision)
    assert not only_quotes("The invoice template needs a stamp.", decision)


def test_a_past_decision_is_told_with_its_last_day() -> None:
    assert past_line("Use\nRedis.", date(2026, 11, 12)) == "until 12 Nov 2026: Use Redis."


async def say(memory: Memory, lineage: Lineage, session: str, *pieces: tuple[str, str]) -> None:
    """Store a session of one part with these pieces."""
    whole = NewEpisode("\n".join(text for _, text in pieces), "general")
    about = {"metadata": {"session": session}}
    rows = [NewEpisode(text, "general", UUID(int=7), piece=kind, **about) for kind, text in pieces]
    assert await store_part(memory, NewPart(session, None, "t", whole, (), rows), lineage)


OLD, NEW = "Decided: uploads are stored in Oslo.", "Scrap that, uploads are stored in Rome."


async def listed(memory: Memory, lineage: Lineage) -> list[dict]:
    ctx = OperationContext(memory, lineage)
    return await list_decisions.run(ctx, ListDecisions())


async def ids(owner: asyncpg.Connection) -> dict[str, UUID]:
    rows = await owner.fetch("select id, content from episodes where piece = 'decision'")
    return {row["content"]: row["id"] for row in rows}


@pytest.mark.contract("L40")
async def test_a_later_decision_makes_an_earlier_one_past(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection, clock: WalkingClock
) -> None:
    quote = ("said", "uploads are stored in Oslo.")
    await say(memory, lineage, "one", quote, ("said", "The oven is red."), ("decision", OLD))
    clock.advance(days=3)
    await say(memory, lineage, "two", ("decision", NEW), ("decision", "Tea is served at four."))
    known = await ids(owner)
    past = await owner.fetch("select content, past_by from episodes where past_by is not null")
    assert {row["content"] for row in past} == {quote[1], OLD}
    assert {row["past_by"] for row in past} == {known[NEW]}
    tea, new = await listed(memory, lineage)
    assert (tea["content"], tea["earlier"]) == ("Tea is served at four.", [])
    assert new["content"] == NEW
    day = clock.now.date()
    assert [one["line"] for one in new["earlier"]] == [past_line(OLD, day)]
    explained = await explain_memory(memory, "episode", known[OLD], lineage)
    assert [str(one["id"]) for one in explained["outdated_by"]] == [str(known[NEW])]
    event = await owner.fetchrow(
        "select * from memory_events where event_type = 'episode_outdated' and memory_id = $1",
        known[OLD],
    )
    assert json.loads(event["payload"])["reason"] == WhyPast.CHANGED
    # Without the later one the earlier holds.
    await forget_memory(memory, "episode", known[NEW], lineage)
    assert [one["content"] for one in await listed(memory, lineage)] == [tea["content"], OLD]


async def test_a_session_that_is_read_late_brings_the_earlier_decision(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection, clock: WalkingClock
) -> None:
    await say(memory, lineage, "two", ("decision", NEW))
    rows = [NewEpisode(OLD, "general", piece="decision", said_at=clock.now.replace(year=2020))]
    await store_part(
        memory, NewPart("one", None, "t", NewEpisode("…", "general"), (), rows), lineage
    )
    (new,) = await listed(memory, lineage)
    assert (new["content"], new["earlier"][0]["content"]) == (NEW, OLD)


async def test_another_project_changes_nothing(
    memory: Memory, lineage: Lineage, stranger: Lineage, clock: WalkingClock
) -> None:
    await say(memory, lineage, "one", ("decision", OLD))
    clock.advance(days=1)
    await say(memory, stranger, "two", ("decision", NEW))
    rows = [NewEpisode(NEW, "project:other", piece="decision")]
    whole = NewEpisode("…", "project:other")
    await store_part(memory, NewPart("three", None, "t", whole, (), rows), lineage)
    async with memory.transaction(lineage) as tx:
        (old,) = await present_decisions(tx, "general", 5, clock.now)
        assert len(await present_decisions(tx, None, 5, clock.now)) == 2
        assert len(await present_decisions(tx, None, 1, clock.now)) == 1
    assert old["content"] == OLD


async def test_a_person_says_otherwise(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection, clock: WalkingClock
) -> None:
    ctx = OperationContext(memory, lineage)
    await say(memory, lineage, "one", ("decision", OLD))
    clock.advance(days=1)
    await say(memory, lineage, "two", ("decision", NEW))
    known = await ids(owner)
    old = str(known[OLD])
    assert await restore_decision.run(ctx, DecisionInput(memory_id=old))
    assert not await restore_decision.run(ctx, DecisionInput(memory_id=old))
    assert {one["content"] for one in await listed(memory, lineage)} == {OLD, NEW}
    # What had made it past is compared again and changes nothing.
    await owner.execute("update episodes set idempotency_key = 'k' where id = $1", known[NEW])
    again = [NewEpisode(NEW, "general", piece="decision", idempotency_key="k")]
    whole = NewEpisode("…", "general")
    await store_part(memory, NewPart("three", None, "t", whole, (), again), lineage)
    assert {one["content"] for one in await listed(memory, lineage)} == {OLD, NEW}
    assert await retire_decision.run(ctx, RetireDecision(memory_id=old, by=str(known[NEW])))
    assert not await retire_decision.run(ctx, RetireDecision(memory_id=old))
    assert await retire_decision.run(ctx, RetireDecision(memory_id=str(known[NEW])))
    assert await listed(memory, lineage) == []
    assert await restore_decision.run(ctx, DecisionInput(memory_id=str(known[NEW])))
    (new,) = await listed(memory, lineage)
    assert [one["content"] for one in new["earlier"]] == [OLD]
    with pytest.raises(NotFound):
        await list_decisions.run(ctx, ListDecisions(project="nowhere"))


def test_each_decision_is_a_line_with_past_ones_under_it(capsys: pytest.CaptureFixture) -> None:
    past = {"id": str(UUID(int=2)), "line": "until 12 Nov 2026: Oslo."}
    row = {"id": str(UUID(int=1)), "decided_at": "2026-11-12T08:00:00Z", "content": "Rome."}
    VIEWS["list_decisions"]([{**row, "earlier": [past]}], {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(" 2026-11-12 Rome.")
    assert second.startswith("  ") and second.endswith(" until 12 Nov 2026: Oslo.")
    VIEWS["list_decisions"]([], {})
    assert capsys.readouterr().out == "no decisions yet\n"
