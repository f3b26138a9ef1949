"""Commits are noticed whoever makes them, and a connection that goes costs nobody a lock."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from butlers.db.queries import parse
from butlers.db.sqlite import SqliteDatabase, connect
from butlers.notebook import MemoryManager, open_notebook

QUERIES = parse(
    "-- make --\ncreate table if not exists t (x integer)\n"
    "-- add --\ninsert into t values (:x)\n"
    "-- count --\nselect count(*) from t\n"
)
ADD_ELSEWHERE = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "c.execute('insert into t values (7)'); c.close()\n"
)
# Every connection holds this byte of the shared memory; who could have it alone would clear it.
ASK_FOR_THE_MEMORY = (
    "import fcntl, sys; file = open(sys.argv[1] + '-shm', 'r+b')\n"
    "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)\n"
    "except OSError: sys.exit(0)\n"
    "sys.exit('nobody holds the shared memory')\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some.db"


@pytest.fixture
def db(file: Path) -> Iterator[SqliteDatabase]:
    with closing(connect(file)) as database:
        database.execute(QUERIES["make"])
        yield database


def elsewhere(file: Path, code: str = ADD_ELSEWHERE) -> None:
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)


def count(db: SqliteDatabase) -> int:
    return int(db.fetch(QUERIES["count"])[0][0])


def test_reading_changes_no_stamp_and_every_commit_changes_it(
    db: SqliteDatabase, file: Path
) -> None:
    stamps = [db.stamp()]
    assert count(db) == 0
    assert db.stamp() == stamps[0]
    db.execute(QUERIES["add"], x=1)
    stamps.append(db.stamp())
    with closing(connect(file)) as other:
        other.execute(QUERIES["add"], x=2)
    stamps.append(db.stamp())
    elsewhere(file)
    stamps.append(db.stamp())
    db.connection.execute("pragma wal_checkpoint(truncate)")
    elsewhere(file)
    stamps.append(db.stamp())
    assert len(set(stamps)) == len(stamps)
    assert count(db) == 4


def test_what_is_rolled_back_changes_the_stamp_too(db: SqliteDatabase) -> None:
    before = db.stamp()
    with pytest.raises(KeyError), db.transaction():
        db.execute(QUERIES["add"], x=1)
        within = db.stamp()
        raise KeyError
    assert len({before, within, db.stamp()}) == 3


@pytest.mark.contract("L24")
def test_a_note_read_in_an_old_snapshot_is_not_served_afterwards(file: Path) -> None:
    notebook = open_notebook(file)
    manager = MemoryManager(notebook)
    manager.save("a", "k", "old")
    change = "update agent_memories set content = 'new'"
    with notebook.sqlite.snapshot():
        assert len(manager.list("a")) == 1
        elsewhere(
            file,
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            f'c.execute("{change}"); c.close()\n',
        )
        seen = manager.recall("a", "k")
        assert seen is not None and seen.content == "old"
    seen = manager.recall("a", "k")
    assert seen is not None and seen.content == "new"
    notebook.close()


@pytest.mark.parametrize("how", ["by us", "by others"])
def test_a_second_connection_that_comes_and_goes_costs_the_first_no_lock(
    db: SqliteDatabase, file: Path, how: str
) -> None:
    first = db.connection
    if how == "by others":
        first = sqlite3.connect(file, isolation_level=None)
        first.execute("select count(*) from t").fetchone()
        db.close()
    first.execute("insert into t values (1)")
    with closing(connect(file)) as second:
        assert count(second) > 0
    elsewhere(file, ASK_FOR_THE_MEMORY)
    # The last process to close a database removes its log; were our locks gone, this one would.
    elsewhere(file)
    logs = {f"{file.name}-wal", f"{file.name}-shm"}
    assert {path.name for path in file.parent.iterdir()} == {file.name, *logs}
    first.execute("insert into t values (2)")
    elsewhere(file)
    assert first.execute("select count(*) from t").fetchone() == (4,)
    first.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_files_that_are_gone_are_let_go_of(tmp_path: Path) -> None:
    def opened() -> set[str]:
        found = set()
        for name in os.listdir("/proc/self/fd"):
            try:
                found.add(os.readlink(f"/proc/self/fd/{name}"))
            except FileNotFoundError:
                continue  # the listing's own
        return {name for name in found if str(tmp_path) in name}

    for number in range(5):
        first, second = connect(tmp_path / f"{number}.db"), connect(tmp_path / f"{number}.db")
        assert first.stamp() and second.stamp()
        first.close()
        assert second.stamp()
        second.close()
        second.close()
    assert opened() == set()


def test_a_database_in_memory_is_stamped_too() -> None:
    with closing(connect(":memory:")) as db:
        db.execute(QUERIES["make"])
        before = db.stamp()
        db.execute(QUERIES["add"], x=1)
        assert db.stamp() != before
