"""Where memories come from and what became of them."""

import math
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.memory.flows import feedback, forget, history, links, remember
from butlers.memory.model import NewEpisode, NewFact, NewRule, Permanence
from butlers.memory.policy.confidence import Waning

BORN = datetime(2026, 1, 1, tzinfo=UTC)


async def types(memory, memory_id, lineage):
    """What happened to a memory, in order."""
    told = await history.memory_history(memory, memory_id, lineage)
    return [event["event_type"] for event in told]


@pytest.mark.contract("R33.1", "R33.2")
async def test_a_history_tells_everything_in_order(memory, lineage, stranger, clock):
    episode = await remember.store_episode(memory, NewEpisode("Ann called", "general"), lineage)
    first = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    await feedback.confirm_memory(memory, "fact", first.id, lineage)
    await links.create_link(
        memory, "fact", first.id, "episode", episode.id, "derived_from", lineage
    )
    second = await remember.store_fact(memory, NewFact("Ann", "likes", "milk"), lineage)
    await links.create_link(memory, "fact", second.id, "fact", first.id, "contradicts", lineage)
    await forget.forget_memory(memory, "fact", first.id, lineage)
    assert await types(memory, first.id, lineage) == [
        "fact_created",
        "fact_confirmed",
        "link_created",
        "fact_superseded",
        "fact_retracted",
    ]
    assert await types(memory, episode.id, lineage) == ["episode_created", "link_created"]
    assert await types(memory, second.id, lineage) == ["fact_created"]
    assert await types(memory, first.id, stranger) == []
    assert await types(memory, uuid.uuid4(), lineage) == []


async def test_an_event_says_who_when_and_in_which_request(memory, lineage, clock):
    rule = await remember.store_rule(memory, NewRule("be brief"), lineage)
    (told,) = await history.memory_history(memory, str(rule.id), lineage)
    assert (told["actor"], told["request_id"]) == ("tester", "request-1")
    assert (told["created_at"], told["memory_id"]) == (clock.now.isoformat(), str(rule.id))


async def test_an_explanation_follows_the_chain_in_both_directions(memory, lineage, clock):
    stored = []
    for content in ("tea", "coffee", "milk", "water"):
        stored.append(
            (await remember.store_fact(memory, NewFact("Ann", "likes", content), lineage)).id
        )
        clock.advance(days=1)
    explained = await history.explain_memory(memory, "fact", str(stored[2]), lineage)
    born = clock.now - timedelta(days=4)
    assert [
        (one["id"], one["content"], one["created_at"], one["replaced_at"])
        for one in explained["replaced"]
    ] == [
        (str(stored[1]), "coffee", (born + timedelta(days=1)).isoformat(),
         (born + timedelta(days=2)).isoformat()),
        (str(stored[0]), "tea", born.isoformat(), (born + timedelta(days=1)).isoformat()),
    ]  # fmt: skip
    assert [(one["id"], one["content"]) for one in explained["replaced_by"]] == [
        (str(stored[3]), "water")
    ]
    assert (explained["memory"]["state"], explained["fades_at"]) == ("superseded", None)


async def test_facts_that_replaced_each_other_are_explained_without_end(memory, lineage):
    tea = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    milk = await remember.store_fact(memory, NewFact("Ann", "likes", "milk"), lineage)
    await links.create_link(memory, "fact", tea.id, "fact", milk.id, "supersedes", lineage)
    explained = await history.explain_memory(memory, "fact", tea.id, lineage)
    assert {one["content"] for one in explained["replaced"]} == {"tea", "milk"}


async def test_sources_are_named_also_when_they_are_gone(memory, lineage, owner, clock):
    kept = await remember.store_episode(memory, NewEpisode("Ann called", "general"), lineage)
    gone = await remember.store_episode(memory, NewEpisode("Ann wrote", "general"), lineage)
    lost = await remember.store_episode(memory, NewEpisode("Ann came", "general"), lineage)
    new = NewFact("Ann", "likes", "tea", source_butler="general", source_episode_id=gone.id)
    fact = await remember.store_fact(memory, new, lineage)
    for episode in (kept, lost):
        await links.create_link(
            memory, "fact", fact.id, "episode", episode.id, "derived_from", lineage
        )
    await owner.execute("delete from episodes where id = any($1)", [gone.id, lost.id])
    explained = await history.explain_memory(memory, "fact", fact.id, lineage)
    assert explained["source_butler"] == "general"
    sources = {one["id"]: (one["gone"], one["content"]) for one in explained["source_episodes"]}
    assert sources == {
        str(gone.id): (True, None),
        str(kept.id): (False, "Ann called"),
        str(lost.id): (True, None),
    }


async def test_an_explanation_says_who_confirmed_and_when_it_will_fade(memory, lineage, clock):
    new = NewFact("Ann", "likes", "tea", permanence=Permanence.VOLATILE)
    fact = await remember.store_fact(memory, new, lineage)
    clock.advance(days=5)
    await feedback.confirm_memory(memory, "fact", fact.id, lineage)
    confirmed = clock.now
    clock.advance(days=10)
    explained = await history.explain_memory(memory, "fact", fact.id, lineage)
    assert explained["confirmations"] == [
        {"at": confirmed.isoformat(), "by": "tester", "request_id": "request-1"}
    ]
    assert explained["effective_confidence"] == pytest.approx(math.exp(-0.3))
    fades = datetime.fromisoformat(explained["fades_at"]) - confirmed
    expires = datetime.fromisoformat(explained["expires_at"]) - confirmed
    assert fades / timedelta(days=1) == pytest.approx(math.log(1 / 0.2) / 0.03)
    assert expires / timedelta(days=1) == pytest.approx(math.log(1 / 0.05) / 0.03)


async def test_explaining_is_no_use_and_stays_within_the_tenant(memory, lineage, stranger, owner):
    fact = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    before = await owner.fetchrow("select * from facts")
    for _ in range(2):
        explained = await history.explain_memory(memory, "fact", fact.id, lineage)
    assert explained["reference_count"] == 0
    assert await owner.fetchrow("select * from facts") == before
    assert await history.explain_memory(memory, "fact", fact.id, stranger) is None
    assert await history.explain_memory(memory, "rule", fact.id, lineage) is None


async def test_a_rule_is_explained_by_its_applications(memory, lineage, clock):
    rule = await remember.store_rule(memory, NewRule("reply to all"), lineage)
    await feedback.mark_helpful(memory, rule.id, lineage, {"task": "mail"})
    clock.advance(hours=1)
    await feedback.mark_harmful(memory, rule.id, "it leaked", lineage)
    explained = await history.explain_memory(memory, "rule", rule.id, lineage)
    assert [
        (one["outcome"], one["reason"], one["context"], one["actor"])
        for one in explained["applications"]
    ] == [("harmful", "it leaked", {}, "tester"), ("helpful", None, {"task": "mail"}, "tester")]


async def test_an_episode_is_explained_by_what_was_drawn_from_it(memory, lineage):
    episode = await remember.store_episode(memory, NewEpisode("Ann called", "general"), lineage)
    fact = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    await links.create_link(memory, "fact", fact.id, "episode", episode.id, "derived_from", lineage)
    explained = await history.explain_memory(memory, "episode", episode.id, lineage)
    assert (explained["source_butler"], explained["source_episodes"]) == ("general", [])
    assert [link["source_id"] for link in explained["links"]] == [str(fact.id)]
    assert explained["expires_at"] == episode.expires_at.isoformat()


@given(
    confidence=st.floats(0.01, 1),
    rate=st.sampled_from([0.002, 0.008, 0.01, 0.03, 0.1]),
    threshold=st.floats(0.01, 0.99),
    kept=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
)
def test_confidence_falls_below_a_threshold_when_foretold(confidence, rate, threshold, kept):
    waning = Waning(confidence, rate, BORN, confidence * kept)
    at, a_while = waning.falls_below_at(threshold), timedelta(seconds=10)
    if at is None:
        assert waning.left_at(BORN + timedelta(days=36_500)) >= threshold
        return
    assert waning.left_at(at + a_while) < threshold
    if at > BORN + a_while:
        assert waning.left_at(at - a_while) > threshold


def test_what_never_falls_has_no_day():
    assert Waning(1.0, 0.0, BORN).falls_below_at(0.2) is None
    assert Waning(1.0, 0.008, BORN).falls_below_at(0.0) is None
    assert Waning(1.0, 1e-12, BORN).falls_below_at(0.2) is None
    assert Waning(1.0, 0.008, None).falls_below_at(0.2) is None
    assert Waning(0.5, 0.01, BORN, 0.2).falls_below_at(0.2) is None
