"""Consolidation by the real command lines: from an episode to a fact that names it."""

import json

import pytest

from butlers.memory.flows import history, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.consolidation import run
from butlers.memory.model import NewEpisode, SearchMode
from llm.standins import Say

pytestmark = pytest.mark.slow

EXTRACTED = {
    "new_facts": [
        {
            "subject": "Ann",
            "predicate": "allergy",
            "content": "peanuts",
            "permanence": "permanent",
            "importance": 9,
            "tags": ["health"],
        }
    ],
    "updated_facts": [],
    "new_rules": [{"content": "Ask about allergies at dinner", "tags": []}],
    "confirmations": [],
}


@pytest.mark.contract("R12.2", "R14.1", "N4.2")
@pytest.mark.parametrize("kind", ["claude", "codex"])
async def test_an_episode_becomes_a_fact_that_names_it(kind, request, memory, lineage):
    model = request.getfixturevalue(kind)
    api = request.getfixturevalue("anthropic" if kind == "claude" else "openai")
    api.steps = [Say(json.dumps(EXTRACTED))]
    told = "Ann told us at dinner that she is allergic to peanuts"
    episode = await remember.store_episode(memory, NewEpisode(told, "general"), lineage)
    report = await run.run_consolidation(memory, model, lineage)
    assert (report.facts_created, report.rules_created, report.errors) == (1, 1, [])
    assert report.episodes_consolidated == 1
    query = CandidateQuery("peanuts", types=(recall.MemoryType.FACT,))
    [fact] = await recall.search_memories(memory, query, SearchMode.KEYWORD, 5, lineage)
    assert (fact["subject"], fact["permanence"]) == ("Ann", "permanent")
    explained = await history.explain_memory(memory, "fact", fact["id"], lineage)
    assert [one["id"] for one in explained["source_episodes"]] == [str(episode.id)]
    assert any(told in json.dumps(asked) for asked in api.requests)


@pytest.mark.contract("L10", "N4.4")
async def test_nonsense_from_a_command_line_is_a_failed_attempt(claude, anthropic, memory, lineage):
    anthropic.steps = [Say("I would rather talk about the weather.")] * 8
    await remember.store_episode(memory, NewEpisode("Ann came by", "general"), lineage)
    report = await run.run_consolidation(memory, claude, lineage)
    assert (report.episodes_failed, report.episodes_consolidated) == (1, 0)
    assert report.facts_created == report.rules_created == 0
