"""When memory was paused in a home, and when single sessions were private; hooks read it.

`pauses.json` has the pauses of the home and its projects. A file of `hooks/private` has the times
in which one session was private, by its id and without a word of it, so that sessions that no hook
may report are not stored later by catching up.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import Any

from butlers.clock import utc_now
from butlers.sessions.spool import is_word, read_entry, write_entry

FILE, MARKS = "pauses.json", os.path.join("hooks", "private")
MAX_PAUSES = 500
MARK_DAYS = 400
"""How long the mark of a session is kept; agents delete their transcripts earlier."""
EARLIER_SECONDS = 2.0
"""A prompt is written down a moment before its hook runs."""
Window = tuple[float, float]
Mark = dict[str, Any]
FOREVER = float("inf")
_ALL = {"keys": (), "name": "", "since": 0.0, "until": None}


def read_pauses(home: str) -> list[dict[str, Any]]:
    """List the pauses of a home, ended ones included: project keys, name, since, until."""
    file = os.path.join(home, FILE)
    if not os.path.exists(file):
        return []
    listed = read_entry(file).get("pauses")
    # Damaged, it may have held anything.
    return listed if isinstance(listed, list) else [dict(_ALL)]


def add_pause(home: str, project: dict[str, Any] | None, until: float | None) -> None:
    """Pause a home, or one of its projects, from now on; a running pause of the same ends."""
    end_pauses(home, project)
    about = project or {"keys": [], "name": ""}
    new = {
        "keys": about["keys"],
        "name": about["name"],
        "since": utc_now().timestamp(),
        "until": until,
    }
    write_entry(home, FILE, {"pauses": _bounded([*read_pauses(home), new])}, lasting=True)


def end_pauses(home: str, project: dict[str, Any] | None) -> int:
    """End the running pauses of a project, or all; return how many there were."""
    now, pauses, ended = utc_now().timestamp(), read_pauses(home), 0
    for pause in pauses:
        ours = project is None or set(pause["keys"]) & set(project["keys"])
        if ours and (pause["until"] is None or pause["until"] > now):
            pause["until"], ended = now, ended + 1
    if ended:
        write_entry(home, FILE, {"pauses": pauses}, lasting=True)
    return ended


def current_pause(home: str, keys: Iterable[str]) -> dict[str, Any] | None:
    """Return the pause that holds now for a project with these keys; None if there is none."""
    now = utc_now().timestamp()
    return next((row for row in _covering(home, keys) if _window(row)[1] > now), None)


def pause_windows(home: str, keys: Iterable[str]) -> list[Window]:
    """List when a project was paused."""
    return [_window(row) for row in _covering(home, keys)]


def read_mark(home: str, session: str) -> Mark:
    """Read the mark of a session: `off` (times), `words` and `turn` (whether private now)."""
    return read_entry(os.path.join(home, MARKS, session)) if is_word(session) else {}


def write_mark(home: str, session: str, mark: Mark) -> None:
    """Write the mark of a session; a session without a usable id has none."""
    if is_word(session):
        directory = os.path.join(home, MARKS)
        os.makedirs(directory, 0o700, exist_ok=True)
        write_entry(directory, session, mark)


def switch_off(home: str, session: str) -> None:
    """Mark a session as private from now on."""
    mark = read_mark(home, session)
    off = mark.get("off") or []
    if not off or off[-1][1] is not None:
        off.append([utc_now().timestamp() - EARLIER_SECONDS, None])
        write_mark(home, session, {**mark, "off": off})


def switch_on(home: str, session: str, mark: Mark) -> None:
    """End the private time of a session, if one is open."""
    off = mark.get("off") or []
    if off and off[-1][1] is None:
        off[-1][1] = utc_now().timestamp() - EARLIER_SECONDS
        write_mark(home, session, {**mark, "off": off})


def mark_windows(mark: Mark) -> list[Window]:
    """List when a session was private."""
    return [(since, FOREVER if until is None else until) for since, until in mark.get("off") or []]


def sweep_marks(home: str, now: float) -> None:
    """Remove the marks of sessions that no agent has any more."""
    with contextlib.suppress(FileNotFoundError), os.scandir(os.path.join(home, MARKS)) as marks:
        for mark in marks:
            if mark.stat().st_mtime + MARK_DAYS * 86_400 < now:
                os.unlink(mark.path)


def _covering(home: str, keys: Iterable[str]) -> list[dict[str, Any]]:
    own = set(keys)
    return [row for row in read_pauses(home) if not row["keys"] or own & set(row["keys"])]


def _window(pause: dict[str, Any]) -> Window:
    return pause["since"], FOREVER if pause["until"] is None else pause["until"]


def _bounded(pauses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the oldest pauses into one of the whole home, so that nothing in them is stored."""
    extra = len(pauses) - MAX_PAUSES
    if extra <= 0:
        return pauses
    joined, rest = pauses[: extra + 1], pauses[extra + 1 :]
    ends = [row["until"] for row in joined if row["until"] is not None]
    first = {"keys": [], "name": "", "since": min(row["since"] for row in joined)}
    return [first | {"until": max(ends, default=None)}, *rest]
