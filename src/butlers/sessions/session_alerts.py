"""Sessions of a home that were not stored or had no memory, and what to do about them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from butlers.sessions import spool
from butlers.sessions.privacy import is_left_out
from butlers.sessions.spool_entries import RECENT_DAYS, Arrival, SpoolEntries, notes_since

PROMPT = "UserPromptSubmit"
"""The event of a hook that went without memory at a prompt; any other is a start."""
_SHOWN_ASIDE = 5


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Sessions that were not stored or had no memory, and what to do about it."""

    what: str
    count: int
    words: str
    remedy: str


def shortfalls(home: Path, now: datetime) -> list[Shortfall]:
    """List what is wrong with the sessions of a home, the worst first; often nothing."""
    try:
        return [alert for alert in _alerts(home, now) if alert.count]
    except OSError as error:
        words = f"{error.filename} cannot be read ({error.strerror})"
        return [Shortfall("not known", 1, words, "make it a directory that you can read")]


def _alerts(home: Path, now: datetime) -> Iterator[Shortfall]:
    entries, directory = SpoolEntries(home), home / spool.DIRECTORY
    since = now - timedelta(days=RECENT_DAYS)
    waiting = entries.arrivals()
    yield _set_aside(entries.set_aside_before(), directory)
    remedy = "find out why sessions wait; these are found again while agents keep their transcripts"
    yield _noted("refused", notes_since(directory / spool.REFUSED, since), remedy)
    never = missing_sessions(home, now)
    words = (
        f"{_sessions(never)} that began more than a day ago; `butlers sessions missing` lists them"
    )
    remedy = "connect their agent again, so that its transcripts are found: `butlers connect`"
    yield Shortfall("never stored", len(never), words, remedy)
    remedy = "`butlers service install` keeps the daemon running; `butlers doctor` checks the rest"
    notes = notes_since(home / spool.WITHOUT_MEMORY, since)
    prompts = [note for note in notes if note.get("event") == PROMPT]
    starts = [note for note in notes if note.get("event") != PROMPT]
    yield _noted("started without memory", starts, remedy)
    yield _noted("prompts without memory", prompts, remedy, "prompt")
    yield _waiting(waiting)


def missing_sessions(home: Path, now: datetime) -> list[dict[str, Any]]:
    """List the sessions that began more than a day ago, had a prompt, and were never stored.

    A session without a prompt counts if its transcript is there.
    """
    entries, missing = SpoolEntries(home), dict[str, Any]()
    listed = [*entries.arrivals(), *entries.set_aside_before()]
    known = {*entries.read_before(), *(entry.key for entry in listed)}
    before = (now - timedelta(days=1)).isoformat("T", "seconds")
    for note in notes_since(home / spool.BEGUN, now - timedelta(days=RECENT_DAYS)):
        key = f"{note.get('butler')}~{note.get('session')}"
        if key not in known and str(note["at"]) < before and _is_missing(home, note):
            missing.setdefault(key, note)
    return list(missing.values())


def _is_missing(home: Path, note: dict[str, Any]) -> bool:
    """Whether there was anything to store; says in the note where its transcript is."""
    file = Path(str(note.get("path")))
    note["transcript"] = str(file) if file.is_file() and file.stat().st_size else ""
    about = {**note, "cwd": "", "project": None}
    return bool(note["transcript"] or note.get("prompted")) and not is_left_out(str(home), about)


def _waiting(entries: list[Arrival]) -> Shortfall:
    left = [entry.left_at for entry in entries if not entry.is_under_way]
    oldest_at = datetime.fromtimestamp(min(left, default=0.0), UTC)
    words = f"{_sessions(left)} to be stored, the oldest since {oldest_at:%Y-%m-%d %H:%M} UTC"
    remedy = "`butlers up` stores them; if it runs, `butlers logs` says why it does not"
    return Shortfall("waiting", len(left), words, remedy)


def _set_aside(entries: list[Arrival], directory: Path) -> Shortfall:
    causes = [f"{entry.session} of {entry.butler}: {entry.told.get('why')}" for entry in entries]
    causes[_SHOWN_ASIDE:] = ["…"] if len(causes) > _SHOWN_ASIDE else []
    words = f"{_sessions(entries)} ({'; '.join(causes)})"
    aside = directory / spool.ASIDE
    remedy = f"nothing deletes them; fix the cause and try again: mv {aside}/*SESSION* {directory}"
    remedy += f"; or discard: rm {aside}/*SESSION*"
    return Shortfall("set aside", len(entries), words, remedy)


def _noted(what: str, notes: list[dict[str, Any]], remedy: str, unit: str = "session") -> Shortfall:
    last = notes[-1] if notes else {}
    words = f"{_sessions(notes, unit)} in {RECENT_DAYS} days, "
    words += f"the last at {last.get('at')}: {last.get('why')}"
    return Shortfall(what, len(notes), words, remedy)


def _sessions(listed: list[Any], unit: str = "session") -> str:
    return f"{len(listed)} {unit}" + ("s" if len(listed) != 1 else "")
