"""Entries of the spool, as the daemon reads, stores and removes them."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from butlers.atomic_files import replace_file
from butlers.llm.envelopes import parse_object
from butlers.sessions import spool

# The most that is held in memory of a transcript.
CHUNK_BYTES = 16 * 1024**2
STALE_SECONDS = 3_600
_UNFINISHED_TIMES = 12
_MOST_READ = 20_000
_VERSION, _CUT_INTO_PIECES = "version", 2
"""How the sessions in the file `read` were stored."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A session in the spool; `file` is its entry, `told` what the entry says."""

    file: Path
    butler: str
    session: str
    mark: str
    tries: int
    left_at: float
    told: dict[str, Any]

    @property
    def key(self) -> str:
        """The session, whichever of its entries this is."""
        return f"{self.butler}~{self.session}"

    @property
    def is_under_way(self) -> bool:
        """Whether no hook reported its end."""
        return self.mark == spool.OPEN

    @property
    def transcript(self) -> Path | None:
        """Its transcript: the agent's file or its second name, the longer one; None if gone."""
        original = Path(str(self.told.get("path", "")))
        files = [file for file in (original, self.held) if file and file.is_file()]
        return max(files, key=lambda file: file.stat().st_size, default=None)

    @property
    def held(self) -> Path | None:
        """The second name of its transcript, if it has one."""
        # Only a file name is taken from the entry, which may have been tampered with.
        file = self.file.parent / os.path.basename(str(self.told.get("held") or ""))
        return file if file.is_file() else None

    def is_due(self, now: float, idle_seconds: float) -> bool:
        """Whether it ended, or was idle for so long that it must have."""
        if not self.is_under_way:
            return True
        patience = idle_seconds * (1 if self.told.get("event") == "Stop" else _UNFINISHED_TIMES)
        transcript = self.transcript
        touched_at = transcript.stat().st_mtime if transcript else 0.0
        return max(self.left_at, touched_at) + patience <= now


class SpoolEntries:
    """The spool of a home; only the process that serves the home removes entries."""

    def __init__(self, home: Path) -> None:
        self._spool, self._begun = home / spool.DIRECTORY, home / spool.BEGUN
        self._aside = self._spool / spool.ASIDE

    @property
    def changed_at(self) -> int:
        """When an entry was last added or removed, in nanoseconds; 0 if there is no spool."""
        try:
            return self._spool.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def arrivals(self) -> list[Arrival]:
        """List the entries to store, oldest first."""
        return sorted(_entries(self._spool), key=lambda entry: (entry.left_at, entry.file))

    @property
    def has_room(self) -> bool:
        """Whether the spool takes one more entry."""
        return spool.has_room(str(self._spool), 0)

    def leave(self, entry: dict[str, Any]) -> None:
        """Add an entry for a session whose transcript stays where its agent has it."""
        self._spool.mkdir(mode=0o700, exist_ok=True)
        name = spool.entry_name(entry["butler"], entry["session"], spool.fresh())
        spool.write_entry(str(self._spool), name, {**entry, "held": ""}, lasting=True)

    def begin(self, arrival: Arrival) -> Arrival:
        """Claim an entry; the try is counted before it is made, for it may crash the process."""
        mark = spool.fresh() if arrival.is_under_way else arrival.mark
        return self._renamed(replace(arrival, mark=mark, tries=arrival.tries + 1))

    def put_back(self, arrival: Arrival) -> None:
        """Release an entry as if it had not been tried."""
        self._renamed(replace(arrival, tries=arrival.tries - 1))

    def _renamed(self, arrival: Arrival) -> Arrival:
        name = spool.entry_name(arrival.butler, arrival.session, f"{arrival.mark}.{arrival.tries}")
        return replace(arrival, file=arrival.file.rename(self._spool / name))

    def done(self, arrival: Arrival) -> None:
        """Remove the entry of a stored session, then the second name of its transcript."""
        held = arrival.held
        arrival.file.unlink()
        if held is not None:
            held.unlink(missing_ok=True)

    def set_aside(self, arrival: Arrival, why: str) -> None:
        """Move an entry and its transcript out of the way; moved back, they are tried again."""
        self._aside.mkdir(mode=0o700, exist_ok=True)
        name = spool.entry_name(arrival.butler, arrival.session, arrival.mark)
        told, held = arrival.told, [file for file in (arrival.held,) if file]
        if not told:  # damaged, but may still be of use
            with suppress(FileExistsError):
                os.link(arrival.file, self._aside / f"{name}.damaged")
            held = self._transcripts_of(arrival.key)
            told = _recovered(held)
        # Written there first and removed here last, so that the next process can finish this.
        replace_file(self._aside / name, json.dumps({**told, "why": why}))
        for file in held:
            file.rename(self._aside / file.name)
        arrival.file.unlink()

    def _transcripts_of(self, key: str) -> list[Path]:
        """List a session's transcripts that no readable entry names."""
        named = {entry.told.get("held") for entry in _entries(self._spool)}
        files = [
            *self._spool.glob(f"{key}~*{spool.HELD}"),
            *self._aside.glob(f"{key}~*{spool.HELD}"),
        ]
        return [file for file in files if file.name not in named]

    def sweep(self, now: float) -> None:
        """Remove what killed hooks left unfinished; set aside what may be the only copy."""
        entries, read = list(_entries(self._spool)), self.read_before()
        named = {entry.told.get("held") for entry in entries}
        damaged = {entry.key for entry in entries if not entry.told}
        for file in self._spool.iterdir() if self._spool.exists() else ():
            is_held, key = file.name.endswith(spool.HELD), file.name.rpartition("~")[0]
            if not (is_held or file.name.startswith(".")) or file.name in named or key in damaged:
                continue
            status = file.lstat()
            if status.st_ctime + STALE_SECONDS >= now:
                continue
            if is_held and status.st_nlink == 1 and abs(read.get(key, 0)) < status.st_size:
                self._set_aside_alone(file)
            else:
                file.unlink()

    def _set_aside_alone(self, held: Path) -> None:
        """Set aside a transcript without an entry."""
        self._aside.mkdir(mode=0o700, exist_ok=True)
        told = {**_recovered([held]), "why": "its entry is missing"}
        replace_file(self._aside / f"{held.stem}{spool.ENTRY}", json.dumps(told))
        held.rename(self._aside / held.name)

    def read_before(self) -> dict[str, int]:
        """Return how many bytes of each session were read; it only saves reading them again.

        Negative for a session that was read before sessions were cut into pieces.
        """
        sizes = spool.read_entry(str(self._spool / "read"))
        sign = 1 if sizes.pop(_VERSION, None) == _CUT_INTO_PIECES else -1
        return {key: sign * size for key, size in sizes.items() if isinstance(size, int)}

    def remember_read(self, read: dict[str, int]) -> None:
        """Write down how many bytes of the newest sessions were read."""
        newest = dict(list(read.items())[-_MOST_READ:])
        replace_file(self._spool / "read", json.dumps({_VERSION: _CUT_INTO_PIECES, **newest}))

    def forget_begun(self, session: str) -> None:
        """Take a session out of the ledger."""
        with suppress(FileNotFoundError):
            lines = self._begun.read_text("utf-8", "replace").splitlines(keepends=True)
            replace_file(self._begun, "".join(line for line in lines if session not in line))

    def set_aside_before(self) -> list[Arrival]:
        """List the entries that were set aside."""
        return list(_entries(self._aside))


def _recovered(held: list[Path]) -> dict[str, Any]:
    """Return what stands for a lost entry: the longest transcript; nobody knows whose it was."""
    longest = max(held, key=lambda file: file.stat().st_size, default=None)
    return {"held": longest.name if longest else "", "low_trust": True}


def chunks(lines: Iterable[str]) -> Iterator[str]:
    """Yield a transcript in chunks of whole lines."""
    chunk, size = list[str](), 0
    for line in lines:
        chunk.append(line)
        size += len(line.encode())
        if size >= CHUNK_BYTES:
            yield "".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield "".join(chunk)


def _entries(directory: Path) -> Iterator[Arrival]:
    """Yield the entries of a directory by name; a damaged one has an empty `told`."""
    with suppress(FileNotFoundError):
        for file in sorted(directory.iterdir()):
            if file.name.endswith(spool.ENTRY) and file.name.count("~") == 2:
                butler, session, mark = file.name.removesuffix(spool.ENTRY).split("~")
                mark, _, tries = mark.partition(".")
                count, told = int(tries) if tries.isdecimal() else 0, spool.read_entry(str(file))
                with suppress(FileNotFoundError):  # its session just ended
                    left_at = file.stat().st_mtime
                    yield Arrival(file, butler, session, mark, count, left_at, told)


RECENT_DAYS = 7


def notes_since(file: Path, since: datetime) -> list[dict[str, Any]]:
    """Read the notes since an instant, oldest first; lines that were cut off are ignored."""
    with suppress(FileNotFoundError):
        notes = filter(None, map(parse_object, file.read_text("utf-8", "replace").splitlines()))
        return [note for note in notes if str(note.get("at")) >= since.isoformat("T", "seconds")]
    return []
