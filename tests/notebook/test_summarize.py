"""Old notes become summaries."""

import pytest

from butlers.errors import InvalidInput
from butlers.notebook import (
    Limits,
    MemoryManager,
    Notebook,
    open_notebook,
    recall_memory,
    save_memory,
    summarize_old_memories,
)


def archived(db: Notebook) -> set[str]:
    rows = db.sqlite.connection.execute("select key from agent_memories where archived = 1")
    return {key for (key,) in rows}


def summaries(db: Notebook, agent: str = "a") -> dict[str, str]:
    rows = db.sqlite.connection.execute(
        "select key, content from agent_memories where key like 'summary:%' and agent_id = ?",
        (agent,),
    )
    return dict(rows)


@pytest.mark.contract("K-S5", "K-A1")
def test_old_notes_of_one_prefix_become_a_summary(
    db: Notebook, manager: MemoryManager, clock
) -> None:
    manager.save("a", "project:alpha", "alpha ships in May")
    manager.save("a", "project:beta", "beta waits for alpha")
    clock.advance(days=60)
    assert summarize_old_memories(db, "a") == 2
    assert archived(db) == {"project:alpha", "project:beta"}
    (key,) = summaries(db)
    assert key == "summary:project:2026-03-11"
    summary = recall_memory(db, "a", key)
    assert "alpha ships in May" in summary.content and "beta waits for alpha" in summary.content
    assert [m.key for m in manager.list("a")] == [key]
    assert [r.memory.key for r in manager.search_fast("a", "ships")] == [key]
    assert summarize_old_memories(db, "a") == 0


@pytest.mark.contract("K-S6", "K-I12")
def test_a_single_note_is_left_alone(db: Notebook, clock) -> None:
    save_memory(db, "a", "config:db", "port 5432")
    save_memory(db, "a", "project:alpha", "ships in May")
    clock.advance(days=60)
    assert summarize_old_memories(db, "a") == 0
    assert archived(db) == set() and summaries(db) == {}


@pytest.mark.contract("K-I13")
def test_recent_notes_stay(db: Notebook, clock) -> None:
    for number in range(2):
        save_memory(db, "a", f"project:old{number}", "old")
    clock.advance(days=30)
    for number in range(2):
        save_memory(db, "a", f"project:new{number}", "new")
    assert summarize_old_memories(db, "a") == 0
    clock.advance(seconds=1)
    assert summarize_old_memories(db, "a") == 2
    assert archived(db) == {"project:old0", "project:old1"}
    clock.advance(days=3)
    assert summarize_old_memories(db, "a", older_than_days=2) == 2


@pytest.mark.contract("K-I13")
def test_a_note_saved_again_is_recent_again(db: Notebook, clock) -> None:
    for key in ("p:one", "p:two", "p:three"):
        save_memory(db, "a", key, "first")
    clock.advance(days=60)
    save_memory(db, "a", "p:two", "second")
    assert summarize_old_memories(db, "a") == 2
    assert archived(db) == {"p:one", "p:three"}


@pytest.mark.contract("L24")
def test_a_second_summary_on_one_day_adds_to_the_first(db: Notebook, clock) -> None:
    for key in ("p:one", "p:two"):
        save_memory(db, "a", key, f"content of {key}")
    clock.advance(days=29)
    for key in ("p:three", "p:four"):
        save_memory(db, "a", key, f"content of {key}")
    clock.advance(days=2)
    assert summarize_old_memories(db, "a") == 2
    assert summarize_old_memories(db, "a", older_than_days=1) == 2
    (content,) = summaries(db).values()
    assert all(f"content of p:{n}" in content for n in ("one", "two", "three", "four"))


@pytest.mark.contract("K-I1")
def test_only_the_agents_own_notes(db: Notebook, clock) -> None:
    for agent in ("a", "b"):
        for number in range(2):
            save_memory(db, agent, f"project:{number}", f"of {agent}")
    clock.advance(days=60)
    assert summarize_old_memories(db, "a") == 2
    assert summaries(db, "b") == {}
    (content,) = summaries(db, "a").values()
    assert "of b" not in content


def test_notes_without_a_prefix_are_one_group_and_summaries_none(db: Notebook, clock) -> None:
    save_memory(db, "a", "one", "1")
    save_memory(db, "a", "two", "2")
    clock.advance(days=60)
    assert summarize_old_memories(db, "a") == 2
    assert set(summaries(db)) == {"summary:general:2026-03-11"}
    clock.advance(days=60)
    assert summarize_old_memories(db, "a") == 0


@pytest.mark.contract("L24")
def test_an_archived_note_saved_again_can_grow_old_again(db: Notebook, clock) -> None:
    for key in ("p:one", "p:two"):
        save_memory(db, "a", key, "first")
    clock.advance(days=60)
    summarize_old_memories(db, "a")
    for key in ("p:one", "p:two"):
        save_memory(db, "a", key, "revived")
    assert archived(db) == set()
    clock.advance(days=60)
    assert summarize_old_memories(db, "a") == 2
    assert len(summaries(db)) == 2


def test_a_full_summary_is_followed_by_another(path, clock) -> None:
    db = open_notebook(path, clock=clock, limits=Limits(max_content_chars=50))
    for number in range(5):
        save_memory(db, "a", f"p:{number}", f"{number} " + "x" * 20)
    clock.advance(days=60)
    assert summarize_old_memories(db, "a") == 5
    found = summaries(db)
    assert len(found) > 1 and max(map(len, found.values())) <= 60
    assert all(any(f"[p:{n}] {n} xx" in text for text in found.values()) for n in range(5))
    db.close()


def test_a_negative_age_is_refused(db: Notebook) -> None:
    with pytest.raises(InvalidInput, match="give 0 to 36500"):
        summarize_old_memories(db, "a", older_than_days=9_000_000_000)
    with pytest.raises(InvalidInput, match="older_than_days is -1"):
        summarize_old_memories(db, "a", -1)
