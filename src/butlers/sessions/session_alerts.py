"""What people are told of sessions: those that wait, were set aside, refused, or went without."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from butlers.llm.envelopes import parse_object
from butlers.sessions import spool
from butlers.sessions.spool_entries import SpoolEntries

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
