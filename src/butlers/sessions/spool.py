"""The spool: files by which hooks hand sessions to the daemon.

An entry names a session and its transcript; beside it is a hard link to the transcript, in case
the agent deletes its own. Nothing is locked: hooks add entries and replace that of a session
under way, only the daemon removes them. The hook imports this, so it imports very little.
"""

import contextlib
import json
import os
import signal
import stat
from typing import Any

from butlers.clock import utc_now

MAX_ENTRIES = 2_000
MAX_BYTES = 2 * 1024**3
"""How much the spool holds; when it is full, new sessions are refused, and that is noted."""

MAX_NOTES_BYTES = 64 * 1024
DIRECTORY, ASIDE, REFUSED = "spool", "aside", "refused.jsonl"
WITHOUT_MEMORY = os.path.join("hooks", "without-memory.jsonl")
ENTRY, HELD, OPEN = ".json", ".held", "open"

_PIECE_BYTES = 1024 * 1024
_COPYING_SECONDS = 300
_PRIVATE, _PRIVATE_DIRECTORY = 0o600, 0o700


def keep(home: str, told: dict[str, Any], *, ended: bool) -> str:
    """Write the entry of a session; return its name, or "" if nothing was written.

    `told` has butler, session, cwd, project, path and event. The next entry of a session under way
    replaces it; that of an ended session stays until the daemon has stored it.
    """
    spool, path = os.path.join(home, DIRECTORY), told["path"]
    size = _size(path)
    if not _is_word(told["butler"]) or not _is_word(told["session"]) or (ended and size is None):
        return ""
    os.makedirs(spool, _PRIVATE_DIRECTORY, exist_ok=True)
    under_way = entry_name(told["butler"], told["session"], OPEN)
    known = read_entry(os.path.join(spool, under_way))
    if not ended and _holds(spool, known, path):
        write_entry(spool, under_way, {**told, "held": known["held"]})
        return under_way
    if not has_room(spool, size or 0):
        _note_refusal(home, told, size or 0, ended)
        return ""
    name = entry_name(told["butler"], told["session"], fresh()) if ended else under_way
    _write_holding(spool, name, told, lasting=ended)
    if ended:
        _remove(os.path.join(spool, under_way))
    if known.get("held"):
        _remove(os.path.join(spool, known["held"]))
    return name


def entry_name(butler: str, session: str, mark: str) -> str:
    """Return the file name of an entry; the mark is OPEN, or unique once the session ended."""
    return f"{butler}~{session}~{mark}{ENTRY}"


def fresh() -> str:
    """Return a unique mark."""
    return os.urandom(6).hex()


def read_entry(path: str) -> dict[str, Any]:
    """Read an entry; {} if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            entry = json.load(file)
    except (OSError, ValueError):
        return {}
    return entry if isinstance(entry, dict) else {}


def note(file: str, told: dict[str, Any]) -> None:
    """Append a line to a file of notes; the oldest are dropped when it is full."""
    line = json.dumps({"at": utc_now().isoformat(timespec="seconds"), **told}) + "\n"
    if (_size(file) or 0) > MAX_NOTES_BYTES:
        with open(file, encoding="utf-8") as notes:
            newest = notes.readlines()
        _replace(file, "".join(newest[len(newest) // 2 :]))
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _PRIVATE)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def detached(seconds: float) -> bool:
    """Fork a process that outlives the agent; return whether this is the child."""
    if os.fork():
        return False
    os.setsid()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # else the agent would wait for their end
        os.dup2(nowhere, stream)
    return True


def _write_holding(spool: str, name: str, told: dict[str, Any], *, lasting: bool) -> None:
    """Write an entry and link its transcript; where that fails, a child process copies it."""
    path, held = told["path"], f"{told['butler']}~{told['session']}~{fresh()}{HELD}"
    place = os.path.join(spool, held)
    linked = False
    with contextlib.suppress(OSError):  # another file system, or not written yet
        os.link(path, place)
        linked = True
    copied = not linked and lasting
    try:
        entry = {**told, "held": held if linked or copied else ""}
        write_entry(spool, name, entry, lasting=lasting)
    except OSError:
        _remove(place)
        raise
    if copied and detached(_COPYING_SECONDS):
        try:
            _copy(path, place, os.path.join(spool, name))
        finally:
            os._exit(0)


def _copy(path: str, place: str, entry: str) -> None:
    draft = f"{place}.{fresh()}"
    try:
        with open(path, "rb") as source, open(os.open(draft, _NEW, _PRIVATE), "wb") as copy:
            while piece := source.read(_PIECE_BYTES):
                copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())
        if os.path.exists(entry):  # else it was stored meanwhile
            os.rename(draft, place)
    finally:
        _remove(draft)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def write_entry(spool: str, name: str, entry: dict[str, Any], *, lasting: bool = False) -> None:
    """Write an entry atomically; if lasting, it is on the disk when this returns."""
    _replace(os.path.join(spool, name), json.dumps(entry), lasting=lasting)
    if lasting:
        directory = os.open(spool, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _replace(file: str, text: str, *, lasting: bool = False) -> None:
    draft = os.path.join(os.path.dirname(file), f".{fresh()}")
    try:
        with open(os.open(draft, _NEW, _PRIVATE), "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            if lasting:
                os.fsync(stream.fileno())
        os.rename(draft, file)
    except OSError:
        _remove(draft)
        raise


def _holds(spool: str, known: dict[str, Any], path: str) -> bool:
    """Whether the entry has a link to this transcript."""
    try:
        return bool(known["held"]) and os.path.samefile(os.path.join(spool, known["held"]), path)
    except (KeyError, OSError):
        return False


def has_room(spool: str, size: int) -> bool:
    """Whether the spool takes an entry with a transcript of this size; entries set aside count."""
    entries = 0
    for directory in (spool, os.path.join(spool, ASIDE)):
        with contextlib.suppress(FileNotFoundError), os.scandir(directory) as files:
            for file in files:
                entries += file.name.endswith(ENTRY)
                size += _size(file.path) or 0
    return entries < MAX_ENTRIES and size <= MAX_BYTES


def _note_refusal(home: str, told: dict[str, Any], size: int, ended: bool) -> None:
    if ended:
        why = f"the spool is full ({MAX_ENTRIES} sessions or {MAX_BYTES // 1024**2} MB)"
        refused = {"butler": told["butler"], "session": told["session"], "path": told["path"]}
        note(os.path.join(home, DIRECTORY, REFUSED), {**refused, "bytes": size, "why": why})


def _size(path: str) -> int | None:
    """Return the size of a regular file; None for anything else."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _is_word(text: str) -> bool:
    """Whether a name is safe as part of a file name."""
    word = text.replace("-", "").replace("_", "")
    return len(text) <= 100 and word.isascii() and word.isalnum()
