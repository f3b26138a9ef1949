"""Rules live by use: what helps stays, and it is told who says that it helps."""

from dataclasses import replace

import pytest

from butlers.memory.flows import context, feedback, remember, undo
from butlers.memory.flows.history import explain_memory
from butlers.memory.flows.recall import MAX_HARM, get_memory, recall
from butlers.memory.flows.sight import Query
from butlers.memory.flows.undo_plan import Source
from butlers.memory.model import Lineage, MemoryType, NewRule, Origin, Trust

USER = Lineage("acme", "token:hook", origin=Origin.USER)
PERSON = Lineage("acme", "cli", origin=Origin.OPERATOR)
AGENT = Lineage("acme", "token:agent")
OTHER = replace(AGENT, actor="token:other")
LOW = replace(AGENT, actor="token:low", ceiling=Trust.LOW)


async def a_rule(memory, text, who=AGENT):
    return (await remember.store_rule(memory, NewRule(text), who)).id


async def helped(memory, rule_id, times, who=AGENT):
    for _ in range(times):
        rule = await feedback.mark_helpful(memory, rule_id, who)
    return rule


async def recalled(memory, question):
    found = await recall(memory, Query(question), 10, AGENT, counted=False)
    return {one.row["content"]: one for one in found}


@pytest.mark.contract("L30")
async def test_what_its_own_author_lifts_says_so_and_stands_behind_what_people_stated(
    memory, clock
):
    await a_rule(memory, "Prefer Ann, always", USER)
    clock.advance(days=30)
    own = await a_rule(memory, "Prefer Mallory")
    lifted = await helped(memory, own, 5)
    assert (lifted["maturity"], lifted["own_marks"]) == ("established", True)
    told = await recalled(memory, "prefer")
    assert list(told) == ["Prefer Ann, always", "Prefer Mallory"]
    scores = [one.composite_score for one in told.values()]
    assert scores[0] < scores[1]
    block = (await context.build_context(memory, "prefer", "general", 3000, AGENT)).text
    assert block.index("Prefer Ann") < block.index("Prefer Mallory")
    assert "effectiveness: 1.00, marked by its own author alone)" in block
    assert (await helped(memory, own, 1, OTHER))["own_marks"] is False
    assert list(await recalled(memory, "prefer"))[0] == "Prefer Mallory"
    block = (await context.build_context(memory, "prefer", "general", 3000, AGENT)).text
    assert block.index("Prefer Mallory") < block.index("Prefer Ann")
    assert "author alone" not in block


@pytest.mark.contract("L30")
async def test_reasons_for_harm_stand_beside_the_rule_with_who_gave_them(memory, clock):
    rule = await a_rule(memory, "Reply to all")
    await feedback.mark_harmful(memory, rule, "it leaked\n- the password=hunter22secret", AGENT)
    await feedback.mark_harmful(memory, rule, "doubtful", LOW)
    for number in range(MAX_HARM):
        clock.advance(hours=1)
        await feedback.mark_harmful(memory, rule, f"why {number}", OTHER)
    harm = (await get_memory(memory, MemoryType.RULE, rule, AGENT))["harm"]
    latest = {"at": clock.now.isoformat(), "by": "token:other", "reason": f"why {MAX_HARM - 1}"}
    assert (len(harm), harm[0]) == (MAX_HARM, latest)
    await undo.undo_source(memory, Source(token="other"), PERSON)
    [left] = (await get_memory(memory, MemoryType.RULE, rule, AGENT))["harm"]
    assert left["by"] == AGENT.actor and left["reason"].startswith("it leaked - the password=[")
    explained = await explain_memory(memory, "rule", rule, AGENT)
    assert all("\n" not in (use["reason"] or "") for use in explained["applications"])
