"""Several processes and one file: nothing is lost, nobody sees an error."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from butlers.db import sqlite
from butlers.db.queries import parse
from butlers.errors import Unavailable
from butlers.notebook import MemoryManager, Notebook, fast_search, open_notebook

WRITERS, NOTES = 4, 1_000
TICK = parse("-- tick --\nupdate agent_memories set content = content || 'x'")["tick"]


@pytest.mark.slow
@pytest.mark.contract("K-I10")
def test_four_processes_write_a_thousand_notes_each(path: Path) -> None:
    script = Path(__file__).with_name("note_writer.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    writers = [
        subprocess.Popen(
            [sys.executable, script, path, f"writer{n}", str(NOTES)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(WRITERS)
    ]
    errors = [writer.communicate(timeout=120)[1] for writer in writers]
    assert errors == [""] * WRITERS
    db = open_notebook(path)
    count = db.sqlite.connection.execute
    total = WRITERS * NOTES
    for table in ("agent_memories", "memory_categories", "memory_embeddings", "memory_documents"):
        assert count(f"select count(*) from {table}").fetchone() == (total,)
    assert count("select documents from memory_owners").fetchone() == (total,)
    assert count("select documents from memory_frequencies where term = 'note'").fetchone() == (
        total,
    )
    most = "select max(n) from (select count(*) n from memory_cross_refs group by source_id)"
    assert count(most).fetchone() == (10,)
    count("insert into memory_fts (memory_fts, rank) values ('integrity-check', 1)")
    assert [r.memory.key for r in fast_search(db, "agent", "writer3 999", {"limit": 1})] == [
        "writer3:999"
    ]
    db.close()


def test_a_writer_waits_for_another_process_as_long_as_it_has_patience(
    db: Notebook, manager: MemoryManager, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    release = threading.Timer(0.3, lambda: other.execute("rollback"))
    release.start()
    assert manager.save("a", "k", "patient").content == "patient"
    release.join()
    monkeypatch.setattr(sqlite, "PATIENCE_SECONDS", 0.05)
    other.execute("begin immediate")
    with pytest.raises(Unavailable, match="another process keeps it locked"):
        manager.save("a", "k", "too late")
    other.execute("rollback")
    other.close()
    assert manager.recall("a", "k").content == "patient"


def test_readers_do_not_wait_for_a_writer(manager: MemoryManager, path: Path) -> None:
    manager.save("a", "k", "readable")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    other.execute("update agent_memories set content = 'unfinished'")
    assert manager.recall("a", "k").content == "readable"
    assert len(manager.search_fast("a", "readable")) == 1
    other.execute("rollback")
    other.close()


def test_a_snapshot_is_of_one_moment(db: Notebook, manager: MemoryManager, path: Path) -> None:
    manager.save("a", "k", "before")
    other = sqlite3.connect(path, isolation_level=None)
    with db.sqlite.snapshot():
        assert manager.recall("a", "k").content == "before"
        other.execute("update agent_memories set content = 'after'")
        manager.clear_cache()
        assert manager.recall("a", "k").content == "before"
    assert manager.recall("a", "k").content == "after"
    other.close()


def test_a_failed_transaction_leaves_nothing(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "k", "kept")
    with pytest.raises(RuntimeError), db.sqlite.transaction():
        db.sqlite.execute(TICK)
        with db.sqlite.transaction():
            manager.save("a", "other", "lost")
        raise RuntimeError
    assert [m.content for m in manager.list("a")] == ["kept"]
    with db.sqlite.transaction():
        db.sqlite.execute(TICK)
    assert [m.content for m in manager.list("a")] == ["keptx"]


def test_files_that_cannot_be_used_say_so(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text(
        "this is no database, but long enough to be taken for one" * 9
    )
    with pytest.raises(Unavailable, match="not an SQLite database"):
        open_notebook(tmp_path / "text.db")
    with pytest.raises(Unavailable, match="check path and permissions"):
        open_notebook(tmp_path / "text.db" / "below.db")


def test_a_closed_notebook_says_so(path: Path) -> None:
    db = open_notebook(path)
    manager = MemoryManager(db)
    db.close()
    with pytest.raises(Unavailable, match="closed"):
        manager.save("a", "k", "x")
    with pytest.raises(Unavailable, match="closed"):
        manager.recall("a", "k")
