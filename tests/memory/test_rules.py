"""Rules live by use: what helps stays, and it is told who says that it helps."""

from dataclasses import replace

import pytest

from butlers.memory.flows import context, feedback, remember, undo
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.history import explain_memory
from butlers.memory.flows.lifecycle.decay_sweep import run_decay_sweep
from butlers.memory.flows.lookup import memory_detail
from butlers.memory.flows.recall import MAX_HARM, get_memory, recall
from butlers.memory.flows.undo_plan import UndoSource
from butlers.memory.model import Lineage, Maturity, MemoryRef, MemoryType, NewRule, Origin, Trust
from memory.index import differences

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
    found = await recall(memory, CandidateQuery(question), 10, AGENT, counted=False)
    return {one.row["content"]: one for one in found}


TEXTS = ("Offer tea to guests", "Offer soup to guests", "Offer beer to guests")


async def told(memory):
    """What of these is told where it is asked for: by recall, and in a context."""
    answers = set()
    for text in TEXTS:
        found = any(text in one for one in await recalled(memory, text))
        block = await context.build_context(
            memory, context.ContextQuery(text, "general", 3000), AGENT, counted=False
        )
        assert (text in block.text) is found
        answers |= {text.split()[1]} if found else set()
    return answers


async def months(memory, clock, number, used=()):
    """So many months go by, the sweep at work and some rules in use."""
    for _ in range(number):
        clock.advance(days=30)
        await run_decay_sweep(memory, AGENT)
        for rule_id in used:
            await helped(memory, rule_id, 1)


@pytest.mark.contract("L30", "R09.3")
async def test_a_rule_is_told_while_it_is_used_and_a_warning_for_ever(memory, clock, owner):
    tea, soup, beer = [await a_rule(memory, text, USER) for text in TEXTS]
    for reason in ("it spilled", "they drove", "they sang"):
        await feedback.mark_harmful(memory, beer, reason, PERSON)
    await months(memory, clock, 3)
    clock.advance(days=2)
    await run_decay_sweep(memory, AGENT)
    assert await told(memory) == {"beer"}
    assert (await helped(memory, tea, 16))["maturity"] == "proven"
    assert await told(memory) == {"tea", "beer"}
    await months(memory, clock, 9, used=[tea])
    assert await told(memory) == {"tea", "beer"}
    states = dict(await owner.fetch("select id, rule_state(metadata) from rules"))
    assert states == {tea: "active", soup: "forgotten", beer: "active"}
    await months(memory, clock, 24)
    assert await told(memory) == {"tea", "beer"}
    assert await differences(owner) == []


@pytest.mark.contract("L30", "L4")
async def test_maturity_puts_a_floor_under_a_rule_that_all_agree_on(memory, clock, owner):
    rules = {m: await a_rule(memory, f"Offer tea: {m}") for m in Maturity}
    for name, rule_id in rules.items():
        await owner.execute("update rules set maturity = $2 where id = $1", rule_id, name)
    await months(memory, clock, 36)
    assert dict(await owner.fetch("select maturity, rule_state(metadata) from rules")) == {
        "candidate": "forgotten", "established": "fading", "proven": "active",
        "anti_pattern": "active",
    }  # fmt: skip
    for name, left, found_by in (("established", 0.1, 0.1), ("proven", 0.25, 0.25)):
        explained = await explain_memory(memory, "rule", rules[name], AGENT)
        assert explained["effective_confidence"] == left and explained["expires_at"] is None
        assert (explained["fades_at"] is None) == (name == "proven")
        detail = await memory_detail(memory, MemoryRef(MemoryType.RULE, rules[name]), AGENT)
        assert detail["forecast"][-1]["confidence"] == left
        for least, there in ((found_by, True), (found_by + 1e-9, False)):
            query = CandidateQuery("Offer tea", min_confidence=least)
            found = await recall(memory, query, 10, AGENT, counted=False)
            assert (rules[name] in [one.ref.id for one in found]) is there
    assert await differences(owner) == []
    fallen = rules[Maturity.ESTABLISHED]
    await owner.execute("update rules set maturity = 'candidate' where id = $1", fallen)
    assert (await run_decay_sweep(memory, AGENT)).rules_forgotten == 1


@pytest.mark.contract("L30")
async def test_what_its_own_author_lifts_says_so_and_stands_behind_what_people_stated(
    memory, clock
):
    await a_rule(memory, "Prefer Ann, always", USER)
    clock.advance(days=30)
    own = await a_rule(memory, "Prefer Mallory")
    lifted = await helped(memory, own, 5)
    assert (lifted["maturity"], lifted["own_marks"]) == ("established", True)
    found = await recalled(memory, "prefer")
    assert list(found) == ["Prefer Ann, always", "Prefer Mallory"]
    scores = [one.composite_score for one in found.values()]
    assert scores[0] < scores[1]
    block = (
        await context.build_context(memory, context.ContextQuery("prefer", "general", 3000), AGENT)
    ).text
    assert block.index("Prefer Ann") < block.index("Prefer Mallory")
    assert "effectiveness: 1.00, via an agent, marked by its own author alone)" in block
    assert (await helped(memory, own, 1, OTHER))["own_marks"] is False
    assert list(await recalled(memory, "prefer"))[0] == "Prefer Ann, always"
    block = (
        await context.build_context(memory, context.ContextQuery("prefer", "general", 3000), AGENT)
    ).text
    assert block.index("Prefer Ann") < block.index("Prefer Mallory"), "no person stated it"
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
    await undo.undo_source(memory, UndoSource(token="other"), PERSON)
    [left] = (await get_memory(memory, MemoryType.RULE, rule, AGENT))["harm"]
    assert left["by"] == AGENT.actor and left["reason"].startswith("it leaked - the password=[")
    explained = await explain_memory(memory, "rule", rule, AGENT)
    uses = explained["applications"]
    assert [use["reason"] for use in uses if use["counted"]] == [left["reason"]]
    assert len(uses) == MAX_HARM + 2 and all("\n" not in use["reason"] for use in uses)
