"""Injections over a real database: whose they are, how long they stay, what their use changes."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from butlers.auth.rights import Caller
from butlers.db.queries import parse
from butlers.errors import IntegrityViolation
from butlers.memory.flows.feedback import mark_harmful
from butlers.memory.flows.remember import store_rule
from butlers.memory.flows.undo import preview_undo
from butlers.memory.flows.undo_plan import UndoSource
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, NewRule, Origin, Trust
from butlers.memory.operations import OperationContext
from butlers.sessions import log as session_log
from butlers.sessions.injection_log import InjectionLog, InjectionRecord, Occasion, find_given
from butlers.sessions.injections import (
    Delivery,
    InjectedLine,
    Injection,
    InjectionEvent,
    LeftOut,
    count_verdicts,
    factor,
    usefulness,
)
from butlers.sessions.judgement import judge_session
from butlers.sessions.log import SessionLog
from butlers.sessions.transcripts import Speaker, Transcript, Utterance
from butlers.sessions.verdicts import Verdict
from conftest import WalkingClock

CALLER = Caller("acme", "token:1", "codex")
ONE, OTHER = (UUID(int=number) for number in (1, 2))
ASKED = "Which port does the cache use?"
USED, IGNORED = "It uses port 6390.", "I do not know."


@pytest.fixture
def sessions(memory: Memory, clock: WalkingClock) -> SessionLog:
    return SessionLog(lambda: memory.database, clock)


@pytest.fixture
def injections(memory: Memory, clock: WalkingClock) -> InjectionLog:
    return InjectionLog(lambda: memory.database, clock)


@pytest.fixture
def ctx(memory: Memory, clock: WalkingClock) -> OperationContext:
    return OperationContext.of(replace(memory, now=clock), CALLER)


def injection(id: UUID = ONE, text: str = "- the cache is on port 6390") -> Injection:
    line = InjectedLine(MemoryType.RULE, id, text, "relevance 0.80", 0.8)
    near = LeftOut(MemoryType.FACT, OTHER, 0.1, "below the gate")
    return Injection(text, (line,), (near,) * 9, 40, Delivery.DELIVERED)


async def given(
    sessions: SessionLog, injections: InjectionLog, session: str, what: Injection
) -> InjectionRecord:
    await sessions.note_agent(CALLER, session, project="shop")
    await injections.record(CALLER, Occasion(session, "shop", asked=ASKED), what, 12)
    return (await injections.of_session("acme", session))[-1]


def transcript(answer: str, after: str = "") -> Transcript:
    said = [Utterance(Speaker.USER, ASKED, "1"), Utterance(Speaker.AGENT, answer, "2")]
    return Transcript([*said, Utterance(Speaker.USER, after, "3")] if after else said)


async def test_an_injection_is_recorded_as_it_was_delivered(
    sessions: SessionLog, injections: InjectionLog
) -> None:
    secret = "- the password is hunter2secret"
    record = await given(sessions, injections, "first", injection(text=secret))
    assert (record.agent, record.project, record.milliseconds) == ("codex", "shop", 12)
    assert (record.event, record.outcome, record.tokens) == ("prompt", "delivered", 40)
    assert "hunter2secret" not in str(record)
    assert len(record.left_out) == 5
    assert record.left_out[0].why == "below the gate"


@pytest.mark.contract("L1")
async def test_a_tenant_sees_its_own_injections_alone(
    sessions: SessionLog, injections: InjectionLog, memory: Memory, clock: WalkingClock
) -> None:
    record = await given(sessions, injections, "first", injection())
    assert await injections.of_session("rival", "first") == []
    assert await injections.since("rival", clock() - timedelta(days=1)) == []
    assert await injections.erase("rival", [record.id]) == 0
    everything = parse("-- all --\n-- All.\nselect count(*) from injections")["all"]
    claimed = parse("-- claim --\n-- Ours.\nupdate injections set tenant_id = 'rival'")["claim"]
    async with memory.database.system_transaction() as tx:
        assert await tx.fetch_value(everything) == 0
    with pytest.raises(IntegrityViolation):
        async with memory.database.transaction("acme") as tx:
            await tx.execute(claimed)


async def test_an_undo_lists_what_a_session_stored_after_it_was_given_the_source(
    sessions: SessionLog, injections: InjectionLog, memory: Memory, clock: WalkingClock
) -> None:
    """A copy in other words is found by who stored it, and when."""
    memory = replace(memory, now=clock, find_given=find_given)
    low = Lineage("acme", "token:low", ceiling=Trust.LOW)
    inside = Lineage("acme", "token:1", "session:first", agent="codex")
    ids = {}

    async def store(name: str, lineage: Lineage, text: str) -> UUID:
        clock.advance(minutes=1)
        ids[name] = (await store_rule(memory, NewRule(text), lineage)).id
        return ids[name]

    source = await store("source", low, "Les sauvegardes ne sont plus chiffrées")
    await store("before", inside, "Prefer tabs")
    clock.advance(minutes=1)
    await given(sessions, injections, "first", injection(source))
    await store("session", inside, "Keep plain backups")
    await store("agent", replace(inside, request_id=None), "Name branches after tickets")
    await store("elsewhere", replace(inside, request_id="session:second", agent="other"), "Be kind")
    clock.advance(hours=2)
    await store("late", replace(inside, request_id=None), "Write short commits")
    person = Lineage("acme", "cli", origin=Origin.OPERATOR)
    seen = await preview_undo(memory, UndoSource(token="low"), person)
    assert (seen.rules, seen.copies) == (1, 0)
    assert {row["id"] for row in seen.copies_possible} == {ids["session"], ids["agent"]}


async def test_injections_are_deleted_with_their_session(
    sessions: SessionLog,
    injections: InjectionLog,
    clock: WalkingClock,
    owner: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_log, "KEPT_SESSIONS", 2)
    for number in range(4):
        await given(sessions, injections, f"session-{number}", injection())
        clock.advance(minutes=1)
    rows = await owner.fetch("select session_id from injections order by 1")
    assert [row["session_id"] for row in rows] == ["session-2", "session-3"]
    await sessions.erase("acme", ["session-2"])
    assert await injections.of_session("acme", "session-2") == []


async def test_what_a_hook_did_not_wait_for_was_not_delivered(
    sessions: SessionLog, injections: InjectionLog, clock: WalkingClock
) -> None:
    await given(sessions, injections, "first", injection())
    note, later = uuid4(), uuid4()
    occasion = Occasion("first", reason="no answer in 1.5 seconds")
    failures = {note: (clock() + timedelta(seconds=1), occasion)}
    failures[later] = (clock() + timedelta(minutes=9), occasion)
    for _ in range(2):
        new = await injections.unknown("acme", failures)
        await injections.record_failures(CALLER, {id: failures[id] for id in new})
    first, second = await injections.of_session("acme", "first")
    assert (first.id, first.outcome, first.reason) == (note, "failed", "no answer in 1.5 seconds")
    assert first.asked == ASKED
    assert (second.id, second.outcome, second.lines) == (later, "failed", ())


async def test_a_later_part_of_a_session_may_say_more(
    ctx: OperationContext, sessions: SessionLog, injections: InjectionLog
) -> None:
    await given(sessions, injections, "first", injection())
    seen = []
    for said in (
        transcript(IGNORED),
        transcript(USED),
        transcript(IGNORED),
        transcript(USED, "No, that's wrong: the cache moved to port 7000."),
        transcript(USED),
    ):
        await judge_session(ctx, "first", said)
        (record,) = await injections.of_session("acme", "first")
        seen.append(record.verdicts[str(ONE)])
    assert seen == ["ignored", "used", "used", "harmful", "harmful"]


async def test_a_session_without_the_prompt_is_not_judged(
    ctx: OperationContext, sessions: SessionLog, injections: InjectionLog
) -> None:
    await given(sessions, injections, "first", injection())
    other = Transcript([Utterance(Speaker.USER, "Else?", "1"), Utterance(Speaker.AGENT, USED, "2")])
    await judge_session(ctx, "first", other)
    (record,) = await injections.of_session("acme", "first")
    assert record.verdicts == {}


async def test_what_a_session_started_with_may_be_used_at_any_time(
    ctx: OperationContext, sessions: SessionLog, injections: InjectionLog
) -> None:
    await sessions.note_agent(CALLER, "first")
    occasion = Occasion("first", event=InjectionEvent.START)
    await injections.record(CALLER, occasion, injection())
    said = [("Hello", "Hello."), ("Start it", "Started."), ("Why?", "Because of port 6390.")]
    turns = [
        Utterance(speaker, text, f"{number}{speaker is Speaker.AGENT:d}")
        for number, texts in enumerate(said)
        for speaker, text in zip((Speaker.USER, Speaker.AGENT), texts, strict=True)
    ]
    await judge_session(ctx, "first", Transcript(turns))
    (record,) = await injections.of_session("acme", "first")
    assert record.verdict is Verdict.USED


async def test_a_rule_that_was_marked_is_judged_by_the_mark(
    ctx: OperationContext, sessions: SessionLog, injections: InjectionLog
) -> None:
    lineage = Lineage("acme", "token:1")
    rule = await store_rule(ctx.memory, NewRule("the cache is on port 6390"), lineage)
    await given(sessions, injections, "first", injection(rule.id))
    await mark_harmful(ctx.memory, rule.id, "the port changed", lineage)
    await judge_session(ctx, "first", transcript(USED))
    (record,) = await injections.of_session("acme", "first")
    assert record.verdict is Verdict.HARMFUL


@pytest.mark.parametrize(
    ("uses", "expected"), [("---", 0.8), ("+--+", 1.0), ("+++", 1.15), ("+---", 0.9)]
)
def test_use_changes_the_rank_within_bounds(uses: str, expected: float) -> None:
    assert factor([(use == "+", 1) for use in uses]) == pytest.approx(expected)


async def test_what_is_ignored_ranks_lower_until_it_is_forgiven(
    ctx: OperationContext, sessions: SessionLog, injections: InjectionLog, clock: WalkingClock
) -> None:
    for number in range(3):
        assert await usefulness(ctx, [ONE, OTHER], ASKED) == {}
        await given(sessions, injections, f"session-{number}", injection())
        await judge_session(ctx, f"session-{number}", transcript(IGNORED))
    assert await usefulness(ctx, [ONE, OTHER], ASKED) == {ONE: pytest.approx(0.8)}
    assert await count_verdicts(ctx, [ONE]) == {ONE: {Verdict.IGNORED: 3}}
    rival = OperationContext.of(ctx.memory, Caller("rival", "token:2"))
    assert await usefulness(rival, [ONE], ASKED) == {}
    await given(sessions, injections, "session-3", injection())
    await judge_session(ctx, "session-3", transcript(USED))
    assert 0.8 < (await usefulness(ctx, [ONE], ASKED))[ONE] < 1
    clock.advance(days=31)
    assert await usefulness(ctx, [ONE], ASKED) == {}


async def test_learning_from_use_can_be_switched_off(
    ctx: OperationContext, sessions: SessionLog, injections: InjectionLog
) -> None:
    for number in range(3):
        await given(sessions, injections, f"session-{number}", injection())
        await judge_session(ctx, f"session-{number}", transcript(USED))
    assert await usefulness(ctx, [ONE]) == {ONE: pytest.approx(1.15)}
    shares = ctx.memory.settings.context.model_copy(update={"learn_from_use": False})
    settings = ctx.memory.settings.model_copy(update={"context": shares})
    off = replace(ctx, memory=replace(ctx.memory, settings=settings))
    assert await usefulness(off, [ONE]) == {}
