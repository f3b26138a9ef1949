"""Which agents are connected to a home, and which of their transcripts no hook reported."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.atomic_files import replace_file
from butlers.llm.envelopes import mapping, parse_object
from butlers.sessions.agent_connections import Connection
from butlers.sessions.agents import Agent, load_agent
from butlers.sessions.projects import identify

_FIRST_LINES = 50
_MAX_LINE_BYTES = 1024 * 1024
_UUID_LENGTH = 36


@dataclass(frozen=True, slots=True)
class Connected:
    """An agent that a butler was connected to: where its transcripts are, and since when."""

    butler: str
    client: str
    project: str
    """The directory whose sessions it covers; "" for all of this user."""
    transcripts: str
    since: str
    low_trust: bool = False
    """Whether memories of its sessions have low trust."""
    starts: bool = False
    """Whether its hooks start the daemon."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The same for every record of one connection."""
        return self.butler, self.client, self.project

    @property
    def began_at(self) -> float:
        """When it was made, in seconds."""
        return datetime.fromisoformat(self.since).timestamp()

    def covers(self, cwd: str, started_at: str) -> bool:
        """Whether a session belongs to this connection: to its project, and not from before."""
        with suppress(ValueError):
            began_at = datetime.fromisoformat(started_at).timestamp()
            ours = not self.project or Path(os.path.realpath(cwd)).is_relative_to(self.project)
            return bool(cwd) and ours and began_at >= self.began_at
        return False


def connected(
    connection: Connection, agent: Agent, project: Path | None, since: datetime
) -> Connected:
    """Make the record of a connection, with the directory of this user's transcripts."""
    directory = os.path.realpath(project) if project else ""
    transcripts = os.path.abspath(agent.transcripts) if agent.transcripts else ""
    about = (directory, transcripts, since.isoformat("T", "seconds"))
    options = (connection.low_trust, connection.starts)
    return Connected(connection.butler, agent.name, *about, *options)


class ConnectionFile:
    """The connections of a home, in a file of their own."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> list[Connected]:
        """List every connection; none if the file cannot be read."""
        with suppress(FileNotFoundError, ValueError, TypeError):
            return [Connected(**row) for row in json.loads(self._file.read_text("utf-8"))]
        return []

    def add(self, new: Connected) -> None:
        """Write a connection; one that exists already keeps its date."""
        with self._changing() as connections:
            known = connections.get(new.key, new)
            connections[new.key] = replace(new, since=known.since)

    def remove(self, gone: Connected) -> None:
        """Remove a connection."""
        if self._file.exists():
            with self._changing() as connections:
                connections.pop(gone.key, None)

    @contextmanager
    def _changing(self) -> Iterator[dict[tuple[str, str, str], Connected]]:
        """Let one process at a time change the connections, and write them back atomically."""
        with self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            connections = {connection.key: connection for connection in self.all()}
            yield connections
            rows = [asdict(connection) for connection in connections.values()]
            replace_file(self._file, json.dumps(rows, indent=1) + "\n")


def overlooked(
    connections: list[Connected], read: Mapping[str, int], idle_since: float
) -> Iterator[dict[str, Any]]:
    """Yield spool entries for idle sessions that grew since they were read, or never were."""
    for connection in connections:
        for session, file in _sessions(connection):
            with suppress(OSError):  # its agent may have deleted it meanwhile
                size, touched_at = file.stat().st_size, file.stat().st_mtime
                is_read = size == read.get(f"{connection.butler}~{session}")
                if not is_read and connection.began_at <= touched_at <= idle_since:
                    yield from _entry(connection, session, file)


def latest_session(connection: Connected, log: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return from a butler's log when a connection had its last session, and memory in one."""
    files = dict(_sessions(connection))
    latest: dict[str, Any] = {"session_at": None, "memory_at": None}
    for row in log:
        file = files.get(row["id"])
        ours = row["agent"] == connection.client if file is None else _covers(connection, file)
        for name in latest if ours else ():
            latest[name] = max(filter(None, (latest[name], row[name])), default=None)
    return latest


def _covers(connection: Connected, file: Path) -> bool:
    with suppress(OSError):
        return connection.covers(*_beginning(file))
    return False


def _sessions(connection: Connected) -> Iterator[tuple[str, Path]]:
    """List the sessions of an agent and their transcripts, where they are files we know."""
    pattern = load_agent(connection.client).table.get("transcripts", {}).get("pattern")
    files = Path(connection.transcripts).glob(pattern) if pattern else ()
    for file in sorted(files):
        # Where more stands in the pattern, the name begins with a date.
        name = file.stem if pattern.endswith("/*.jsonl") else file.stem[-_UUID_LENGTH:]
        with suppress(ValueError):
            if str(UUID(name)) == name:
                yield name, file


def _entry(connection: Connected, session: str, file: Path) -> Iterator[dict[str, Any]]:
    cwd, started_at = _beginning(file)
    if connection.covers(cwd, started_at):
        yield {
            "butler": connection.butler,
            "session": session,
            "cwd": cwd,
            "project": identify(cwd),
            "path": str(file),
            "event": "CatchUp",
            "low_trust": connection.low_trust,
        }


def _beginning(file: Path) -> tuple[str, str]:
    """Read from a transcript where and when its session began; empty for a subagent's."""
    cwd = started_at = ""
    with file.open("rb") as stream:
        lines = iter(lambda: stream.readline(_MAX_LINE_BYTES), b"")
        texts = (line.decode("utf-8", "replace") for line in islice(lines, _FIRST_LINES))
        for record in filter(None, map(parse_object, texts)):
            started_at = started_at or str(record.get("timestamp") or "")
            fields = mapping(record.get("payload")) or record
            if fields.get("thread_source", "user") != "user":
                return "", ""
            cwd = cwd or str(fields.get("cwd") or "")
            if cwd and started_at:
                break
    return cwd, started_at
