"""The log of injections: one row each, with what was left out and what became of it.

The texts are kept as they were delivered, secrets masked, and only as long as the session's record.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from butlers.auth.rights import Caller
from butlers.clock import Clock, utc_now
from butlers.db.postgres import Database, Row
from butlers.db.queries import load
from butlers.db.statements import Rows, Touched
from butlers.ids import NewId, new_id
from butlers.kernel.text import one_line
from butlers.memory.model import MemoryType
from butlers.sessions.injections import (
    MAX_LEFT_OUT,
    Delivery,
    InjectedLine,
    Injection,
    InjectionEvent,
    LeftOut,
)
from butlers.sessions.log import excerpt
from butlers.sessions.verdicts import Verdict

_SQL = load(__file__)
_record = Touched(_SQL["record"])
find_of_session = Rows(_SQL["of_session"])
find_given = Rows(_SQL["find_given"])
_find_since = Rows(_SQL["find_since"])
_find_known = Rows(_SQL["find_known"])
_fail = Touched(_SQL["fail"])
_erase = Touched(_SQL["erase"])

_LINE = 500
_GAVE_UP = timedelta(seconds=5)
"""How long before its note a hook may have asked."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """When a session was given something, or should have been."""

    session_id: str
    project: str = ""
    event: InjectionEvent = InjectionEvent.PROMPT
    asked: str = ""
    reason: str | None = None
    """Why nothing could be delivered."""


@dataclass(frozen=True, slots=True)
class InjectionRecord:
    """One row: an injection, its occasion, and what became of each memory."""

    id: UUID
    session_id: str
    project: str
    agent: str
    at: datetime
    event: InjectionEvent
    asked: str
    outcome: Delivery
    reason: str | None
    tokens: int
    milliseconds: int
    lines: tuple[InjectedLine, ...]
    left_out: tuple[LeftOut, ...]
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """By the ids of memories; one that is not judged yet is missing."""

    @property
    def verdict(self) -> Verdict | None:
        """What became of it as a whole: harmful or used if any line was; None if not judged."""
        found = set(self.verdicts.values())
        return next((one for one in reversed(Verdict) if one in found), None)

    @property
    def memory_ids(self) -> tuple[UUID, ...]:
        """The memories that it names, delivered or left out."""
        return (*(line.id for line in self.lines), *(one.id for one in self.left_out))

    @property
    def texts(self) -> dict[str, Any]:
        """What of it may name a person."""
        lines = [line.text for line in self.lines]
        about = {"id": self.session_id, "asked": self.asked, "project": self.project}
        return {**about, "reason": self.reason, "lines": lines}

    def shown(self) -> dict[str, Any]:
        """Return it as JSON values, each line with its verdict."""
        lines = [
            {**_plain(line), "verdict": self.verdicts.get(str(line.id))} for line in self.lines
        ]
        fields = {"id": str(self.id), "lines": lines, "left_out": list(map(_plain, self.left_out))}
        return {
            name: value for name, value in (asdict(self) | fields).items() if name != "verdicts"
        }


@dataclass(frozen=True, slots=True)
class InjectionLog:
    """The injections of one butler."""

    database: Callable[[], Database]
    clock: Clock = utc_now
    new_id: NewId = new_id

    async def record(
        self, caller: Caller, occasion: Occasion, injection: Injection, milliseconds: int = 0
    ) -> None:
        """Insert an injection; its session must be in the log of sessions."""
        row = self._row(caller, occasion, injection) | {"milliseconds": milliseconds}
        async with self.database().transaction(caller.tenant_id) as tx:
            await _record(tx, **row)

    async def record_failures(
        self, caller: Caller, failures: Mapping[UUID, tuple[datetime, Occasion]]
    ) -> None:
        """Record that hooks gave up, each once: what they did not wait for was not delivered."""
        async with self.database().transaction(caller.tenant_id) as tx:
            for id, (at, occasion) in failures.items():
                row = self._row(caller, occasion, Injection(outcome=Delivery.FAILED))
                row |= {"id": id, "at": at, "milliseconds": 0}
                times = {"after": at - _GAVE_UP, "before": at + timedelta(seconds=1)}
                named = {name: row[name] for name in ("id", "session_id", "event", "reason")}
                if not await _fail(tx, **named, **times):
                    await _record(tx, **row)

    async def unknown(self, tenant_id: str, ids: Iterable[UUID]) -> set[UUID]:
        """Return those of these ids that no record has."""
        wanted = set(ids)
        async with self.database().transaction(tenant_id) as tx:
            return wanted - {row["id"] for row in await _find_known(tx, ids=list(wanted))}

    async def of_session(self, tenant_id: str, session_id: str) -> list[InjectionRecord]:
        """List what a session was given, oldest first."""
        async with self.database().transaction(tenant_id) as tx:
            return list(map(as_record, await find_of_session(tx, session_id=session_id)))

    async def since(self, tenant_id: str, since: datetime) -> list[InjectionRecord]:
        """List what all sessions of a tenant were given since an instant, oldest first."""
        async with self.database().transaction(tenant_id) as tx:
            return list(map(as_record, await _find_since(tx, since=since)))

    async def erase(self, tenant_id: str, ids: Sequence[UUID]) -> int:
        """Delete injections; return how many there were."""
        async with self.database().transaction(tenant_id) as tx:
            return await _erase(tx, ids=list(ids))

    def _row(self, caller: Caller, occasion: Occasion, injection: Injection) -> dict[str, Any]:
        own = {"id": self.new_id(), "agent": caller.agent, "at": self.clock()}
        texts = {"project": one_line(occasion.project), "asked": excerpt(occasion.asked)}
        reason = occasion.reason and excerpt(occasion.reason)
        sums = {"outcome": injection.outcome, "tokens": injection.tokens, "reason": reason}
        return {**asdict(occasion), **own, **texts, **sums} | {
            "memory_ids": list(injection.ids),
            "lines": [
                _plain(line) | {"text": excerpt(line.text, _LINE)} for line in injection.lines
            ],
            "left_out": [_plain(one) for one in injection.left_out[:MAX_LEFT_OUT]],
        }


def as_record(row: Row) -> InjectionRecord:
    """Return a row as the record it is."""
    return InjectionRecord(
        **{
            **row,
            "event": InjectionEvent(row["event"]),
            "outcome": Delivery(row["outcome"]),
            "lines": tuple(InjectedLine(**_revived(line)) for line in row["lines"]),
            "left_out": tuple(LeftOut(**_revived(one)) for one in row["left_out"]),
            "verdicts": {id: Verdict(verdict) for id, verdict in row["verdicts"].items()},
        }
    )


def _plain(line: InjectedLine | LeftOut) -> dict[str, Any]:
    return asdict(line) | {"id": str(line.id)}


def _revived(line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "id": UUID(line["id"]), "memory_type": MemoryType(line["memory_type"])}
