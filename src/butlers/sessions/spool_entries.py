"""What waits in the spool, as the daemon takes it."""

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from butlers.atomic_files import replace_file
from butlers.llm.envelopes import parse_object
from butlers.sessions import spool

# Memory need not hold more of a transcript, or of a line that ends nowhere.
PIECE_BYTES, MAX_LINE_BYTES = 16 * 1024**2, 32 * 1024**2
STALE_SECONDS = 3_600
_UNFINISHED_TIMES = 12
_MOST_READ = 20_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A session that left something in the spool; `file` is its entry."""

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
        """Whether nobody has said that it ended."""
        return self.mark == spool.OPEN

    @property
    def transcript(self) -> Path | None:
        """Its transcript: where the agent has it, else under its second name; None if gone.

        Of two that differ the longer one, for an agent may write its file anew.
        """
        named = (Path(str(self.told.get("path", ""))), self.file.parent / self._held)
        found = [file for file in named if file.is_file()]
        return max(found, key=lambda file: file.stat().st_size, default=None)

    @property
    def _held(self) -> str:
        # A name and nothing else: an entry may have been tampered with.
        return os.path.basename(str(self.told.get("held") or "")) or "."

    @property
    def held(self) -> Path | None:
        """The second name of its transcript, if it has one."""
        held = self.file.parent / self._held
        return held if held.is_file() else None

    def is_due(self, now: float, idle_seconds: float) -> bool:
        """Whether it ended, or nothing was heard of it for so long that it must have."""
        if not self.is_under_way:
            return True
        patience = idle_seconds * (1 if self.told.get("event") == "Stop" else _UNFINISHED_TIMES)
        transcript = self.transcript
        touched_at = transcript.stat().st_mtime if transcript else 0.0
        return max(self.left_at, touched_at) + patience <= now


class SpoolEntries:
    """The spool of a home, which only the process that serves the home takes from."""

    def __init__(self, home: Path) -> None:
        self._spool = home / spool.DIRECTORY
        self._aside = self._spool / spool.ASIDE

    @property
    def changed_at(self) -> int:
        """When something was last added or taken, in nanoseconds; 0 while nothing ever was."""
        try:
            return self._spool.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def arrivals(self) -> list[Arrival]:
        """Everything that waits, what came first before the rest."""
        return sorted(_entries(self._spool), key=lambda one: (one.left_at, one.file))

    @property
    def has_room(self) -> bool:
        """Whether one more may wait."""
        return spool.has_room(str(self._spool), 0)

    def leave(self, told: dict[str, Any]) -> None:
        """Add a session whose transcript is where its agent has it."""
        self._spool.mkdir(mode=0o700, exist_ok=True)
        name = spool.entry_name(told["butler"], told["session"], spool.fresh())
        spool.write_entry(str(self._spool), name, {**told, "held": ""}, lasting=True)

    def begin(self, arrival: Arrival) -> Arrival:
        """Take an entry, counting the try before it is made: it may be the end of the process."""
        mark = spool.fresh() if arrival.is_under_way else arrival.mark
        return self._renamed(replace(arrival, mark=mark, tries=arrival.tries + 1))

    def put_back(self, arrival: Arrival) -> None:
        """Leave an entry as if it had not been tried."""
        self._renamed(replace(arrival, tries=arrival.tries - 1))

    def _renamed(self, arrival: Arrival) -> Arrival:
        name = spool.entry_name(arrival.butler, arrival.session, f"{arrival.mark}.{arrival.tries}")
        return replace(arrival, file=arrival.file.rename(self._spool / name))

    def done(self, arrival: Arrival) -> None:
        """Remove an entry that is stored, before what it names."""
        held = arrival.held
        arrival.file.unlink()
        if held is not None:
            held.unlink(missing_ok=True)

    def set_aside(self, arrival: Arrival, why: str) -> None:
        """Try an entry no more, and keep it: back in the spool it is tried again."""
        self._aside.mkdir(mode=0o700, exist_ok=True)
        name = spool.entry_name(arrival.butler, arrival.session, arrival.mark)
        if arrival.held is not None:
            arrival.held.rename(self._aside / arrival.held.name)
        if not arrival.told:  # whatever it says may still help somebody
            os.link(arrival.file, self._aside / f"{name}.damaged")
        replace_file(self._aside / name, json.dumps({**arrival.told, "why": why}))
        arrival.file.unlink()

    def sweep(self, now: float) -> None:
        """Remove what a hook that was killed left half done."""
        held = {one.held for one in _entries(self._spool)}
        for file in self._spool.iterdir() if self._spool.exists() else ():
            half_done = file.name.startswith(".") or spool.HELD in file.name
            if half_done and file not in held and file.lstat().st_ctime + STALE_SECONDS < now:
                file.unlink()

    def read_before(self) -> dict[str, int]:
        """How many bytes of each session were read; losing this costs time and nothing else."""
        found = spool.read_entry(str(self._spool / "read"))
        return {key: size for key, size in found.items() if isinstance(size, int)}

    def remember_read(self, read: dict[str, int]) -> None:
        """Write down how much of each session was read, the newest."""
        newest = dict(list(read.items())[-_MOST_READ:])
        replace_file(self._spool / "read", json.dumps(newest))

    def set_aside_before(self) -> list[Arrival]:
        """What is tried no more, and kept."""
        return list(_entries(self._aside))


def pieces(transcript: Path) -> Iterator[str]:
    """A transcript from its beginning to its end, in pieces of whole lines."""
    with transcript.open("rb") as stream:
        piece = bytearray()
        for line in iter(partial(stream.readline, MAX_LINE_BYTES), b""):
            piece += line
            if len(piece) >= PIECE_BYTES:
                yield piece.decode("utf-8", "replace")
                piece.clear()
        if piece:
            yield piece.decode("utf-8", "replace")


def _entries(directory: Path) -> Iterator[Arrival]:
    """The entries of a directory in the order of their names; one that is damaged says nothing."""
    with contextlib.suppress(FileNotFoundError):
        for file in sorted(directory.iterdir()):
            if file.name.endswith(spool.ENTRY) and file.name.count("~") == 2:
                with contextlib.suppress(FileNotFoundError):  # its session just ended
                    yield _entry(file)


def _entry(file: Path) -> Arrival:
    butler, session, mark = file.name.removesuffix(spool.ENTRY).split("~")
    mark, _, tries = mark.partition(".")
    count = int(tries) if tries.isdecimal() else 0
    left_at = file.stat().st_mtime
    return Arrival(file, butler, session, mark, count, left_at, spool.read_entry(str(file)))


RECENT_DAYS = 7
_SHOWN_ASIDE = 5


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Something of sessions that somebody should know, and what to do about it."""

    what: str
    count: int
    words: str
    remedy: str


def shortfalls(home: Path, now: datetime) -> list[Shortfall]:
    """Everything there is to tell of a home, the worst first; often nothing."""
    try:
        return [one for one in _all(home, now) if one.count]
    except OSError as error:
        words = f"{error.filename} cannot be read ({error.strerror})"
        return [Shortfall("not known", 1, words, "make it a directory that you can read")]


def _all(home: Path, now: datetime) -> list[Shortfall]:
    since, waiting = now - timedelta(days=RECENT_DAYS), _count_waiting(home)
    return [
        _set_aside(home),
        _refused(_notes(home / spool.DIRECTORY / spool.REFUSED, since)),
        _without_memory(_notes(home / spool.WITHOUT_MEMORY, since)),
        waiting,
    ]


def _count_waiting(home: Path) -> Shortfall:
    left = [one.left_at for one in SpoolEntries(home).arrivals() if not one.is_under_way]
    oldest_at = datetime.fromtimestamp(min(left, default=0.0), UTC)
    words = f"{_sessions(len(left))} to be stored, the oldest since {oldest_at:%Y-%m-%d %H:%M} UTC"
    remedy = "`butlers up` stores them; if it runs, `butlers logs` says what keeps it"
    return Shortfall("waiting", len(left), words, remedy)


def _set_aside(home: Path) -> Shortfall:
    aside = SpoolEntries(home).set_aside_before()
    told = [f"{one.session} of {one.butler}: {one.told.get('why')}" for one in aside]
    more = ["…"] if len(told) > _SHOWN_ASIDE else []
    words = f"{_sessions(len(aside))} ({'; '.join([*told[:_SHOWN_ASIDE], *more])})"
    place = home / spool.DIRECTORY
    remedy = f"mend the cause and move their files from {place / spool.ASIDE} to {place}"
    return Shortfall("set aside", len(aside), words, remedy)


def _refused(notes: list[dict[str, Any]]) -> Shortfall:
    words = f"{_sessions(len(notes))} in {RECENT_DAYS} days, {_last(notes)}"
    remedy = "see what waits and why; while agents keep their transcripts, these are found later"
    return Shortfall("refused", len(notes), words, remedy)


def _without_memory(notes: list[dict[str, Any]]) -> Shortfall:
    words = f"{_sessions(len(notes))} in {RECENT_DAYS} days, {_last(notes)}"
    remedy = "`butlers service install` keeps the butlers up; `butlers doctor` looks for the rest"
    return Shortfall("started without memory", len(notes), words, remedy)


def _sessions(count: int) -> str:
    return f"{count} session" + ("s" if count != 1 else "")


def _last(notes: list[dict[str, Any]]) -> str:
    last = notes[-1] if notes else {}
    return f"the last at {last.get('at')}: {last.get('why')}"


def _notes(file: Path, since: datetime) -> list[dict[str, Any]]:
    """The notes since an instant, the oldest first; a line that is cut is passed over."""
    with suppress(FileNotFoundError):
        lines = file.read_text("utf-8", "replace").splitlines()
        notes = [note for note in map(parse_object, lines) if note]
        return [note for note in notes if str(note.get("at")) >= since.isoformat("T", "seconds")]
    return []
