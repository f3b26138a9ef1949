"""The log of sessions: one row each, from the start on, with what became of it.

It never holds what was said, only a short beginning of what was asked, with secrets masked.
"""

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.auth.rights import Caller
from butlers.clock import Clock, utc_now
from butlers.db.postgres import Database, Row
from butlers.db.queries import load
from butlers.db.statements import Rows, Touched
from butlers.errors import InvalidInput, NotFound
from butlers.kernel.secrets import masked
from butlers.kernel.text import one_line

_SQL = load(__file__)
_write = Touched(_SQL["write"])
_prune = Touched(_SQL["prune"])
_find = Rows(_SQL["find"])
_get = Rows(_SQL["get"])
_running = Rows(_SQL["running"])
_interrupt = Touched(_SQL["interrupt"])
_erase = Touched(_SQL["erase"])

KEPT_SESSIONS = 1_000
"""How many sessions of a tenant are kept, the newest."""

_EXCERPT = 200
_REASON = 500
_SHORTEST_ID = 4
_INTERNAL = ("worker", "ends_by")
GONE = "the process that ran it ended before it was done"


class SessionKind(StrEnum):
    """What began a session."""

    ASK = "ask"
    SCHEDULE = "schedule"
    AGENT = "agent"


class SessionOutcome(StrEnum):
    """What became of a session."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CUT_OFF = "cut_off"
    INTERRUPTED = "interrupted"


def this_process() -> str:
    """The process that runs a session, as the log names it."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as the log keeps it."""

    id: str
    kind: SessionKind
    asked_by: str
    agent: str
    asked: str
    started_at: datetime
    model: str = ""
    project: str = ""
    outcome: SessionOutcome = SessionOutcome.RUNNING
    reason: str | None = None
    worker: str = ""
    ends_by: datetime | None = None
    """When it must have ended; one that has not has lost its process."""
    ended_at: datetime | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    had_memory: bool = True
    """Whether its memories could be had before it was answered."""
    had_tools: bool = False
    told: tuple[UUID, ...] = ()
    """The memories in its context."""
    stored: tuple[UUID, ...] = ()
    """The memories it left: its episode, and what it stored by tools."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it goes on."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()

    def shown(self) -> dict[str, Any]:
        """The session as people and programs are told of it."""
        told = {**asdict(self), "seconds": self.seconds}
        told |= {"told": list(map(str, self.told)), "stored": list(map(str, self.stored))}
        return {name: value for name, value in told.items() if name not in _INTERNAL}


def excerpt(text: str, longest: int = _EXCERPT) -> str:
    """The beginning of a text, fit to be kept: on one line, secrets masked."""
    line = one_line(masked(text).text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


class SessionLog:
    """The sessions of one butler."""

    def __init__(self, database: Callable[[], Database], clock: Clock = utc_now) -> None:
        self._database = database
        self.clock = clock

    async def write(self, tenant_id: str, record: SessionRecord) -> None:
        """Put a session on record as it is now, in place of how it was."""
        row = asdict(record) | {"told": list(record.told), "stored": list(record.stored)}
        row |= {"reason": record.reason and excerpt(record.reason, _REASON)}
        async with self._database().transaction(tenant_id) as tx:
            await _write(tx, **row)
            await _prune(tx, kept=KEPT_SESSIONS)

    async def find(
        self, tenant_id: str, limit: int = 20, kind: SessionKind | None = None
    ) -> list[SessionRecord]:
        """The newest sessions of a tenant, the newest first."""
        async with self._database().transaction(tenant_id) as tx:
            rows = await _find(tx, limit=limit, kind=kind, now=self.clock())
        return [_record(row) for row in rows]

    async def get(self, tenant_id: str, session_id: str) -> SessionRecord:
        """A session by its id, or the beginning of one that names no other."""
        if len(session_id) < _SHORTEST_ID:
            raise InvalidInput(
                f"session_id: found {session_id!r}; valid is an id or its first "
                f"{_SHORTEST_ID} characters at least"
            )
        async with self._database().transaction(tenant_id) as tx:
            rows = await _get(tx, id=session_id, now=self.clock())
        exact = [row for row in rows if row["id"] == session_id] or rows
        if len(exact) > 1:
            raise InvalidInput(f"session_id: several begin with {session_id!r}; give more of it")
        if not exact:
            raise NotFound(f"session_id: there is no session {session_id:.100}")
        return _record(exact[0])

    async def erase(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Keep sessions on record no more; how many there were."""
        async with self._database().transaction(tenant_id) as tx:
            return await _erase(tx, ids=list(ids))

    async def note_agent(  # noqa: PLR0913 - what a hook may know of a session
        self,
        caller: Caller,
        session_id: str,
        *,
        project: str = "",
        asked: str = "",
        told: Sequence[UUID] = (),
        stored: Sequence[UUID] = (),
        outcome: SessionOutcome = SessionOutcome.RUNNING,
    ) -> None:
        """Put on record what a connected agent's hook tells; told and stored add up.

        Such a session runs in no process of ours, so that nothing but its hook ends it.
        """
        now = self.clock()
        record = SessionRecord(
            id=session_id,
            kind=SessionKind.AGENT,
            asked_by=caller.actor,
            agent=caller.agent,
            asked=excerpt(asked),
            started_at=now,
            project=one_line(project),
            outcome=outcome,
            ended_at=None if outcome is SessionOutcome.RUNNING else now,
            told=tuple(told),
            stored=tuple(stored),
        )
        await self.write(caller.tenant_id, record)

    async def end_interrupted(self, tenant_id: str) -> int:
        """Sessions of processes of this machine that are gone have ended; how many.

        For a process that has not begun any of its own: what bears its number is another's.
        """
        async with self._database().transaction(tenant_id) as tx:
            found = [row["worker"] for row in await _running(tx)]
            gone = [worker for worker in found if _is_gone(worker)]
            return await _interrupt(tx, workers=gone, now=self.clock(), reason=GONE)


def _record(row: Row) -> SessionRecord:
    words = {"kind": SessionKind(row["kind"]), "outcome": SessionOutcome(row["outcome"])}
    ids = {"told": tuple(row["told"]), "stored": tuple(row["stored"])}
    return SessionRecord(**{**row, **words, **ids})


def _is_gone(worker: str) -> bool:
    host, _, number = worker.rpartition(":")
    if host != socket.gethostname() or not number.isdecimal():
        return False
    if worker == this_process():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
