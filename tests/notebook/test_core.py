"""Saving, recalling, listing: what is kept, whose it is, and what is refused."""

from contextlib import closing
from pathlib import Path

import pytest

from butlers.errors import InvalidInput
from butlers.notebook import (
    Limits,
    MemoryManager,
    Notebook,
    list_memories,
    open_notebook,
    owner_id,
    recall_memory,
    save_memory,
    search_memories,
)


@pytest.mark.contract("K-I4")
def test_manager_and_core_see_each_others_writes(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "tea", "green tea from Uji")
    assert recall_memory(db, "a", "tea").content == "green tea from Uji"
    assert [m.key for m in search_memories(db, "a", "uji")] == ["tea"]
    save_memory(db, "a", "coffee", "espresso from Napoli")
    assert manager.recall("a", "coffee").content == "espresso from Napoli"
    assert [r.memory.key for r in manager.search_fast("a", "napoli")] == ["coffee"]
    assert {m.key for m in manager.list("a")} == {m.key for m in list_memories(db, "a")}


@pytest.mark.contract("K-I4", "L24")
def test_what_the_core_saves_over_is_recalled_anew(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "k", "first password")
    assert manager.recall("a", "k").category == "credential"
    save_memory(db, "a", "k", "second meeting we discussed")
    recalled = manager.recall("a", "k")
    assert (recalled.content, recalled.category) == ("second meeting we discussed", "conversation")


@pytest.mark.contract("K-E1")
def test_a_key_nobody_saved_is_none(db: Notebook, manager: MemoryManager) -> None:
    assert recall_memory(db, "a", "nothing") is None
    assert manager.recall("a", "nothing") is None
    assert manager.recall("a", "x" * 10_000) is None


@pytest.mark.contract("K-I1")
def test_one_key_of_two_agents_is_two_notes(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "k", "of a")
    manager.save("b", "k", "of b")
    assert (manager.recall("a", "k").content, manager.recall("b", "k").content) == ("of a", "of b")
    assert [m.content for m in manager.list("a")] == ["of a"]
    assert manager.recall("c", "k") is None


@pytest.mark.contract("K-T1")
def test_saving_again_keeps_identity_and_birth(db: Notebook, clock) -> None:
    first = save_memory(db, "a", "k", "one")
    clock.advance(days=2)
    second = save_memory(db, "a", "k", "two")
    assert (second.id, second.created_at) == (first.id, first.created_at)
    assert (first.updated_at, second.updated_at) == ("2026-01-10 12:00:00", "2026-01-12 12:00:00")


def test_what_was_confirmed_was_the_former_content(db: Notebook) -> None:
    saved = save_memory(db, "a", "k", "one")
    confirm = "update agent_memories set txid = 'tx', status = 'confirmed' where id = ?"
    db.sqlite.connection.execute(confirm, (saved.id,))
    assert save_memory(db, "a", "k", "one").status == "confirmed"
    changed = save_memory(db, "a", "k", "two")
    assert (changed.txid, changed.status) == (None, "pending")


@pytest.mark.contract("L24")
def test_saving_to_an_archived_key_revives_it(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "k", "zebra")
    db.sqlite.connection.execute("update agent_memories set archived = 1")
    assert manager.list("a") == [] and manager.search_fast("a", "zebra") == []
    assert manager.recall("a", "k").archived
    assert manager.save("a", "k", "zebra again").archived is False
    assert [m.key for m in manager.list("a")] == ["k"]
    assert [r.memory.key for r in manager.search_fast("a", "zebra")] == ["k"]


@pytest.mark.contract("L24")
def test_lists_show_no_archived_notes(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "password-one", "secret")
    manager.save("a", "password-two", "secret")
    hide = "update agent_memories set archived = 1 where key = 'password-one'"
    db.sqlite.connection.execute(hide)
    assert [m.key for m in manager.list("a")] == ["password-two"]
    assert [m.key for m in manager.list_by_category("a", "credential")] == ["password-two"]


def test_lists_are_recent_first_and_twenty(manager: MemoryManager, clock) -> None:
    for number in range(25):
        manager.save("a", f"password {number}", "secret")
        clock.advance(seconds=number % 2)
    expected = [f"password {number}" for number in range(24, 4, -1)]
    assert [m.key for m in manager.list("a")] == expected
    assert [m.key for m in manager.list_by_category("a", "credential")] == expected


@pytest.mark.contract("L22")
def test_nul_is_removed_from_key_and_content(manager: MemoryManager) -> None:
    manager.save("a", "k\x00ey", "con\x00tent")
    assert manager.recall("a", "key").content == "content"
    assert manager.recall("a", "k\x00ey").content == "content"


@pytest.mark.contract("L22")
@pytest.mark.parametrize(
    ("agent", "key", "content", "named"),
    [
        ("a", "k" * 11, "x", "key has 11 characters; the limit is 10"),
        ("a", "k", "x" * 21, "content has 21 characters; the limit is 20"),
        ("a", "  ", "x", "key"),
        ("", "k", "x", "agent_id"),
        ("a\x00", "k", "x", "agent_id"),
        ("a" * 1001, "k", "x", "agent_id"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    path: Path, agent: str, key: str, content: str, named: str
) -> None:
    db = open_notebook(path, limits=Limits(max_key_chars=10, max_content_chars=20))
    try:
        with pytest.raises(InvalidInput, match=named):
            save_memory(db, agent, key, content)
        count = db.sqlite.connection.execute("select count(*) from agent_memories").fetchone()
        assert count == (0,)
    finally:
        db.close()


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_limit_that_cannot_be_meant_is_refused(
    db: Notebook, manager: MemoryManager, limit: int
) -> None:
    for ask in (
        lambda: list_memories(db, "a", limit),
        lambda: search_memories(db, "a", "query", limit),
        lambda: manager.get_related("id", limit),
    ):
        with pytest.raises(InvalidInput, match=f"limit is {limit}; give a whole number"):
            ask()


@pytest.mark.contract("K-I1")
def test_tenant_and_agent_together_are_one_owner_each() -> None:
    pairs = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("", "a/b/c"), ("a", "b%2Fc"), ("ä", "é")]
    assert len({owner_id(*pair) for pair in pairs}) == len(pairs)


def test_a_secret_is_masked_refused_or_kept_as_the_notebook_is_told(path, clock):
    key = "gh" + "p_" + "x7Q" * 12
    with closing(open_notebook(path, clock=clock)) as db:
        saved = save_memory(db, "ann", "shop:login", f"push with {key}")
        assert saved.content == "push with [secret: github token]"
        assert save_memory(db, "ann", "wifi:password", "swordfish").content == (
            "[secret: password]"
        )
        with pytest.raises(InvalidInput, match="^key: found a secret") as refused:
            save_memory(db, "ann", f"shop:{key}", "tea")
        assert key not in str(refused.value)
        assert key.encode() not in path.read_bytes()
    refusing = open_notebook(path, clock=clock, secrets="refuse")
    with closing(refusing) as db, pytest.raises(InvalidInput, match="^content: found a secret"):
        save_memory(db, "ann", "shop:login", f"push with {key}")
    with closing(open_notebook(path, clock=clock, secrets="keep")) as db:
        assert save_memory(db, "ann", key, key).content == key
