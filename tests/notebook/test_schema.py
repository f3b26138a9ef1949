"""The tables, their index, and a notebook that lacks some of them."""

import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from butlers import notebook
from butlers.db import queries, sqlite
from butlers.errors import IntegrityViolation
from butlers.notebook import (
    MemoryManager,
    MemoryStatus,
    Notebook,
    all_categories,
    ensure_memory_schema,
    fast_search,
    open_notebook,
    recall_memory,
    save_memory,
)

SCHEMA = Path(notebook.__file__).with_name("schema.sql")


def columns(db: Notebook, table: str) -> dict[str, tuple[str, int, str | None]]:
    """Name to type, NOT NULL and default."""
    rows = db.sqlite.connection.execute(f"pragma table_info({table})").fetchall()
    return {row[1]: (row[2].lower(), row[3], row[4]) for row in rows}


def dump(db: Notebook) -> list[tuple[str, str]]:
    return db.sqlite.connection.execute("select name, sql from sqlite_master order by 1").fetchall()


def cascades(db: Notebook, table: str) -> set[tuple[str, str, str, str]]:
    rows = db.sqlite.connection.execute(f"pragma foreign_key_list({table})").fetchall()
    return {(row[3], row[2], row[4], row[6]) for row in rows}


@pytest.mark.contract("K-T1")
def test_agent_memories(db: Notebook) -> None:
    assert columns(db, "agent_memories") == {
        "id": ("text", 1, None),
        "agent_id": ("text", 1, None),
        "key": ("text", 1, None),
        "content": ("text", 1, None),
        "txid": ("text", 0, "null"),
        "status": ("text", 0, "'pending'"),
        "archived": ("integer", 1, "0"),
        "created_at": ("text", 0, "datetime('now')"),
        "updated_at": ("text", 0, "datetime('now')"),
    }
    insert = "insert into agent_memories (id, agent_id, key, content) values (?, 'a', 'k', 'x')"
    db.sqlite.connection.execute(insert, ("1",))
    with pytest.raises(sqlite3.IntegrityError):
        db.sqlite.connection.execute(insert, ("2",))


@pytest.mark.contract("K-T1")
def test_the_vocabularies_are_those_of_the_tables(db: Notebook) -> None:
    ensure_memory_schema(db)
    saved = save_memory(db, "a", "k", "x")
    execute = db.sqlite.connection.execute
    for status in MemoryStatus:
        execute("update agent_memories set status = ?", (status,))
    for category in all_categories():
        execute("update memory_categories set category = ?", (category,))
    for statement in (
        "update agent_memories set status = 'lost'",
        "update agent_memories set archived = 2",
        "update memory_categories set category = 'animal'",
        "update memory_categories set confidence = 1.1",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            execute(statement)
    assert recall_memory(db, "a", "k").id == saved.id


@pytest.mark.contract("K-T2")
def test_memory_categories(db: Notebook) -> None:
    ensure_memory_schema(db)
    assert columns(db, "memory_categories") == {
        "memory_id": ("text", 1, None),
        "category": ("text", 1, "'general'"),
        "confidence": ("real", 1, "1.0"),
        "updated_at": ("text", 0, "datetime('now')"),
    }
    assert cascades(db, "memory_categories") == {("memory_id", "agent_memories", "id", "CASCADE")}


@pytest.mark.contract("K-T3")
def test_memory_embeddings(db: Notebook) -> None:
    ensure_memory_schema(db)
    assert columns(db, "memory_embeddings") == {
        "memory_id": ("text", 1, None),
        "vector": ("text", 1, None),
        "vocabulary": ("text", 1, "''"),
        "updated_at": ("text", 0, "datetime('now')"),
    }
    assert cascades(db, "memory_embeddings") == {("memory_id", "agent_memories", "id", "CASCADE")}


@pytest.mark.contract("K-T4")
def test_memory_cross_refs(db: Notebook) -> None:
    ensure_memory_schema(db)
    assert columns(db, "memory_cross_refs") == {
        "source_id": ("text", 1, None),
        "target_id": ("text", 1, None),
        "score": ("real", 1, "0.0"),
        "created_at": ("text", 0, "datetime('now')"),
    }
    assert cascades(db, "memory_cross_refs") == {
        ("source_id", "agent_memories", "id", "CASCADE"),
        ("target_id", "agent_memories", "id", "CASCADE"),
    }


@pytest.mark.contract("K-T2", "K-T3")
def test_deleting_a_note_deletes_all_that_is_known_of_it(
    db: Notebook, manager: MemoryManager
) -> None:
    manager.save("a", "k", "alpha")
    db.sqlite.connection.execute("delete from agent_memories")
    for table in ("memory_categories", "memory_embeddings", "memory_documents"):
        assert db.sqlite.connection.execute(f"select count(*) from {table}").fetchone() == (0,)
    assert fast_search(db, "a", "alpha") == []


@pytest.mark.contract("K-I14")
def test_the_schema_can_be_ensured_again_and_again(db: Notebook, path: Path) -> None:
    ensure_memory_schema(db)
    save_memory(db, "a", "k", "kept")
    before = dump(db)
    ensure_memory_schema(db)
    MemoryManager(db)
    other = open_notebook(path)
    ensure_memory_schema(other)
    assert dump(other) == before
    assert recall_memory(other, "a", "k").content == "kept"
    other.close()


@pytest.mark.contract("K-I14")
def test_a_notebook_that_has_notes_alone_gets_the_rest(path: Path) -> None:
    table = queries.load(str(SCHEMA))["agent_memories"]
    bare = sqlite3.connect(path)
    bare.execute(table.text)
    insert = "insert into agent_memories (id, agent_id, key, content, archived) values (?,?,?,?,?)"
    bare.execute(insert, ("1", "a", "k", "an old zebra", 0))
    bare.execute(insert, ("2", "a", "k2", "an archived zebra", 1))
    bare.commit()
    bare.close()
    db = open_notebook(path)
    manager = MemoryManager(db)
    assert [r.memory.key for r in manager.search_fast("a", "zebra")] == ["k"]
    assert manager.recall("a", "k").category == "general"
    db.close()


@pytest.mark.contract("K-E4")
def test_without_extension_tables_the_manager_goes_on(db: Notebook) -> None:
    db.sqlite.connection.execute("create index memory_categories on agent_memories (status)")
    with capture_logs() as logs:
        manager = MemoryManager(db)
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert "memory_categories" in logs[0]["error"]
    saved = manager.save("a", "api-key", "secret zebra")
    assert manager.recall("a", "api-key").content == "secret zebra"
    assert manager.recall("a", "api-key").category is None
    assert [r.memory.id for r in manager.search_fast("a", "zebra", {"category": "x"})] == [saved.id]
    assert manager.list_by_category("a", "credential") == []
    assert manager.get_related(saved.id) == []


@pytest.mark.contract("K-E5")
def test_without_the_category_table_nothing_has_a_category(
    db: Notebook, manager: MemoryManager
) -> None:
    manager.save("a", "password", "secret")
    assert len(manager.list_by_category("a", "credential")) == 1
    db.sqlite.connection.execute("drop table memory_categories")
    assert manager.list_by_category("a", "credential") == []
    assert manager.recall("a", "password").category is None


def test_the_index_is_true_after_every_kind_of_change(db: Notebook, manager: MemoryManager) -> None:
    execute = db.sqlite.connection.execute
    for number in range(10):
        manager.save("a", f"k{number}", f"content{number} zebra")
    manager.save("a", "k1", "changed")
    for statement in (
        "update agent_memories set archived = 1 where key = 'k2'",
        "update agent_memories set archived = 1, content = 'zebra hidden' where key = 'k3'",
        "update agent_memories set content = 'zebra by hand' where key = 'k4'",
        "update agent_memories set agent_id = 'b' where key = 'k5'",
        "update agent_memories set content = 'zebra unseen' where key = 'k2'",
        "delete from agent_memories where key in ('k6', 'k3')",
        "insert or replace into agent_memories (id, agent_id, key, content)"
        " values ('new', 'a', 'k7', 'zebra replaced')",
        "vacuum",
    ):
        execute(statement)
        # Compares every word of the index with the notes; raises where they differ.
        execute("insert into memory_fts (memory_fts, rank) values ('integrity-check', 1)")
    assert {r.memory.key for r in fast_search(db, "a", "zebra")} == {"k0", "k4", "k7", "k8", "k9"}
    assert [r.memory.key for r in fast_search(db, "b", "zebra")] == ["k5"]


def test_a_write_that_breaks_a_rule_is_ours_to_name(db: Notebook) -> None:
    broken = queries.parse("-- broken --\ninsert into agent_memories (id) values (:id)")["broken"]
    with pytest.raises(IntegrityViolation, match="nothing was changed"):
        db.sqlite.execute(broken, id="1")


def test_the_file_is_the_owners_alone_and_configured(db: Notebook, path: Path) -> None:
    save_memory(db, "a", "k", "x")
    assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
        "notebook.db": 0o600,
        "notebook.db-wal": 0o600,
        "notebook.db-shm": 0o600,
    }
    pragmas = ("foreign_keys", "journal_mode", "synchronous", "busy_timeout")
    found = [db.sqlite.connection.execute(f"pragma {name}").fetchone()[0] for name in pragmas]
    assert found == [1, "wal", 1, sqlite.BUSY_TIMEOUT_MS]
