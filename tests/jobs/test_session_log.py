"""The log of sessions over a real database: whose it is, what it tells, what it leaves out."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from butlers.auth.rights import Caller
from butlers.db.postgres import Database
from butlers.db.queries import parse
from butlers.errors import IntegrityViolation, InvalidInput, NotFound
from butlers.sessions import log as logging
from butlers.sessions.log import (
    GONE,
    SessionKind,
    SessionLog,
    SessionOutcome,
    SessionRecord,
    excerpt,
    this_process,
)
from conftest import WalkingClock

ONE, OTHER = (UUID(int=number) for number in (1, 2))


@pytest.fixture
def log(core: Database, clock: WalkingClock) -> SessionLog:
    return SessionLog(lambda: core, clock)


def begun(clock: WalkingClock, number: int = 1, **fields: object) -> SessionRecord:
    known = {
        "id": str(UUID(int=number)),
        "kind": SessionKind.ASK,
        "asked_by": "cli",
        "agent": "claude",
        "asked": "Where is the saddle?",
        "started_at": clock(),
        "ends_by": clock() + timedelta(minutes=6),
        "worker": this_process(),
    }
    return SessionRecord(**(known | fields))  # type: ignore[arg-type]


async def test_a_session_is_one_row_from_its_start_to_its_end(
    log: SessionLog, clock: WalkingClock
) -> None:
    session = begun(clock, told=(ONE,))
    await log.write("acme", session)
    (running,) = await log.find("acme")
    assert (running.outcome, running.seconds) == (SessionOutcome.RUNNING, None)
    clock.advance(seconds=4)
    ended = replace(
        session,
        outcome=SessionOutcome.OK,
        ended_at=clock(),
        input_tokens=10,
        cost_usd=0.5,
        stored=(OTHER,),
    )
    await log.write("acme", ended)
    (found,) = await log.find("acme")
    assert found == ended
    assert found.seconds == 4
    assert await log.get("acme", session.id) == ended


@pytest.mark.contract("L1")
async def test_a_tenant_sees_and_touches_its_own_sessions_alone(
    log: SessionLog, core: Database, clock: WalkingClock
) -> None:
    session = begun(clock)
    await log.write("acme", session)
    assert await log.find("rival") == []
    with pytest.raises(NotFound):
        await log.get("rival", session.id)
    await log.write("rival", replace(session, outcome=SessionOutcome.FAILED, ended_at=clock()))
    assert (await log.get("acme", session.id)).outcome is SessionOutcome.RUNNING
    everything = parse("-- all --\n-- All.\nselect count(*) from session_log")["all"]
    claimed = parse("-- claim --\n-- Ours.\nupdate session_log set tenant_id = 'acme'")["claim"]
    async with core.system_transaction() as tx:
        assert await tx.fetch_value(everything) == 0
    with pytest.raises(IntegrityViolation):
        async with core.transaction("rival") as tx:
            await tx.execute(claimed)


async def test_nobody_rewrites_the_session_of_another_caller(
    log: SessionLog, clock: WalkingClock
) -> None:
    session = begun(clock)
    await log.write("acme", session)
    await log.note_agent(Caller("acme", "token:1"), session.id, outcome=SessionOutcome.OK)
    assert await log.get("acme", session.id) == session


async def test_what_a_hook_tells_of_one_session_adds_up(
    log: SessionLog, clock: WalkingClock
) -> None:
    caller = Caller("acme", "token:1", "codex")
    prompt = "Deploy it; the password is hunter2secret"
    await log.note_agent(caller, "a-session", project="shop", asked=prompt, told=[ONE])
    clock.advance(days=3)
    (open_one,) = await log.find("acme", kind=SessionKind.AGENT)
    assert open_one.outcome is SessionOutcome.RUNNING  # nobody but its hook knows when it ends
    await log.note_agent(
        caller, "a-session", told=[ONE, OTHER], stored=[OTHER], outcome=SessionOutcome.OK
    )
    (found,) = await log.find("acme")
    assert (found.agent, found.project, found.kind) == ("codex", "shop", SessionKind.AGENT)
    assert (set(found.told), found.stored) == ({ONE, OTHER}, (OTHER,))
    assert (found.outcome, found.seconds) == (SessionOutcome.OK, 3 * 86_400)
    assert "hunter2secret" not in str(found) and found.asked.startswith("Deploy it")


async def test_sessions_of_processes_that_are_gone_were_interrupted(
    log: SessionLog, clock: WalkingClock
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = socket.gethostname()
    workers = [f"{here}:{gone.pid}", this_process(), f"{here}:{os.getppid()}", "elsewhere:1"]
    for number, worker in enumerate(workers):
        await log.write("acme", begun(clock, number, worker=worker))
    assert await log.end_interrupted("acme") == 2
    found = {one.worker: one for one in await log.find("acme")}
    assert [found[worker].outcome for worker in workers] == [
        SessionOutcome.INTERRUPTED,
        SessionOutcome.INTERRUPTED,
        SessionOutcome.RUNNING,
        SessionOutcome.RUNNING,
    ]
    assert (found[workers[0]].reason, found[workers[0]].ended_at) == (GONE, clock())
    assert await log.end_interrupted("acme") == 0


async def test_a_session_that_should_have_ended_long_ago_is_told_as_interrupted(
    log: SessionLog, clock: WalkingClock
) -> None:
    await log.write("acme", begun(clock, worker="elsewhere:1"))
    clock.advance(minutes=7)
    (found,) = await log.find("acme")
    assert found.outcome is SessionOutcome.INTERRUPTED


async def test_only_the_newest_are_kept(
    log: SessionLog, clock: WalkingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "KEPT_SESSIONS", 3)
    await log.write("rival", begun(clock, 99))
    for number in range(6):
        clock.advance(minutes=1)
        await log.write("acme", begun(clock, number))
    assert [one.id for one in await log.find("acme")] == [str(UUID(int=n)) for n in (5, 4, 3)]
    assert len(await log.find("rival")) == 1


async def test_a_session_is_found_by_the_beginning_of_its_id(
    log: SessionLog, clock: WalkingClock
) -> None:
    for name in ("abcd-1", "abcd-12", "zzzz"):
        await log.write("acme", begun(clock, id=name))
    assert (await log.get("acme", "zzzz")).id == "zzzz"
    assert (await log.get("acme", "abcd-1")).id == "abcd-1"
    for given, why in (
        ("abcd", "several begin with"),
        ("zz", "first 4 characters"),
        ("%%%%", "there is no session"),
    ):
        with pytest.raises((InvalidInput, NotFound), match=why):
            await log.get("acme", given)


async def test_what_the_database_cannot_hold_is_made_fit(
    log: SessionLog, clock: WalkingClock, core_owner: asyncpg.Connection
) -> None:
    await log.write("acme", begun(clock, asked=excerpt("a\x00b\n" * 500)))
    assert len(await core_owner.fetchval("select asked from session_log")) == 200
