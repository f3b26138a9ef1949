"""Fast search: candidates from the index, TF-IDF over the agent's whole corpus, decay."""

import math

import pytest

from butlers.errors import InvalidInput
from butlers.notebook import (
    MemoryManager,
    Notebook,
    SearchOptions,
    fast_search,
    save_memory,
    search,
    search_memories,
)


def keys(found) -> list[str]:
    return [result.memory.key for result in found]


def frequencies(db: Notebook) -> dict[str, int]:
    return dict(db.sqlite.connection.execute("select term, documents from memory_frequencies"))


@pytest.mark.contract("K-S7", "K-I1")
def test_each_agent_finds_its_own(db: Notebook, manager: MemoryManager) -> None:
    for agent in ("agent1", "agent2", "agent1 OR agent2"):
        manager.save(agent, "cluster", f"Kubernetes of {agent}")
    found = fast_search(db, "agent1", "Kubernetes")
    assert [(r.memory.agent_id, r.memory.content) for r in found] == [
        ("agent1", "Kubernetes of agent1")
    ]
    assert fast_search(db, "agent3", "Kubernetes") == []


@pytest.mark.contract("K-I1")
def test_many_strangers_do_not_crowd_out_the_agents_own(db: Notebook) -> None:
    save_memory(db, "before", "k", "kubernetes " * 5)
    save_memory(db, "me", "mine", "a long text that says kubernetes once among many other words")
    for number in range(60):
        save_memory(db, "after", f"k{number}", "kubernetes kubernetes")
    assert keys(fast_search(db, "me", "kubernetes")) == ["mine"]


@pytest.mark.contract("K-E2")
@pytest.mark.parametrize("query", ["zebra", "", "  ", "?!", "\x00", "%", "_", '"', "*", "()"])
def test_no_match_is_an_empty_list(db: Notebook, query: str) -> None:
    save_memory(db, "a", "k", '100% of the snake_case "quoted" things')
    assert fast_search(db, "a", query) == []
    assert search_memories(db, "a", query) == []


@pytest.mark.contract("L24")
@pytest.mark.parametrize(
    "query",
    [
        'tea" OR "coffee',
        "tea NOT green",
        "tea AND NEAR(",
        "content:tea",
        "tea*",
        "-tea",
        "^tea",
        "{tea}",
        "tea'; drop table agent_memories; --",
        "t%a tea",
        "tea\x00",
    ],
)
def test_operators_are_plain_text(db: Notebook, query: str) -> None:
    save_memory(db, "a", "drink", "green tea")
    save_memory(db, "a", "pot", "teapot")
    save_memory(db, "a", "far", "t something a")
    assert keys(fast_search(db, "a", query)) == ["drink", "pot"]


def test_words_of_any_script_and_spelling_are_found(db: Notebook) -> None:
    save_memory(db, "a", "hindi", "मुझे हिन्दी पसंद है")
    save_memory(db, "a", "cafe", "le café d'Émile")
    assert keys(fast_search(db, "a", "हिन्दी")) == ["hindi"]
    assert keys(fast_search(db, "a", "cafe EMILE")) == ["cafe"]
    assert keys(fast_search(db, "a", "cafe\u0301")) == ["cafe"]


def test_a_query_of_stop_words_finds_them(db: Notebook) -> None:
    save_memory(db, "a", "hamlet", "to be or not to be")
    save_memory(db, "a", "other", "something else")
    assert keys(fast_search(db, "a", "or not")) == ["hamlet"]


@pytest.mark.contract("K-I17")
def test_scores_blend_rank_and_cosine(db: Notebook) -> None:
    save_memory(db, "a", "k1", "kubernetes")
    save_memory(db, "a", "k2", "kubernetes cluster")
    save_memory(db, "a", "k3", "noodles")
    rarity = {"kubernetes": math.log(4 / 3), "cluster": math.log(4 / 2)}
    key_weight = math.log(4 / 2)  # every key is a term of its own
    cosine = {
        "k1": rarity["kubernetes"] / math.hypot(rarity["kubernetes"], key_weight),
        "k2": rarity["kubernetes"] / math.hypot(*rarity.values(), key_weight),
    }
    found = fast_search(db, "a", "kubernetes")
    assert keys(found) == ["k1", "k2"]
    assert [r.score for r in found] == pytest.approx(
        [0.4 * 1.0 + 0.6 * cosine["k1"], 0.4 * 0.55 + 0.6 * cosine["k2"]]
    )
    assert {r.source for r in found} == {"combined"}


@pytest.mark.contract("K-I17")
def test_where_terms_weigh_nothing_the_index_decides(db: Notebook) -> None:
    save_memory(db, "a", "k1", "kubernetes kubernetes kubernetes")
    save_memory(db, "a", "k2", "kubernetes and much else besides that dilutes it")
    found = fast_search(db, "a", "kubernetes")
    assert [(r.memory.key, r.score, r.source) for r in found] == [
        ("k1", 1.0, "fts5"),
        ("k2", 0.55, "fts5"),
    ]


@pytest.mark.contract("L24")
def test_the_corpus_is_every_note_of_the_agent_not_the_candidates(db: Notebook) -> None:
    save_memory(db, "a", "both", "alpha beta")
    for number in range(8):
        save_memory(db, "a", f"n{number}", "alpha")
    # Every candidate holds alpha; only among all notes is it rare enough to weigh anything.
    assert {r.source for r in fast_search(db, "a", "alpha")} == {"fts5"}
    for number in range(8):
        save_memory(db, "a", f"m{number}", "gamma")
    assert {r.source for r in fast_search(db, "a", "alpha")} == {"combined"}
    # Another agent's notes change nothing.
    before = [(r.memory.key, r.score) for r in fast_search(db, "a", "alpha beta")]
    for number in range(8):
        save_memory(db, "b", f"m{number}", "alpha beta")
    assert [(r.memory.key, r.score) for r in fast_search(db, "a", "alpha beta")] == before


@pytest.mark.contract("L24")
def test_document_frequencies_are_kept_exactly(db: Notebook) -> None:
    save_memory(db, "a", "one", "alpha alpha beta")
    save_memory(db, "a", "two", "alpha gamma")
    assert frequencies(db) == {"one": 1, "two": 1, "alpha": 2, "beta": 1, "gamma": 1}
    save_memory(db, "a", "one", "delta")
    assert frequencies(db) == {"one": 1, "two": 1, "alpha": 1, "gamma": 1, "delta": 1}
    db.sqlite.connection.execute("update agent_memories set archived = 1 where key = 'two'")
    assert frequencies(db) == {"one": 1, "delta": 1}
    db.sqlite.connection.execute("delete from agent_memories")
    assert frequencies(db) == {}
    assert db.sqlite.connection.execute("select documents from memory_owners").fetchall() == [(0,)]


@pytest.mark.contract("K-I3")
def test_results_are_ranked_after_decay(db: Notebook, manager: MemoryManager, clock) -> None:
    manager.save("a", "filler", "noodles")
    manager.save("a", "old", "kubernetes")
    clock.advance(days=200)
    manager.save("a", "new", "kubernetes with other words around it")
    found = manager.search_fast("a", "kubernetes")
    assert keys(found) == ["new", "old"]
    assert [r.score for r in found] == sorted((r.score for r in found), reverse=True)


@pytest.mark.contract("K-I18", "K-A2")
def test_a_category_filters_unless_nothing_would_be_left(manager: MemoryManager) -> None:
    manager.save("a", "password", "secret of the cluster")
    manager.save("a", "todo", "remind me of the cluster deadline")
    assert keys(manager.search_fast("a", "cluster", {"category": "task"})) == ["todo"]
    unfiltered = keys(manager.search_fast("a", "cluster"))
    assert sorted(unfiltered) == ["password", "todo"]
    assert keys(manager.search_fast("a", "cluster", {"category": "person"})) == unfiltered
    assert keys(manager.search_fast("a", "cluster", {"category": "nonsense"})) == unfiltered


@pytest.mark.contract("K-I18")
def test_the_category_is_applied_before_the_limit(manager: MemoryManager) -> None:
    manager.save("a", "todo", "remind me of something at the cluster before the deadline is over")
    for number in range(60):
        manager.save("a", f"password{number}", "secret cluster")
    assert keys(manager.search_fast("a", "cluster", {"category": "task", "limit": 1})) == ["todo"]


@pytest.mark.contract("K-A2")
def test_limit_and_similarity(manager: MemoryManager) -> None:
    manager.save("a", "filler", "noodles")
    for number in range(30):
        manager.save("a", f"k{number}", "cluster " + "word " * number)
    assert len(manager.search_fast("a", "cluster")) == 10
    assert len(manager.search_fast("a", "cluster", {"limit": 25})) == 25
    best = manager.search_fast("a", "cluster", {"limit": 30})
    threshold = best[4].score
    assert keys(
        manager.search_fast("a", "cluster", {"limit": 30, "min_similarity": threshold})
    ) == [r.memory.key for r in best if r.score >= threshold]


@pytest.mark.contract("K-I2")
def test_age_alone_takes_nothing_out(manager: MemoryManager, clock) -> None:
    manager.save("a", "k", "cluster")
    clock.advance(days=400)
    (found,) = manager.search_fast("a", "cluster", {"min_similarity": 0.9})
    assert found.score == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("opts", "named"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"limit": 10_001}, "limit is 10001"),
        ({"limit": "5"}, "limit is '5'"),
        ({"mode": "slow"}, "mode is 'slow'"),
        ({"min_similarity": 1.5}, "min_similarity is 1.5"),
        ({"min_similarity": math.nan}, "min_similarity is nan"),
        ({"limt": 3}, "limt"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    db: Notebook, opts: SearchOptions, named: str
) -> None:
    with pytest.raises(InvalidInput, match=named):
        fast_search(db, "a", "query", opts)


@pytest.mark.contract("K-A1")
async def test_search_is_fast_unless_told_otherwise(db: Notebook, manager: MemoryManager) -> None:
    manager.save("a", "k", "cluster")
    assert await search(db, "a", "cluster") == fast_search(db, "a", "cluster")
    result = await manager.search("a", "cluster")
    assert (result.memories, result.mode, result.total_candidates) == (
        fast_search(db, "a", "cluster"),
        "fast",
        1,
    )


def test_long_notes_and_long_queries_are_searched(db: Notebook) -> None:
    save_memory(db, "a", "long", " ".join(f"word{n}" for n in range(3_000)))
    save_memory(db, "a", "short", "word2999")
    assert keys(fast_search(db, "a", "word2999")) == ["short", "long"]
    save_memory(db, "a", "other", "elsewhere")
    many = " ".join(f"word{n}" for n in range(100, 5_000))
    assert keys(fast_search(db, "a", many)) == ["long"]


def test_search_reads_candidates_not_every_note(db: Notebook) -> None:
    for number in range(300):
        save_memory(db, "a", f"k{number}", f"common number{number}")
    ran: list[str] = []
    db.sqlite.connection.set_trace_callback(ran.append)
    fast_search(db, "a", "common number7")
    db.sqlite.connection.set_trace_callback(None)
    queries = [statement for statement in ran if statement.startswith(("select", "with"))]
    assert len(queries) == 4
    for statement in queries:
        steps = db.sqlite.connection.execute(f"explain query plan {statement}").fetchall()
        scans = [step[3] for step in steps if step[3].startswith("SCAN")]
        assert not [s for s in scans if "agent_memories" in s or "memory_frequencies" in s]
        assert not [s for s in scans if "memory_documents" in s or s == "SCAN d"]
