"""One score: the most relevant memory first, whatever was used before."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.embedding import get_embedding_engine
from butlers.memory.flows import recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.model import Lineage, NewFact
from butlers.memory.policy import ranker

STORES = Path(__file__).parents[2] / "bench" / "stores"


@pytest.mark.contract("L48")
async def test_a_new_fact_comes_before_one_that_is_permanent_and_used(memory, clock):
    """Somebody stores a fact, asks for it, stores another about the same, and asks for that."""
    real, first = replace(memory, embedder=get_embedding_engine), []
    for line in (STORES / "new_after_used.jsonl").read_text("utf-8").splitlines():
        variant = json.loads(line)
        lineage = Lineage(f"tenant-{variant['id']}")
        old = NewFact(**variant["old"], permanence="permanent")
        await remember.store_fact(real, old, lineage)
        await recall.recall(real, CandidateQuery(variant["old_question"]), None, lineage)
        clock.advance(minutes=1)
        new = (await remember.store_fact(real, NewFact(**variant["new"]), lineage)).id
        query = CandidateQuery(variant["new_question"])
        found = await recall.recall(real, query, None, lineage)
        if found and found[0].ref.id == new:
            first.append(variant["id"])
    assert "v1" in first, "the lines of the README"
    # The others were written blind; of a few, the model takes the old fact for the nearer one.
    assert len(first) >= 14, first


@pytest.mark.contract("L48")
@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 1)), max_size=30))
def test_nothing_comes_before_what_is_more_than_twice_as_relevant(pairs):
    relevance, composite = [one for one, _ in pairs], [other for _, other in pairs]
    order = ranker.ordered_by_relevance(relevance, composite)
    assert sorted(order) == list(range(len(pairs)))
    for place, first in enumerate(order):
        assert all(relevance[first] >= relevance[later] / 2 for later in order[place:])
    if relevance and min(relevance) >= max(relevance) / 2:
        assert [composite[n] for n in order] == sorted(composite, reverse=True)
