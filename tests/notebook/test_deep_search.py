"""Deep search: a callback ranks the candidates, and is believed only so far."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from butlers.notebook import (
    AgentMemory,
    MemoryManager,
    Notebook,
    ScoredMemory,
    Source,
    deep_search,
    fast_search,
    search,
)


@pytest.fixture
def notes(manager: MemoryManager) -> MemoryManager:
    for number in range(6):
        manager.save("a", f"k{number}", "cluster " + "word " * number)
    manager.save("a", "elsewhere", "noodles")
    manager.save("b", "foreign", "cluster")
    return manager


class Ranker:
    """A callback that scores as told and remembers what it was asked."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores = scores
        self.asked: tuple[str, list[str], int] | None = None

    async def __call__(
        self, query: str, candidates: Sequence[AgentMemory], limit: int
    ) -> list[ScoredMemory]:
        self.asked = (query, sorted(m.key for m in candidates), limit)
        return [
            ScoredMemory(m, self.scores[m.key], Source.TFIDF)
            for m in candidates
            if m.key in self.scores
        ]


def ranked(found: Sequence[ScoredMemory]) -> list[tuple[str, float, str]]:
    return [(r.memory.key, r.score, r.source) for r in found]


@pytest.mark.contract("K-S4", "K-I15")
async def test_without_a_callback_it_is_a_fast_search(db: Notebook, notes: MemoryManager) -> None:
    expected = fast_search(db, "a", "cluster")
    assert len(expected) == 6
    assert await deep_search(db, "a", "cluster") == expected
    result = await notes.search("a", "cluster", {"mode": "deep"})
    assert result.memories == expected


@pytest.mark.contract("K-A1", "K-A3", "K-A2")
async def test_the_callback_ranks_the_agents_candidates(db: Notebook, notes: MemoryManager) -> None:
    ranker = Ranker({"k4": 0.9, "k0": 0.3})
    notes.set_deep_search_fn(ranker)
    result = await notes.search("a", "cluster", {"mode": "deep", "limit": 5})
    assert ranked(result.memories) == [("k4", 0.9, "llm"), ("k0", 0.3, "llm")]
    assert (result.mode, result.total_candidates) == ("deep", 6)
    assert ranker.asked == ("cluster", ["k0", "k1", "k2", "k3", "k4", "k5"], 5)
    assert await search(db, "a", "cluster", {"mode": "deep"}, ranker) == result.memories


@pytest.mark.contract("K-A2")
async def test_the_callback_may_come_with_the_options(db: Notebook, notes: MemoryManager) -> None:
    manager = MemoryManager(db, {"deep_search_fn": Ranker({"k2": 0.5})})
    result = await manager.search("a", "cluster", {"mode": "deep"})
    assert ranked(result.memories) == [("k2", 0.5, "llm")]


@pytest.mark.contract("K-I3")
async def test_its_scores_decay_too(db: Notebook, notes: MemoryManager, clock) -> None:
    clock.advance(days=200)
    notes.save("a", "new", "cluster")
    found = await deep_search(db, "a", "cluster", None, Ranker({"k1": 1.0, "new": 0.5}))
    assert ranked(found) == [("new", 0.5, "llm"), ("k1", 0.4, "llm")]


@pytest.mark.contract("K-E3", "K-I15")
async def test_a_callback_that_fails_is_logged_and_passed_over(
    db: Notebook, notes: MemoryManager
) -> None:
    async def fails(query: str, candidates: object, limit: int) -> list[ScoredMemory]:
        raise ConnectionError("no model")

    with capture_logs() as logs:
        found = await deep_search(db, "a", "cluster", None, fails)
    assert found == fast_search(db, "a", "cluster")
    assert [(entry["log_level"], entry["error"]) for entry in logs] == [("warning", "no model")]


@pytest.mark.contract("L24")
@pytest.mark.parametrize("answer", [None, "text", [1, 2], [{"memory": "k1"}], 7])
async def test_an_answer_of_another_shape_is_a_failure(
    db: Notebook, notes: MemoryManager, answer: object
) -> None:
    async def odd(query: str, candidates: object, limit: int) -> object:
        return answer

    assert await deep_search(db, "a", "cluster", None, odd) == fast_search(db, "a", "cluster")


@pytest.mark.contract("L24", "K-I1")
async def test_the_answer_is_confined_to_the_candidates(db: Notebook, notes: MemoryManager) -> None:
    foreign, elsewhere = notes.recall("b", "foreign"), notes.recall("a", "elsewhere")
    mine = notes.recall("a", "k1")

    async def liar(query: str, candidates: object, limit: int) -> list[ScoredMemory]:
        forged = replace(mine, content="forged", agent_id="b")
        unusable = notes.recall("a", "k2")
        return [
            ScoredMemory(foreign, 1.0, Source.LLM),
            ScoredMemory(elsewhere, 1.0, Source.LLM),
            ScoredMemory(unusable, math.nan, Source.LLM),
            ScoredMemory(unusable, -1.0, Source.LLM),
            ScoredMemory(forged, 0.7, Source.FTS5),
            ScoredMemory(forged, 0.9, Source.FTS5),
        ]

    found = await deep_search(db, "a", "cluster", None, liar)
    assert ranked(found) == [("k1", 0.7, "llm")]
    assert found[0].memory.content == mine.content


@pytest.mark.contract("L24")
async def test_the_answer_is_limited(db: Notebook, notes: MemoryManager) -> None:
    ranker = Ranker({f"k{number}": number / 10 for number in range(6)})
    found = await deep_search(db, "a", "cluster", {"limit": 2}, ranker)
    assert ranked(found) == [("k5", 0.5, "llm"), ("k4", 0.4, "llm")]


async def test_an_answer_that_nothing_fits_is_believed(db: Notebook, notes: MemoryManager) -> None:
    assert await deep_search(db, "a", "cluster", None, Ranker({})) == []


async def test_without_candidates_nobody_is_asked(db: Notebook, notes: MemoryManager) -> None:
    ranker = Ranker({})
    assert await deep_search(db, "a", "zebra", None, ranker) == []
    assert ranker.asked is None
