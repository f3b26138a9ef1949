"""Which agents are connected to a home, and which of their transcripts nobody told us of."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.atomic_files import replace_file
from butlers.llm.envelopes import parse_object
from butlers.sessions.agent_connections import Client, Connection, Scope
from butlers.sessions.projects import identify

_FIRST_LINES = 50
_MAX_LINE_BYTES = 1024 * 1024
_PATTERNS = {Client.CLAUDE_CODE: "*/*.jsonl", Client.CODEX: "*/*/*/rollout-*.jsonl"}
_UUID_LENGTH = 36


@dataclass(frozen=True, slots=True)
class Connected:
    """One agent that was given a butler: where it keeps its transcripts, and since when."""

    butler: str
    client: str
    project: str
    """The directory whose sessions it is for; "" for every one of this user."""
    transcripts: str
    since: str
    low_trust: bool = False
    """Whether what its sessions say counts for less."""

    def is_same(self, other: "Connected") -> bool:
        """Whether both are the same connection, whenever they were made."""
        return (self.butler, self.client, self.project) == (
            other.butler,
            other.client,
            other.project,
        )

    @property
    def began_at(self) -> float:
        """Since when it is, as files are dated."""
        return datetime.fromisoformat(self.since).timestamp()

    def covers(self, cwd: str, started_at: str) -> bool:
        """Whether a session is one of this connection: of its project, and not from before."""
        with suppress(ValueError):
            began_at = datetime.fromisoformat(started_at).timestamp()
            ours = not self.project or Path(os.path.realpath(cwd)).is_relative_to(self.project)
            return bool(cwd) and ours and began_at >= self.began_at
        return False


def connected(
    connection: Connection, client: Client, scope: Scope, project: Path, since: datetime
) -> Connected:
    """The record of a connection, with where the agent of this user keeps its transcripts."""
    environment = os.environ
    user_home = Path(environment.get("HOME") or Path.home())
    if client is Client.CLAUDE_CODE:
        chosen = environment.get("CLAUDE_CONFIG_DIR")
        transcripts = Path(chosen or user_home / ".claude") / "projects"
    else:
        transcripts = Path(environment.get("CODEX_HOME") or user_home / ".codex") / "sessions"
    where = os.path.realpath(project) if scope is Scope.PROJECT else ""
    place = os.path.abspath(transcripts)
    began = since.isoformat("T", "seconds")
    return Connected(
        connection.butler, str(client), where, place, began, low_trust=connection.low_trust
    )


class ConnectionFile:
    """The connections of a home, in a file of their own."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> list[Connected]:
        """Every connection; a file that cannot be read holds none."""
        with suppress(FileNotFoundError, ValueError, TypeError):
            return [Connected(**one) for one in json.loads(self._file.read_text("utf-8"))]
        return []

    def add(self, new: Connected) -> None:
        """Write a connection down; one that was there stays as old as it is."""
        with self._changing() as connections:
            known = next((one for one in connections if one.is_same(new)), None)
            if known is None:
                connections.append(new)
            else:
                connections[connections.index(known)] = replace(new, since=known.since)

    def remove(self, gone: Connected) -> None:
        """Forget a connection."""
        if self._file.exists():
            with self._changing() as connections:
                connections[:] = [one for one in connections if not one.is_same(gone)]

    @contextmanager
    def _changing(self) -> Iterator[list[Connected]]:
        """The connections to change, written back at once, one process at a time."""
        with self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            connections = self.all()
            yield connections
            told = [asdict(one) for one in connections]
            replace_file(self._file, json.dumps(told, indent=1) + "\n")


def overlooked(
    connections: list[Connected], read: Mapping[str, int], idle_since: float
) -> Iterator[dict[str, Any]]:
    """Sessions that went on after they were last read, or never were, and are at rest now."""
    for one in connections:
        client = Client(one.client)
        for file in sorted(Path(one.transcripts).glob(_PATTERNS[client])):
            session = _session_of(file, client)
            with suppress(OSError):  # its agent may have deleted it meanwhile
                size, touched_at = file.stat().st_size, file.stat().st_mtime
                known = size == read.get(f"{one.butler}~{session}")
                if session and not known and one.began_at <= touched_at <= idle_since:
                    yield from _if_ours(one, session, file)


def _if_ours(one: Connected, session: str, file: Path) -> Iterator[dict[str, Any]]:
    cwd, started_at = _beginning(file)
    if one.covers(cwd, started_at):
        told = {"butler": one.butler, "session": session, "cwd": cwd, "project": identify(cwd)}
        yield {**told, "path": str(file), "event": "CatchUp", "low_trust": one.low_trust}


def _session_of(file: Path, client: Client) -> str:
    """The session that a transcript is named after; "" where it is no session's."""
    named = file.stem if client is Client.CLAUDE_CODE else file.stem[-_UUID_LENGTH:]
    with suppress(ValueError):
        return named if str(UUID(named)) == named else ""
    return ""


def _beginning(file: Path) -> tuple[str, str]:
    """Where and when a session began, as its transcript says."""
    cwd = started_at = ""
    with file.open("rb") as stream:
        lines = iter(lambda: stream.readline(_MAX_LINE_BYTES), b"")
        for record in _records(islice(lines, _FIRST_LINES)):
            started_at = started_at or str(record.get("timestamp") or "")
            described = record.get("payload")
            told = described if isinstance(described, dict) else record
            if told.get("thread_source", "user") != "user":
                return "", ""  # an agent's own helper
            cwd = cwd or str(told.get("cwd") or "")
            if cwd and started_at:
                break
    return cwd, started_at


def _records(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        record = parse_object(line.decode("utf-8", "replace"))
        if record:
            yield record
