"""Replay dated sessions of agents through what the hooks call, then ask prompts as agents do."""

import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import structlog

from bench.lab import laboratory
from butlers.auth.rights import Caller, Project
from butlers.embedding import Embedder
from butlers.memory.handle import Memory
from butlers.memory.operations import OperationContext, retrieval
from butlers.sessions.session import SessionMemory

SECONDS = 60.0
_TURN = timedelta(seconds=40)


@dataclass(slots=True)
class ReplayClock:
    """A clock that stands where the replay is."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time of the replay, a little later at each call."""
        self.now += timedelta(milliseconds=1)
        return self.now


@dataclass(frozen=True, slots=True)
class Delivered:
    """What an agent gets with a prompt: at the start of its session, and for the prompt."""

    start: str
    prompt: str

    @property
    def text(self) -> str:
        """Everything, in the order it arrives."""
        return f"{self.start}\n{self.prompt}"


@dataclass(slots=True)
class Replay:
    """A butler's memory that lives through dated sessions."""

    memory: Memory
    clock: ReplayClock

    def __post_init__(self) -> None:
        self.sessions = SessionMemory("bench", self._opened, SECONDS)

    sessions: SessionMemory = None  # type: ignore[assignment]

    async def _opened(self) -> Memory:
        return self.memory

    def caller(self, project: str) -> Caller:
        """Return the caller of the hooks in a project."""
        place = f"/home/ann/work/{project}"
        return Caller(
            "default", "hooks", project=Project((f"remote:example.org/{project}",), project, place)
        )

    async def live(self, session: Mapping[str, Any]) -> None:
        """Store a session at its own time, as after its end."""
        began_at = datetime.fromisoformat(session["at"])
        last = session["turns"][-1].get("at")
        ended_at = datetime.fromisoformat(last) if last else began_at
        self.clock.now = ended_at + _TURN * (len(session["turns"]) + 1)
        await self.sessions.remember_transcript(
            str(uuid5(NAMESPACE_URL, session["session"])),
            transcript(session["turns"], began_at),
            {"project": session["project"]},
            self.caller(session["project"]),
        )

    async def ask(self, project: str, prompt: str) -> Delivered:
        """Start a session in a project and give it a prompt."""
        session, caller = str(uuid4()), self.caller(project)
        start = await self.sessions.opening(session, caller)
        given = await self.sessions.relevant(session, prompt, caller)
        return Delivered(start.text if start else "", given.text)

    async def recall(self, project: str, prompt: str, limit: int = 5) -> list[str]:
        """Return the texts that recall gives for a prompt."""
        ctx = OperationContext.of(self.memory, self.caller(project))
        rows = await retrieval.recall.perform(ctx, topic=prompt, limit=limit, counted=False)
        return [json.dumps(row, ensure_ascii=False, default=str) for row in rows]


@asynccontextmanager
async def replayed(
    sessions: Iterable[Mapping[str, Any]], embedder: Embedder | None = None
) -> AsyncIterator[Replay]:
    """Live through sessions in the order of their time, in a database of their own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    async with laboratory(embedder) as (memory, _):
        clock = ReplayClock()
        replay = Replay(replace(memory, now=clock), clock)
        for session in sorted(sessions, key=lambda session: str(session["at"])):
            await replay.live(session)
        replay.clock.now += timedelta(days=1)
        yield replay


def transcript(turns: Sequence[Mapping[str, Any]], began_at: datetime) -> str:
    """Write turns as Claude Code writes them down, with the calls of tools."""
    lines: list[str] = []
    for number, turn in enumerate(turns):
        at = datetime.fromisoformat(turn["at"]) if "at" in turn else began_at + _TURN * number
        for place, call in enumerate(turn.get("calls") or ()):
            lines += _called(call, f"toolu_{number:05}{place:03}", at)
            at += timedelta(seconds=1)
        if turn["text"]:
            content = turn["text"]
            if turn["role"] == "assistant":
                content = [{"type": "text", "text": turn["text"]}]
            lines.append(_record(turn["role"], content, at))
    return "\n".join(lines)


def _called(call: Mapping[str, Any], id: str, at: datetime) -> list[str]:
    field = "file_path" if call["tool"] in ("Edit", "Write", "Read") else "command"
    used = {"type": "tool_use", "id": id, "name": call["tool"], "input": {field: call["input"]}}
    result = {
        "type": "tool_result",
        "tool_use_id": id,
        "content": call.get("output", ""),
        "is_error": bool(call.get("failed")),
    }
    return [_record("assistant", [used], at), _record("user", [result], at)]


def _record(role: str, content: Any, at: datetime) -> str:
    instant = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = {"role": role, "content": content}
    record = {"type": role, "isSidechain": False, "timestamp": instant, "message": message}
    return json.dumps(record, ensure_ascii=False)
