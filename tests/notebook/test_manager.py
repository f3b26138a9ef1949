"""The manager: enrichment, and a cache that never lags behind the table."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from butlers.notebook import MemoryManager, Notebook, open_notebook, recall_memory

MEMORY_TABLES = ("agent_memories", "memory_categories", "memory_embeddings", "memory_fts")


class Statements:
    """The statements a connection runs that read or write notes."""

    def __init__(self, db: Notebook) -> None:
        self.seen: list[str] = []
        db.sqlite.connection.set_trace_callback(self.seen.append)

    def of_notes(self) -> list[str]:
        return [s for s in self.seen if any(table in s for table in MEMORY_TABLES)]


@pytest.mark.contract("K-S1", "K-I8", "K-I9", "K-A3", "K-T2", "K-T3")
def test_saving_enriches(db: Notebook, manager: MemoryManager, clock) -> None:
    manager.save("a", "lunch", "noodles")
    saved = manager.save("a", "api-key", "secret token for GitHub")
    assert saved.category == "credential"
    assert saved.category_confidence > 0
    read = db.sqlite.connection.execute
    stored = read(
        "select category, confidence, updated_at from memory_categories where memory_id = ?",
        (saved.id,),
    ).fetchone()
    assert stored == ("credential", saved.category_confidence, "2026-01-10 12:00:00")
    vector, vocabulary = read(
        "select vector, vocabulary from memory_embeddings where memory_id = ?", (saved.id,)
    ).fetchone()
    assert set(json.loads(vector)) == {"api", "key", "secret", "token", "github"}
    assert vocabulary == "api,github,key,secret,token"


@pytest.mark.contract("K-I8", "K-I9")
def test_saving_again_enriches_again(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "other", "noodles")
    manager.save("a", "k", "my password")
    saved = manager.save("a", "k", "we discussed in the meeting")
    assert manager.recall("a", "k").category == "conversation"
    (vector,) = db.sqlite.connection.execute(
        "select vector from memory_embeddings where memory_id = ?", (saved.id,)
    ).fetchone()
    assert set(json.loads(vector)) == {"discussed", "meeting"}


@pytest.mark.contract("K-S2")
def test_the_second_recall_reads_no_table(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "test", "value")
    statements = Statements(db)
    first = manager.recall("a", "test")
    assert statements.of_notes()
    statements.seen.clear()
    assert manager.recall("a", "test") is first
    assert statements.of_notes() == []
    assert manager.get_cache_stats() == {"size": 1}


@pytest.mark.contract("L24")
@pytest.mark.parametrize("writer", ["another connection", "this connection"])
def test_the_cache_is_never_older_than_the_table(
    db: Notebook, manager: MemoryManager, path: Path, writer: str
) -> None:
    manager.save("a", "k", "old")
    assert manager.recall("a", "k").content == "old"
    other = sqlite3.connect(path) if writer == "another connection" else db.sqlite.connection
    for content in ("new", "newer"):
        other.execute("update agent_memories set content = ?", (content,))
        other.commit()
        assert manager.recall("a", "k").content == content
    other.execute("pragma foreign_keys = on")
    other.execute("delete from agent_memories")
    other.commit()
    assert manager.recall("a", "k") is None
    if other is not db.sqlite.connection:
        other.close()


@pytest.mark.contract("L24")
def test_what_was_rolled_back_is_not_cached(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "k", "kept")
    with pytest.raises(RuntimeError), db.sqlite.transaction():
        manager.save("a", "k", "taken back")
        assert manager.recall("a", "k").content == "taken back"
        raise RuntimeError
    assert manager.recall("a", "k").content == "kept"


@pytest.mark.contract("K-I7", "K-I1")
def test_agents_whose_cache_keys_look_alike_stay_apart(manager: MemoryManager) -> None:
    manager.save("a", "b:c", "of a")
    assert manager.recall("a", "b:c").content == "of a"
    assert manager.recall("a:b", "c") is None
    manager.save("a:b", "c", "of a:b")
    assert manager.recall("a:b", "c").content == "of a:b"
    assert manager.recall("a", "b:c").content == "of a"


@pytest.mark.contract("K-I7", "K-A3")
def test_invalidating_one_agent_leaves_the_others(db: Notebook, manager: MemoryManager) -> None:
    for agent in ("a", "b"):
        manager.save(agent, "k", "value")
    cached = [manager.recall(agent, "k") for agent in ("a", "b")]
    manager.invalidate_agent("a")
    assert manager.get_cache_stats() == {"size": 1}
    assert manager.recall("b", "k") is cached[1]
    assert manager.recall("a", "k") is not cached[0]
    manager.clear_cache()
    assert manager.get_cache_stats() == {"size": 0}


@pytest.mark.contract("K-A2", "K-A3")
def test_the_cache_is_as_large_and_lasting_as_told(db: Notebook) -> None:
    manager = MemoryManager(db, {"cache": {"max_size": 2, "ttl_ms": 0}})
    for key in ("k1", "k2", "k3"):
        manager.save("a", key, "value")
    first = [manager.recall("a", key) for key in ("k1", "k2", "k3")]
    assert manager.get_cache_stats() == {"size": 2}
    assert manager.recall("a", "k3") is not first[2]


@pytest.mark.contract("K-A3")
def test_by_category_means_of_that_category(manager: MemoryManager) -> None:
    manager.save("a", "password", "secret")
    manager.save("a", "todo", "remind me of the deadline")
    assert [m.key for m in manager.list_by_category("a", "task")] == ["todo"]
    assert manager.list_by_category("b", "task") == []


@pytest.mark.contract("K-I4")
def test_a_note_written_by_hand_is_adopted(
    path: Path, db: Notebook, manager: MemoryManager
) -> None:
    insert = "insert into agent_memories (id, agent_id, key, content) values ('1', 'a', 'k', ?)"
    db.sqlite.connection.execute(insert, ("a password by hand",))
    assert [r.memory.key for r in manager.search_fast("a", "hand")] == ["k"]
    assert manager.recall("a", "k").category is None
    again = MemoryManager(db)
    assert again.recall("a", "k").category == "credential"
    owner = db.sqlite.connection.execute("select documents from memory_owners").fetchone()
    assert owner == (1,)


def test_threads_share_a_manager(manager: MemoryManager) -> None:
    def work(name: str) -> list[str]:
        read = []
        for number in range(40):
            manager.save(name, f"k{number % 5}", f"value {number}")
            read.append(manager.recall(name, f"k{number % 5}").content)
            assert manager.search_fast(name, "value")
        return read

    with ThreadPoolExecutor(4) as threads:
        for read in threads.map(work, [f"agent{n}" for n in range(4)]):
            assert read == [f"value {number}" for number in range(40)]


def test_a_notebook_is_there_when_opened_again(path: Path) -> None:
    db = open_notebook(path)
    MemoryManager(db).save("a", "k", "lasting")
    db.close()
    db = open_notebook(path)
    assert recall_memory(db, "a", "k").content == "lasting"
    assert [r.memory.key for r in MemoryManager(db).search_fast("a", "lasting")] == ["k"]
    db.close()
