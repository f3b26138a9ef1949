"""The spool: files by which hooks hand sessions to the daemon.

An entry names a session and its transcript; beside it is a hard link to the transcript, in case
the agent deletes its own. Of a session with something private there is no link, and at its end a
copy without it. Nothing is locked: hooks add entries and replace that of a session
under way, only the daemon removes them. The hook imports this, so it imports very little.
"""

import contextlib
import errno
import json
import os
import signal
import stat
from binascii import crc32
from collections.abc import Callable, Iterator
from typing import IO, Any

from butlers.clock import utc_now

MAX_ENTRIES = 2_000
MAX_BYTES = 2 * 1024**3
"""How much the spool holds; when it is full, new sessions are refused, and that is noted."""

MAX_NOTES_BYTES, MAX_BEGUN_BYTES = 64 * 1024, 1024**2
DIRECTORY, ASIDE, REFUSED = "spool", "aside", "refused.jsonl"
WITHOUT_MEMORY = os.path.join("hooks", "without-memory.jsonl")
BEGUN = os.path.join("hooks", "begun.jsonl")
"""The ledger of sessions that began; which were stored, the file `read` of the spool says."""

RESERVE, RESERVE_BYTES = "reserve", 128 * 1024
"""A file of the home that is given back when a session ends on a full disk."""

ENTRY, HELD, OPEN = ".json", ".held", "open"

_CHECKSUM = "checksum"
_PIECE_BYTES = 1024 * 1024
_COPYING_SECONDS = 300
_PRIVATE, _PRIVATE_DIRECTORY = 0o600, 0o700
WriteCopy = Callable[[dict[str, Any], IO[bytes]], None]
"""Writes what may be stored of an entry's transcript."""


def keep(
    home: str, entry: dict[str, Any], *, ended: bool, write_copy: WriteCopy | None = None
) -> str:
    """Write the entry of a session; return its name, or "" if nothing was written.

    `entry` has butler, session, cwd, project, path and event. With `write_copy` its transcript is
    not linked, because something in it is private, but copied at its end by that function.
    """
    try:
        return _keep(home, entry, ended, write_copy)
    except OSError as error:
        if not ended or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _remove(os.path.join(home, RESERVE))  # so that there is room
        return _keep(home, entry, ended, write_copy)


def make_reserve(home: str) -> None:
    """Reserve some of the disk, unless it is reserved already or there is no room."""
    file = os.path.join(home, RESERVE)
    if _size(file) is None:
        with contextlib.suppress(OSError), _draft_of(file, lasting=True) as draft:
            draft.write(os.urandom(RESERVE_BYTES))  # zeros may take no room


def _keep(home: str, entry: dict[str, Any], ended: bool, write_copy: WriteCopy | None) -> str:
    spool, path = os.path.join(home, DIRECTORY), entry["path"]
    size = _size(path)
    if not is_word(entry["butler"]) or not is_word(entry["session"]) or (ended and size is None):
        return ""
    os.makedirs(spool, _PRIVATE_DIRECTORY, exist_ok=True)
    under_way = entry_name(entry["butler"], entry["session"], OPEN)
    known = read_entry(os.path.join(spool, under_way))
    if write_copy:
        drop_links(home, entry["butler"], entry["session"])
    if not ended and _holds(spool, known, path):
        write_entry(spool, under_way, {**entry, "held": known["held"]})
        return under_way
    if not has_room(spool, size or 0):
        _note_refusal(home, entry, size or 0, ended)
        return ""
    name = entry_name(entry["butler"], entry["session"], fresh()) if ended else under_way
    _write_holding(spool, name, entry, write_copy, lasting=ended)
    if ended:
        _remove(os.path.join(spool, under_way))
    if known.get("held"):
        _remove(os.path.join(spool, known["held"]))
    return name


def under_way_file(home: str, butler: str, session: str) -> str:
    """Return the path of the entry of a session under way."""
    return os.path.join(home, DIRECTORY, entry_name(butler, session, OPEN))


def drop_links(home: str, butler: str, session: str) -> None:
    """Remove every link to, and copy of, the transcript of a session."""
    if read_entry(under_way_file(home, butler, session)).get("text"):
        return  # of which only what is public was written
    for directory in (os.path.join(home, DIRECTORY), os.path.join(home, DIRECTORY, ASIDE)):
        with contextlib.suppress(OSError), os.scandir(directory) as files:
            for file in files:
                if file.name.startswith(f"{butler}~{session}~") and file.name.endswith(HELD):
                    _remove(file.path)


def drop_all_links(home: str) -> None:
    """Remove every link to a file of an agent, to which it may add what is private."""
    with contextlib.suppress(OSError), os.scandir(os.path.join(home, DIRECTORY)) as files:
        for file in files:
            if file.name.endswith(HELD) and os.stat(file.path).st_nlink > 1:
                _remove(file.path)


def entry_name(butler: str, session: str, mark: str) -> str:
    """Return the file name of an entry; the mark is OPEN, or unique once the session ended."""
    return f"{butler}~{session}~{mark}{ENTRY}"


def fresh() -> str:
    """Return a unique mark."""
    return os.urandom(6).hex()


def read_entry(path: str) -> dict[str, Any]:
    """Read an entry; {} if it cannot be read or is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            entry = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(entry, dict):
        return {}
    # Entries of earlier versions have no checksum.
    checksum = entry.pop(_CHECKSUM, None)
    return entry if checksum in (None, _checksum(entry)) else {}


def _checksum(entry: dict[str, Any]) -> int:
    return crc32(json.dumps(entry).encode())


def note(file: str, entry: dict[str, Any], most_bytes: int = MAX_NOTES_BYTES) -> None:
    """Append a line to a file of notes; the oldest are dropped when it is full."""
    line = json.dumps({"at": utc_now().isoformat(timespec="seconds"), **entry}) + "\n"
    if (_size(file) or 0) > most_bytes:
        with open(file, encoding="utf-8", errors="replace") as notes:
            newest = notes.readlines()
        with _draft_of(file) as draft:
            draft.writelines(note.encode() for note in newest[len(newest) // 2 :])
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _PRIVATE)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def note_begun(home: str, butler: str, session: str, path: str, *, prompted: bool) -> None:
    """Note in the ledger that a session began, or had its first prompt."""
    begun = {"butler": butler, "session": session, "path": path, "prompted": prompted}
    with contextlib.suppress(OSError):
        note(os.path.join(home, BEGUN), begun, MAX_BEGUN_BYTES)


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


def _write_holding(
    spool: str, name: str, entry: dict[str, Any], write_copy: WriteCopy | None, *, lasting: bool
) -> None:
    """Write an entry and link its transcript; where that fails, a child process copies it."""
    path, held = entry["path"], f"{entry['butler']}~{entry['session']}~{fresh()}{HELD}"
    link = os.path.join(spool, held)
    linked = False
    with contextlib.suppress(OSError):  # another file system, or not written yet
        if not write_copy:
            os.link(path, link)
            linked = True
    copied = not linked and lasting
    try:
        written = {**entry, "held": held if linked or copied else ""}
        write_entry(spool, name, written, lasting=lasting)
    except OSError:
        _remove(link)
        raise
    if copied and detached(_COPYING_SECONDS):
        try:
            with _draft_of(link, lasting=True) as copy:
                (write_copy or copy_whole)(entry, copy)
                os.stat(os.path.join(spool, name))  # fails if it was stored meanwhile
        finally:
            os._exit(0)


def copy_whole(entry: dict[str, Any], copy: IO[bytes]) -> None:
    """Copy the transcript of a session."""
    with open(entry["path"], "rb") as source:
        while piece := source.read(_PIECE_BYTES):
            copy.write(piece)


def write_entry(spool: str, name: str, entry: dict[str, Any], *, lasting: bool = False) -> None:
    """Write an entry atomically; if lasting, it is on the disk when this returns."""
    with _draft_of(os.path.join(spool, name), lasting=lasting) as draft:
        draft.write(json.dumps({**entry, _CHECKSUM: _checksum(entry)}).encode())
    if lasting:
        directory = os.open(spool, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextlib.contextmanager
def _draft_of(file: str, *, lasting: bool = False) -> Iterator[IO[bytes]]:
    """Open a draft that replaces a file at the end, or is removed on an error."""
    draft = os.path.join(os.path.dirname(file), f".{fresh()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with open(os.open(draft, flags, _PRIVATE), "wb") as stream:
            yield stream
            stream.flush()
            if lasting:
                os.fsync(stream.fileno())
        os.rename(draft, file)
    except BaseException:
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


def _note_refusal(home: str, entry: dict[str, Any], size: int, ended: bool) -> None:
    if ended:
        why = f"the spool is full ({MAX_ENTRIES} sessions or {MAX_BYTES // 1024**2} MB)"
        refused = {"butler": entry["butler"], "session": entry["session"], "path": entry["path"]}
        note(os.path.join(home, DIRECTORY, REFUSED), {**refused, "bytes": size, "why": why})


def _size(path: str) -> int | None:
    """Return the size of a regular file; None for anything else."""
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return status.st_size if stat.S_ISREG(status.st_mode) else None
    return None


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def is_word(text: str) -> bool:
    """Whether a name is safe as part of a file name."""
    word = text.replace("-", "").replace("_", "")
    return len(text) <= 100 and word.isascii() and word.isalnum()
