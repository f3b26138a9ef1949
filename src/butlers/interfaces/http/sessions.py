"""Routes for sessions: ask a butler, and read the records of sessions."""

import asyncio
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.requests import Request

from butlers.errors import SettingsError, Unavailable
from butlers.interfaces.http.access import CurrentAccess
from butlers.interfaces.http.jobs import JobRuns
from butlers.memory.operations.results import Instant
from butlers.operation import Input, Output
from butlers.sessions.log import SessionKind
from butlers.sessions.spawner import SessionRequest

router = APIRouter(tags=["sessions"])
T = TypeVar("T")
_LOOK_SECONDS = 0.5


class AskedSession(Input):
    """A question for a butler."""

    prompt: Annotated[str, Field(max_length=1_000_000)]
    """What to ask."""
    project: Annotated[str, Field(max_length=200)] = ""
    """The project it is about, for the log."""


class SessionShown(Output):
    """A session as recorded; its text is not stored here."""

    id: str
    kind: str
    asked_by: str
    agent: str
    model: str
    project: str
    asked: str
    """The beginning of the prompt, secrets masked."""
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
    """Whether it got a context from memory."""
    had_tools: bool
    told: list[str]
    """The memories in its context."""
    stored: list[str]
    """The memories it stored."""


class SessionAnswered(Output):
    """An answer, its session, and the episode that was stored."""

    answer: str
    episode_id: str | None
    session: SessionShown


class SessionList(Output):
    """Sessions, the newest first."""

    sessions: list[SessionShown]


@router.post("/ask", response_model=SessionAnswered)
async def ask(access: CurrentAccess, request: Request, asked: AskedSession) -> Any:
    """Ask a butler: it answers in a session, with its memories and, if possible, its tools.

    The session ends when the caller disconnects. The butler pays for it, so only callers who may
    run its jobs may ask.
    """
    access.require_jobs("the butler pays for a session; only its own tenant may ask")
    try:
        settings = await asyncio.to_thread(access.butler.settings_now)
    except SettingsError as error:
        raise Unavailable(str(error)) from error
    spawner = access.butler.spawner(access.butler.session_memory(), settings)
    question = SessionRequest(asked.prompt, access.caller.actor, project=asked.project)
    runs: JobRuns = request.app.state.job_runs
    session = await _while_connected(request, runs.started(spawner.ask(question)))
    # The answer does not wait long for storing the session.
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
    """List the caller's newest sessions: the butler's own, and those of connected agents."""
    records = await access.butler.session_log.find(access.caller.tenant_id, limit, kind)
    return {"sessions": [record.shown() for record in records]}


@router.get("/sessions/{session_id}", response_model=SessionShown)
async def get_session(
    access: CurrentAccess,
    session_id: Annotated[str, Path(max_length=100, description="Its id, or the beginning of it.")],
) -> Any:
    """Read one session: who asked, agent, model, cost, its context and what it stored."""
    return (await access.butler.session_log.get(access.caller.tenant_id, session_id)).shown()


async def _while_connected(request: Request, task: "asyncio.Task[T]") -> T:
    """Wait for the result; cancel the task when the caller disconnects."""
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_SECONDS))[0]:
            if await request.is_disconnected():
                raise Unavailable("the caller disconnected")
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
