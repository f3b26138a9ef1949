"""The log of sessions: one row each, from their start, with their outcome.

Of what was said it has only the first words of the question, with secrets masked.
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
_latest = Rows(_SQL["latest"])
_get = Rows(_SQL["get"])
_running = Rows(_SQL["running"])
_interrupt = Touched(_SQL["interrupt"])
_erase = Touched(_SQL["erase"])

KEPT_SESSIONS = 1_000
"""How many sessions of a tenant are kept."""

_EXCERPT = 200
_REASON = 500
_SHORTEST_ID = 4
_INTERNAL = ("worker", "ends_by")
GONE = "the process that ran it ended before it was done"


class SessionKind(StrEnum):
    """What started a session."""

    ASK = "ask"
    SCHEDULE = "schedule"
    AGENT = "agent"


class SessionOutcome(StrEnum):
    """How a session ended."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CUT_OFF = "cut_off"
    INTERRUPTED = "interrupted"


def this_process() -> str:
    """Return the name of this process in the log."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One row of the log."""

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
    """When it must have ended; after that its process is gone."""
    ended_at: datetime | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    had_memory: bool = True
    """Whether its context was built before it was answered."""
    had_tools: bool = False
    told: tuple[UUID, ...] = ()
    """The memories in its context."""
    stored: tuple[UUID, ...] = ()
    """The memories it stored: its episode, and those by tools."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()

    def shown(self) -> dict[str, Any]:
        """Return the session as interfaces show it."""
        fields = {**asdict(self), "seconds": self.seconds}
        fields |= {"told": list(map(str, self.told)), "stored": list(map(str, self.stored))}
        return {name: value for name, value in fields.items() if name not in _INTERNAL}


def excerpt(text: str, longest: int = _EXCERPT) -> str:
    """Return the beginning of a text on one line, secrets masked."""
    line = one_line(masked(text).text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


@dataclass(frozen=True, slots=True)
class SessionLog:
    """The sessions of one butler."""

    database: Callable[[], Database]
    clock: Clock = utc_now

    async def write(self, tenant_id: str, record: SessionRecord) -> None:
        """Insert or update the row of a session; delete the oldest beyond the limit."""
        row = asdict(record) | {"told": list(record.told), "stored": list(record.stored)}
        row |= {"reason": record.reason and excerpt(record.reason, _REASON)}
        async with self.database().transaction(tenant_id) as tx:
            await _write(tx, **row)
            await _prune(tx, kept=KEPT_SESSIONS)

    async def find(
        self, tenant_id: str, limit: int = 20, kind: SessionKind | None = None
    ) -> list[SessionRecord]:
        """List the newest sessions of a tenant, newest first."""
        async with self.database().transaction(tenant_id) as tx:
            rows = await _find(tx, limit=limit, kind=kind, now=self.clock())
        return [_record(row) for row in rows]

    async def latest(self, tenant_id: str, limit: int = 500) -> list[Row]:
        """List the newest sessions of agents: `id`, `agent`, `session_at` and `memory_at`."""
        async with self.database().transaction(tenant_id) as tx:
            return list(await _latest(tx, limit=limit))

    async def get(self, tenant_id: str, session_id: str) -> SessionRecord:
        """Return a session by its id or a unique prefix of it; NotFound if there is none."""
        if len(session_id) < _SHORTEST_ID:
            raise InvalidInput(
                f"session_id: found {session_id!r}; valid is an id or its first "
                f"{_SHORTEST_ID} characters at least"
            )
        async with self.database().transaction(tenant_id) as tx:
            rows = await _get(tx, id=session_id, now=self.clock())
        exact = [row for row in rows if row["id"] == session_id] or rows
        if len(exact) > 1:
            raise InvalidInput(f"session_id: several begin with {session_id!r}; give more of it")
        if not exact:
            raise NotFound(f"session_id: there is no session {session_id:.100}")
        return _record(exact[0])

    async def erase(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Delete sessions; return how many there were."""
        async with self.database().transaction(tenant_id) as tx:
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
        """Record what a hook reports of an agent's session, which only the hook ends.

        `told` and `stored` are added to those recorded before.
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
        """Mark sessions of this machine's dead processes as interrupted; call it at the start."""
        async with self.database().transaction(tenant_id) as tx:
            gone = [row["worker"] for row in await _running(tx) if _is_gone(row["worker"])]
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
        pass  # it runs under another account
    return False
