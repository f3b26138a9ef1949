"""SQLite: one file, one connection, named statements, errors of `butlers.errors`.

Threads may share a `SqliteDatabase`: every statement and every transaction holds its lock, so none
reads into another's open transaction. Processes open the file each for themselves; readers
never wait (WAL), writers queue for the write lock. A connection must not be carried over a fork.
"""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from butlers.db.queries import NamedQuery
from butlers.errors import ButlersError, IntegrityViolation, InvalidInput, Unavailable

Row = tuple[Any, ...]
Value = str | int | float | None
Stamp = tuple[int, int]
T = TypeVar("T")

MEMORY = ":memory:"
BUSY_TIMEOUT_MS = 5_000
PATIENCE_SECONDS = 60.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked; try again, or end that process",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked; try again, or end that process",
    sqlite3.SQLITE_READONLY: "make the file and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "check that the directory exists and may be entered",
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_IOERR: "the disk failed; check it",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; name another one",
}


# Until it is closed again, no other connection of this process may lock a file just made.
_creating = threading.Lock()


class MissingTable(Unavailable):
    """The database has no such table."""


class SqliteDatabase:
    """An open SQLite file: foreign keys on, write-ahead log, writers wait for each other."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.lock = threading.RLock()
        self._probe = connection.cursor().execute
        self._rollbacks = 0

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        with self.lock:
            self.connection.close()

    def fetch(self, query: NamedQuery, **values: Value) -> list[Row]:
        """Return every row."""
        return self._run(query.text, values)

    def fetch_one(self, query: NamedQuery, **values: Value) -> Row | None:
        """Return the first row, or None."""
        rows = self._run(query.text, values)
        return rows[0] if rows else None

    def execute(self, query: NamedQuery, **values: Value) -> None:
        """Run for its effect."""
        self._run(query.text, values)

    def execute_many(self, query: NamedQuery, rows: Iterable[dict[str, Value]]) -> None:
        """Run once per row of values."""
        with self.lock, translated_errors():
            self.connection.executemany(query.text, rows)

    def transaction(self) -> AbstractContextManager[None]:
        """Open a write transaction, or join the open one.

        Takes the write lock at the start: later it would fail if somebody else wrote in between.
        """
        return self._span(self._begin_writing)

    def snapshot(self) -> AbstractContextManager[None]:
        """Open a read transaction: all reads see one moment, and nobody waits for it."""
        return self._span(lambda: self._run("begin"))

    def _begin_writing(self) -> None:
        """Take the write lock; asking often and at random is quicker than SQLite's own waiting."""
        self._run("pragma busy_timeout = 0")
        try:
            _retry_while_locked(lambda: self._run("begin immediate"))
        finally:
            self._run(f"pragma busy_timeout = {BUSY_TIMEOUT_MS}")

    @contextmanager
    def _span(self, begin: Callable[[], object]) -> Iterator[None]:
        with self.lock:
            if self._in_transaction():
                yield
                return
            begin()
            try:
                yield
                self._run("commit")
            except BaseException:
                # A full disk, for example, has already rolled back.
                if self._in_transaction():
                    self._run("rollback")
                self._rollbacks += 1
                raise

    def stamp(self) -> Stamp:
        """Return a value that differs whenever the data may have changed since the last call.

        `data_version` sees the commits of every other connection, in this process or another;
        `total_changes` sees the changes made through this one, which a rollback takes back.
        """
        # Every recall from a cache asks this first: a context would take half as long again.
        try:
            version = self._probe("pragma data_version").fetchone()[0]
            return version, self.connection.total_changes + self._rollbacks
        except sqlite3.Error as error:
            raise _translated(error) from error

    def _in_transaction(self) -> bool:
        with translated_errors():
            return self.connection.in_transaction

    def _run(self, text: str, values: Mapping[str, Value] | None = None) -> list[Row]:
        with self.lock, translated_errors():
            return self.connection.execute(text, values or {}).fetchall()


def connect(path: Path | str) -> SqliteDatabase:
    """Open or create a file that only its owner may read; `:memory:` is a private one."""
    if str(path) != MEMORY:
        with _creating:
            _create(Path(path))
    with translated_errors():
        connection = sqlite3.connect(
            path,
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
    try:
        _retry_while_locked(lambda: _configure(connection))
    except BaseException:
        connection.close()
        raise
    return SqliteDatabase(connection)


def check(path: Path) -> None:
    """Check that a file is a whole database; Unavailable otherwise. Only reads."""
    with translated_errors():
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            (found,) = connection.execute("pragma quick_check(1)").fetchone()
        finally:
            connection.close()
    if found != "ok":
        raise Unavailable(f"{path}: {found}; {_ADVICE[sqlite3.SQLITE_CORRUPT]}")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate driver errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(error) from error


def _translated(error: sqlite3.Error) -> ButlersError:
    """Return our error for a driver's error, with what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, sqlite3.IntegrityError):
        return IntegrityViolation(f"SQLite refused the write, nothing was changed: {error}")
    if code == sqlite3.SQLITE_TOOBIG:
        return InvalidInput("The text is too long for SQLite; give a shorter one")
    if str(error).startswith("no such table"):
        return MissingTable(f"SQLite: {error}; create the schema first")
    return Unavailable(f"SQLite: {error}; {_ADVICE.get(code, 'reopen the file and try again')}")


def _create(path: Path) -> None:
    """Create an absent file before SQLite does: the log files take over its permissions.

    Does not open an existing one: closing it would release the locks of this process on it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be opened: {error}; check path and permissions"
        ) from error


def _configure(connection: sqlite3.Connection) -> None:
    with translated_errors():
        connection.execute("pragma foreign_keys = on")
        # Without it INSERT OR REPLACE removes rows behind the back of their delete triggers.
        connection.execute("pragma recursive_triggers = on")
        connection.execute("pragma journal_mode = wal").fetchone()
        # In WAL mode NORMAL loses no committed data when a process dies, and never the file.
        connection.execute("pragma synchronous = normal")
        # The first to read makes the memory that connections share.
        connection.execute("select count(*) from sqlite_master").fetchone()


def _retry_while_locked(action: Callable[[], T]) -> T:
    """Try again while others hold the lock."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return action()
        except Unavailable as error:
            code = getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF
            if code not in _BUSY or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.0005, 0.005))
