"""The sessions of a butler: asking it something, and what is on record of those that were."""

import asyncio
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.requests import Request

from butlers.errors import SettingsError, Unavailable
from butlers.host.butler import Butler
from butlers.interfaces.http.access import CurrentAccess
from butlers.interfaces.http.jobs import JobRuns
from butlers.memory.operations.results import Instant
from butlers.operation import Input, Output
from butlers.sessions.log import SessionKind
from butlers.sessions.spawner import SessionRequest
from butlers.settings.sections import ButlerSettings

router = APIRouter(tags=["sessions"])
T = TypeVar("T")
_LOOK_SECONDS = 0.5


class AskedSession(Input):
    """What a butler is asked."""

    prompt: Annotated[str, Field(max_length=1_000_000)]
    """What to ask."""
    project: Annotated[str, Field(max_length=200)] = ""
    """What is worked on, for the log."""


class SessionShown(Output):
    """A session as it is on record; its text is not."""

    id: str
    kind: str
    asked_by: str
    agent: str
    model: str
    project: str
    asked: str
    """The beginning of what was asked, secrets masked."""
    outcome: str
    """running, ok, failed, cut_off (a limit was reached) or interrupted."""
    reason: str | None
    started_at: Instant
    ended_at: Instant | None
    seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    had_memory: bool
    """Whether its memories could be had before it was answered."""
    had_tools: bool
    told: list[str]
    """The memories in its context."""
    stored: list[str]
    """The memories it left."""


class SessionAnswered(Output):
    """An answer, the session that gave it, and the episode that is left of it."""

    answer: str
    episode_id: str | None
    session: SessionShown


class SessionList(Output):
    """Sessions, the newest first."""

    sessions: list[SessionShown]


@router.post("/ask", response_model=SessionAnswered)
async def ask(access: CurrentAccess, request: Request, asked: AskedSession) -> Any:
    """Ask a butler: a session of its own answers, with its memories and, where it can, its tools.

    It ends when whoever asked goes away. What it costs is the butler's, so that only those who
    may run its jobs may ask.
    """
    access.must_run_jobs("a session is at the butler's cost; its own tenant may ask")
    settings = await asyncio.to_thread(_settings_now, access.butler)
    spawner = access.butler.spawner(access.butler.session_memory(), settings)
    question = SessionRequest(asked.prompt, access.caller.actor, project=asked.project)
    runs: JobRuns = request.app.state.job_runs
    session = await _while_present(request, runs.started(spawner.ask(question)))
    # An answer does not wait for long because of what becomes of it.
    record, episode = await runs.begin(spawner.remember(session)) or (session.record, None)
    return {
        "answer": session.completion.text,
        "episode_id": str(episode) if episode else None,
        "session": record.shown(),
    }


@router.get("/sessions", response_model=SessionList)
async def list_sessions(
    access: CurrentAccess,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 20,
    kind: Annotated[SessionKind | None, Query(description="Only those of this kind.")] = None,
) -> Any:
    """The caller's newest sessions: those of the butler's own, and those of connected agents."""
    found = await access.butler.session_log.find(access.caller.tenant_id, limit, kind)
    return {"sessions": [one.shown() for one in found]}


@router.get("/sessions/{session_id}", response_model=SessionShown)
async def get_session(
    access: CurrentAccess,
    session_id: Annotated[str, Path(max_length=100, description="Its id, or how that begins.")],
) -> Any:
    """One session: who asked, which agent and model, what it cost, was told and has stored."""
    return (await access.butler.session_log.get(access.caller.tenant_id, session_id)).shown()


def _settings_now(butler: Butler) -> ButlerSettings:
    try:
        return butler.settings_now()
    except SettingsError as error:
        raise Unavailable(str(error)) from error


async def _while_present(request: Request, working: "asyncio.Task[T]") -> T:
    """What the work comes to; it is ended when whoever asked has gone."""
    try:
        while not (await asyncio.wait({working}, timeout=_LOOK_SECONDS))[0]:
            if await request.is_disconnected():
                raise Unavailable("whoever asked has gone")
        return working.result()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
