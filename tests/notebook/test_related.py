"""Cross references between notes that share words."""

import itertools
import random

import pytest

from butlers.kernel.similarity import jaccard
from butlers.notebook import MemoryManager, Notebook
from butlers.notebook import related as relations
from butlers.notebook.tokenizer import term_counts


def references(db: Notebook) -> dict[tuple[str, str], float]:
    rows = db.sqlite.connection.execute(
        "select s.key, t.key, r.score from memory_cross_refs r"
        " join agent_memories s on s.id = r.source_id join agent_memories t on t.id = r.target_id"
    )
    return {(source, target): score for source, target, score in rows}


def related_keys(manager: MemoryManager, agent: str, key: str) -> list[str]:
    return [r.memory.key for r in manager.get_related(manager.recall(agent, key).id)]


@pytest.mark.contract("K-I10", "K-A3", "K-T4")
def test_notes_refer_to_each_other_by_jaccard(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "one", "alpha beta gamma")
    manager.save("a", "two", "alpha beta delta")
    manager.save("a", "three", "nothing shared")
    assert references(db) == {("one", "two"): 2 / 6, ("two", "one"): 2 / 6}
    (found,) = manager.get_related(manager.recall("a", "one").id)
    assert (found.memory.key, found.score) == ("two", 2 / 6)


@pytest.mark.contract("K-I10")
def test_the_threshold_itself_is_not_enough(db: Notebook, manager: MemoryManager) -> None:
    # One shared term of twenty is exactly 0.05; of nineteen, just above.
    manager.save("a", "x", "shared " + " ".join(f"left{n}" for n in range(10)))
    manager.save("a", "y", "shared " + " ".join(f"right{n}" for n in range(9)))
    assert references(db) == {}
    manager.save("a", "y", "shared " + " ".join(f"right{n}" for n in range(8)))
    assert references(db) == pytest.approx({("x", "y"): 1 / 19, ("y", "x"): 1 / 19})


@pytest.mark.contract("K-I10")
def test_at_most_ten_and_the_most_similar_ones(db: Notebook, manager: MemoryManager) -> None:
    rng = random.Random(3)
    vocabulary = [f"word{n}" for n in range(12)]
    contents = {f"k{n}": " ".join(rng.sample(vocabulary, 5)) for n in range(25)}
    for key, content in contents.items():
        manager.save("a", key, content)
    found = references(db)
    terms = {key: set(term_counts(key, content)) for key, content in contents.items()}
    for source, group in itertools.groupby(sorted(found), key=lambda pair: pair[0]):
        kept = {target: found[source, target] for _, target in group}
        exact = {key: jaccard(terms[source], terms[key]) for key in terms if key != source}
        assert kept == {target: exact[target] for target in kept}
        assert len(kept) == 10
        assert sorted(kept.values()) == sorted(exact.values())[-10:]


@pytest.mark.contract("K-I10")
def test_a_changed_note_is_related_anew(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "one", "alpha beta")
    manager.save("a", "two", "alpha beta")
    manager.save("a", "three", "gamma delta")
    manager.save("a", "two", "gamma delta")
    assert set(references(db)) == {("two", "three"), ("three", "two")}


@pytest.mark.contract("K-I1")
def test_no_reference_leaves_the_agent(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "k1", "alpha beta")
    manager.save("b", "k2", "alpha beta")
    manager.save("a:b", "k3", "alpha beta")
    assert references(db) == {}


@pytest.mark.contract("L24")
def test_archived_notes_are_not_related(db: Notebook, manager: MemoryManager) -> None:
    for key in ("one", "two", "three"):
        manager.save("a", key, "alpha beta")
    db.sqlite.connection.execute("update agent_memories set archived = 1 where key = 'two'")
    assert related_keys(manager, "a", "one") == ["three"]
    manager.save("a", "four", "alpha beta")
    assert sorted(related_keys(manager, "a", "four")) == ["one", "three"]


@pytest.mark.contract("K-A3")
def test_related_is_limited_and_most_similar_first(manager: MemoryManager) -> None:
    manager.save("a", "one", "alpha beta gamma delta")
    manager.save("a", "far", "alpha and nothing of the others")
    manager.save("a", "near", "alpha beta gamma delta")
    assert related_keys(manager, "a", "one") == ["near", "far"]
    first = manager.get_related(manager.recall("a", "one").id, limit=1)
    assert [r.memory.key for r in first] == ["near"]


@pytest.mark.contract("K-E6")
def test_without_the_table_nothing_is_related(db: Notebook, manager: MemoryManager) -> None:
    saved = manager.save("a", "k", "alpha")
    db.sqlite.connection.execute("drop table memory_cross_refs")
    assert manager.get_related(saved.id) == []
    assert manager.save("a", "k", "beta").content == "beta"


def test_words_that_everybody_uses_still_relate_the_latest(
    db: Notebook, manager: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relations, "_MOST_POSTINGS", 10)
    for number in range(20):
        manager.save("a", f"k{number}", "common")
    manager.save("a", "last", "common")
    assert len(related_keys(manager, "a", "last")) == 10


@pytest.mark.contract("K-T4")
def test_references_go_with_their_notes(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "one", "alpha beta")
    manager.save("a", "two", "alpha beta")
    db.sqlite.connection.execute("delete from agent_memories where key = 'one'")
    assert db.sqlite.connection.execute("select * from memory_cross_refs").fetchall() == []
