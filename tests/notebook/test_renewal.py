"""A file that an earlier version wrote."""

import json
import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from butlers.db import sqlite
from butlers.notebook import MemoryManager, Notebook, fast_search, open_notebook, save_memory
from butlers.notebook.terms import VERSION

NOTES = {
    "place": ("le café de kubernetes", {"place": 1, "le": 1, "café": 1, "de": 1, "kubernetes": 1}),
    "next": ("deploy the new version", {"next": 1, "deploy": 1, "new": 1, "version": 1}),
}


@pytest.fixture
def earlier(path: Path) -> Path:
    """A file as version 0.1 left it: terms with their accents, categories by other words."""
    db = open_notebook(path)
    MemoryManager(db)
    execute = db.sqlite.connection.execute
    for key, (content, counts) in NOTES.items():
        memory = save_memory(db, "a", key, content)
        execute("update agent_memories set archived = archived where id = ?", (memory.id,))
        terms = json.dumps(counts, ensure_ascii=False)
        execute("update memory_documents set terms = ? where memory_id = ?", (terms, memory.id))
    execute("update memory_categories set category = 'general', confidence = 0.0")
    execute("pragma user_version = 0")
    db.close()
    return path


def frequencies(db: Notebook) -> dict[str, int]:
    return dict(db.sqlite.connection.execute("select term, documents from memory_frequencies"))


def found(db: Notebook, query: str) -> list[tuple[str, float]]:
    return [(r.memory.key, round(r.score, 6)) for r in fast_search(db, "a", query)]


def test_its_notes_are_found_as_if_they_were_new(earlier: Path, tmp_path: Path) -> None:
    old, new = open_notebook(earlier), open_notebook(tmp_path / "new.db")
    for key, (content, _) in NOTES.items():
        save_memory(new, "a", key, content)
    assert frequencies(old) == frequencies(new)
    for query in ("cafe", "café", "caf", "kuber", "netes", "version"):
        assert found(old, query) == found(new, query) != []
    check = "insert into memory_fts (memory_fts, rank) values ('integrity-check', 1)"
    old.sqlite.connection.execute(check)
    old.close()
    new.close()


def test_its_notes_get_the_categories_of_this_version(earlier: Path) -> None:
    db = open_notebook(earlier)
    assert [note.key for note in MemoryManager(db).list_by_category("a", "project")] == ["next"]
    db.close()


def test_archived_notes_stay_archived_and_get_their_category(earlier: Path) -> None:
    with sqlite3.connect(earlier) as bare:
        bare.execute("update agent_memories set archived = 1 where key = 'next'")
    bare.close()
    db = open_notebook(earlier)
    recalled = MemoryManager(db).recall("a", "next")
    assert (recalled.archived, recalled.category) == (True, "project")
    assert found(db, "deploy") == []
    db.close()


def test_it_is_renewed_once(earlier: Path) -> None:
    open_notebook(earlier).close()
    bare = sqlite3.connect(earlier)
    assert bare.execute("pragma user_version").fetchone() == (VERSION,)
    bare.execute("update memory_categories set category = 'fact'")
    bare.commit()
    bare.close()
    db = open_notebook(earlier)
    assert len(MemoryManager(db).list_by_category("a", "fact")) == len(NOTES)
    db.close()


def test_more_notes_than_are_renewed_at_once_are_all_renewed(earlier: Path) -> None:
    db = open_notebook(earlier)
    for number in range(450):
        save_memory(db, "a", f"k{number}", "deploy it")
    db.sqlite.connection.execute("update memory_categories set category = 'general'")
    db.sqlite.connection.execute("pragma user_version = 0")
    db.close()
    db = open_notebook(earlier)
    counted = db.sqlite.connection.execute(
        "select count(*) from memory_categories where category = 'project'"
    )
    assert counted.fetchone() == (451,)
    db.close()


def test_a_file_that_others_keep_locked_is_read_as_it_is(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE_SECONDS", 0.05)
    other = sqlite3.connect(earlier)
    other.execute("begin immediate")
    with capture_logs() as logs:
        db = open_notebook(earlier)
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert [key for key, _ in found(db, "kuber")] == ["place"]
    other.close()
    db.close()
