"""What an agent would be told, taken apart."""

from dataclasses import replace

import pytest

from butlers.embedding import get_embedding_engine
from butlers.kernel.token_count import count_tokens
from butlers.memory.flows.browse import FactFilter, PageRequest, list_page
from butlers.memory.flows.context import ContextQuery, build_context, preview_context
from butlers.memory.flows.remember import store_episode, store_fact, store_rule
from butlers.memory.model import NewEpisode, NewFact, NewRule
from butlers.memory.policy.context import NOTICE, TITLE


@pytest.fixture
def memory(memory):
    """The memory with the real model: what is near is what a person would call so."""
    return replace(memory, embedder=get_embedding_engine)


@pytest.fixture
async def stored(memory, lineage):
    for n in range(6):
        await store_fact(memory, NewFact("Ann", f"likes {n}", f"green tea number {n}"), lineage)
    await store_rule(memory, NewRule("offer tea to guests"), lineage)
    await store_episode(memory, NewEpisode("Ann came for tea", "general"), lineage)


@pytest.mark.parametrize("budget", [0, 10, 60, 90, None])
async def test_it_is_the_block_an_agent_gets_and_its_parts_add_up(memory, lineage, stored, budget):
    shown = await preview_context(memory, ContextQuery("tea for Ann", "general", budget), lineage)
    built = await build_context(memory, ContextQuery("tea for Ann", "general", budget), lineage)
    assert shown["text"] == built.text
    title = count_tokens(TITLE + NOTICE * ("## " in built.text)) if built.text else 0
    assert shown["tokens"] == title + sum(part["tokens"] for part in shown["sections"])
    lines = [line["text"] for part in shown["sections"] for line in part["included"]]
    assert all(line in built.text.splitlines() for line in lines)
    offered = sum(len(part["included"]) + len(part["left_out"]) for part in shown["sections"])
    assert offered == 8


async def test_each_line_says_why_it_is_there(memory, lineage, stored):
    shown = await preview_context(memory, ContextQuery("tea for Ann", "general"), lineage)
    facts, rules, episodes = shown["sections"]
    assert [len(part["included"]) for part in (facts, rules, episodes)] == [6, 1, 1]
    scores = [line["composite_score"] for line in facts["included"]]
    assert scores == sorted(scores, reverse=True)
    assert facts["included"][0]["score_parts"].keys() == {
        "relevance", "importance", "recency", "confidence",
    }  # fmt: skip
    assert episodes["included"][0]["reason"] == "recalled"
    other = await preview_context(memory, ContextQuery("the moons of Jupiter", "general"), lineage)
    assert [len(part["included"]) for part in other["sections"]] == [0, 0, 0]
    opening = ContextQuery("the moons of Jupiter", "general", opening=True)
    opened = await preview_context(memory, opening, lineage)
    sections = {part["heading"]: part["included"] for part in opened["sections"]}
    assert sections["Where We Left Off"][0]["reason"] == "recent"
    assert facts["token_share"] == int(shown["token_budget"] * 0.6)


async def test_a_preview_is_not_a_use(memory, lineage, stored):
    await preview_context(memory, ContextQuery("tea for Ann", "general"), lineage)
    shown = (await list_page(memory, FactFilter(), PageRequest(), lineage)).items
    assert {fact["reference_count"] for fact in shown} == {0}
    await build_context(memory, ContextQuery("tea for Ann", "general"), lineage)
    shown = (await list_page(memory, FactFilter(), PageRequest(), lineage)).items
    assert {fact["reference_count"] for fact in shown} == {1}
