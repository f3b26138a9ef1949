"""What low trust stores: found apart, told last and little of it, gone after its time."""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from uuid import uuid4

import pytest
from bench.rivals import WAYS, measure

from butlers.embedding import get_embedding_engine
from butlers.errors import Conflict
from butlers.memory.flows import (
    context,
    correct,
    decisions,
    entities,
    feedback,
    forget,
    links,
    prompt_context,
    recall,
    remember,
)
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.lifecycle.decay_sweep import run_decay_sweep
from butlers.memory.flows.lifecycle.episode_retention import keep_unread, run_episode_cleanup
from butlers.memory.model import (
    Lineage,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Origin,
    SearchMode,
    Trust,
)
from butlers.memory.policy.context import ContextSection
from butlers.memory.policy.trust import LOW_TRUST_SHARE, joined_results, low_trust_room
from butlers.memory.settings import FactsConfig, MemoryModuleConfig
from memory.consolidation_stories import follow, know, tell
from memory.index import differences
from memory.scripted_model import ScriptedModel, answer, fact

OWNER = Lineage("acme", "cli", origin=Origin.OPERATOR)
AGENT = Lineage("acme", "token:agent")
LOW = Lineage("acme", "token:low", ceiling=Trust.LOW)
RIVALS = json.loads(
    (Path(__file__).parents[2] / "bench/stores/authority/rivals.json").read_text("utf-8")
)


async def store(memory, new, who):
    kinds = {NewFact: "fact", NewRule: "rule", NewEpisode: "episode"}
    return (await getattr(remember, f"store_{kinds[type(new)]}")(memory, new, who)).id


async def told(memory, question):
    """What each way tells of the owner's memories, and how many of low trust, all of it last."""
    query, scores = CandidateQuery(question), []
    recalled = await recall.recall(memory, query, 8, AGENT, counted=False)
    scores.append([(one.ref.id, one.composite_score, one.row["trust"]) for one in recalled])
    for mode in SearchMode:
        rows = await recall.search_memories(memory, query, mode, 8, AGENT)
        score = {SearchMode.KEYWORD: "rank", SearchMode.SEMANTIC: "similarity"}.get(mode, "signals")
        scores.append([(row["id"], row[score], row["trust"]) for row in rows])
    wanted = context.ContextQuery(question, "general", 2_000)
    built = await context.build_context(memory, wanted, AGENT, counted=False)
    prompt = prompt_context.PromptQuery(question, "general", 700)
    given = await prompt_context.build_prompt_context(memory, prompt, AGENT)
    for block in (built.block, given.block):
        low = block.included.get(ContextSection.LOW_TRUST, [])
        assert block.text.endswith("".join(line.text for line in low))
        others = [line.text for some in block.included.values() for line in some if line not in low]
        assert not any("low trust" in text for text in others)
        scores.append([(text, 0, 4) for text in others] + [(line.text, 0, 0) for line in low])
    for found in scores:
        trusts = [trust for *_, trust in found]
        assert trusts == sorted(trusts, reverse=True)
    others = [[one for one in found if one[-1] > 0] for found in scores]
    return others, [sum(one[-1] == 0 for one in found) for found in scores]


@pytest.mark.contract("L52", "L37")
async def test_whatever_low_trust_says_the_others_are_told_as_if_it_did_not(memory, owner):
    question = "which port has the staging database"
    for number in range(6):
        await know(memory, OWNER, "staging database", f"note {number}", f"port {5430 + number}")
        await follow(memory, OWNER, f"Always ask before port {number} of staging is opened")
        await tell(memory, OWNER, f"We moved the staging database to port {number}")
    await told(memory, question)  # being told counts as use, which ranks what is told
    before, none = await told(memory, question)
    assert before[0] and before[4] and before[5] and not any(none)
    for number, kind in product(range(14), (NewFact, NewRule, NewEpisode)):
        said = f"{question} {question} staging database port {number}"
        made = {
            NewFact: lambda said, n: NewFact("staging database", f"port {n}", said, importance=10),
            NewRule: lambda said, n: NewRule(f"Always {n} {said}"),
            NewEpisode: lambda said, n: NewEpisode(said, "general", author="Staging Database"),
        }[kind](said, number)
        await store(memory, made, LOW)
    await entities.create_entity(memory, "Port", "person", None, None, LOW)
    await entities.create_entity(memory, "Zanzibar", "place", ["staging", "port"], None, LOW)
    after, low = await told(memory, question)
    # A search keeps room for low trust; everything else has it where others left room.
    for place, (was, now) in enumerate(zip(before, after, strict=True)):
        assert now == (was[: len(now)] if 0 < place < 4 else was)
    assert all(count <= 2 for count in low[:4]) and low[4] and low[5] <= 1
    assert await differences(owner) == []


@pytest.mark.contract("L52")
@pytest.mark.parametrize("form", ["facts", "mixed"])
async def test_the_owners_fact_comes_first_beside_forty_rivals(memory, form):
    real = replace(memory, embedder=get_embedding_engine)
    topics = [one for one in RIVALS if one["half"] == "build"][:4]
    first, missed = await measure(real, topics, form, 40)
    assert missed == [] and set(first.values()) == {4} and set(first) == set(WAYS)


@pytest.mark.contract("L52")
async def test_what_only_low_trust_knows_is_told_within_its_share(memory):
    for number in range(30):
        await know(memory, LOW, "harbour", f"crane {number}", f"crane {number} of the harbour")
    found = await recall.recall(memory, CandidateQuery("harbour crane"), 10, AGENT)
    assert len(found) == 2 and {one.row["trust"] for one in found} == {Trust.LOW}
    searched = CandidateQuery("harbour crane")
    assert len(await recall.search_memories(memory, searched, SearchMode.HYBRID, 10, AGENT)) == 10
    wanted = context.ContextQuery("harbour crane", "general", 3_000)
    block = (await context.build_context(memory, wanted, AGENT)).block
    assert len(block.included[ContextSection.LOW_TRUST]) == 2
    opening = context.ContextQuery("", "general", 3_000, opening=True)
    block = (await context.build_context(memory, opening, AGENT)).block
    assert 0 < len(block.included[ContextSection.LOW_TRUST]) <= 2


@pytest.mark.contract("L52", "L50")
async def test_of_low_trust_the_merely_nearest_is_not_told(memory):
    fact = await know(memory, OWNER, "harbour", "crane", "crane of the harbour is yellow")
    await know(memory, LOW, "garden", "roses", "roses by the door")
    query = CandidateQuery("Which harbour crane is yellow?")
    found = await recall.recall(memory, query, 10, AGENT, nearest=True)
    assert [one.ref.id for one in found] == [fact]


@pytest.mark.contract("L52")
async def test_one_long_memory_of_low_trust_does_not_fill_a_block(memory):
    await know(memory, OWNER, "harbour", "crane", "crane of the harbour is yellow")
    await know(memory, LOW, "harbour", "crane colour", "harbour crane " * 150)
    await know(memory, LOW, "harbour", "crane size", "harbour crane small")
    wanted = context.ContextQuery("harbour crane", "general", 800)
    block = (await context.build_context(memory, wanted, AGENT)).block
    [line] = block.included[ContextSection.LOW_TRUST]
    assert "small" in line.text and "yellow" in block.text


@pytest.mark.contract("L52")
@pytest.mark.parametrize("others", range(0, 60, 7))
@pytest.mark.parametrize("limit", [1, 2, 5, 10, 50])
def test_low_trust_has_a_quarter_at_most_and_never_the_place_of_another(others, limit):
    known = min(others, limit)
    room = low_trust_room(known, limit)
    assert room <= max(1, int(limit * LOW_TRUST_SHARE)) and known + room <= limit
    found = [f"other {number}" for number in range(others)]
    joined = joined_results(found, ["low"] * 50, 50, limit)
    assert len(joined) == limit
    kept = [one for one in joined if one != "low"]
    assert kept == found[: len(kept)] and joined[: len(kept)] == kept
    assert len(kept) >= min(others, limit - max(1, limit // 4)) and (kept or not others)


@pytest.mark.contract("L52")
async def test_what_the_session_knows_better_is_not_followed_by_low_trust_alone(memory):
    fact = await know(memory, OWNER, "harbour", "crane", "crane of the harbour is yellow")
    await know(memory, LOW, "harbour", "crane colour", "crane of the harbour is green")
    prompt = prompt_context.PromptQuery("which harbour crane", "general", 700)
    both = (await prompt_context.build_prompt_context(memory, prompt, AGENT)).block.text
    assert both.index("yellow") < both.index("green")
    later = replace(prompt, exclude=frozenset({fact}))
    assert (
        "green" not in (await prompt_context.build_prompt_context(memory, later, AGENT)).block.text
    )


@pytest.mark.contract("L52")
async def test_low_trust_is_gone_after_thirty_days_unless_somebody_else_confirms_it(
    memory, owner, clock
):
    begun = clock.now
    facts = [await know(memory, LOW, "crane", name, name) for name in ("ours", "theirs", "again")]
    rules = [await follow(memory, LOW, f"Use crane {name}") for name in ("ours", "theirs")]
    kept = await know(memory, OWNER, "harbour", "master", "Ann")
    unread = await tell(memory, LOW, "the crane is green")
    for day in (10, 20, 29):
        clock.now = begun + timedelta(days=day)
        for kind, ids in (("fact", facts), ("rule", rules)):
            with pytest.raises(Conflict, match="low trust"):
                await feedback.confirm_memory(memory, kind, ids[0], LOW)
            assert await feedback.confirm_memory(memory, kind, ids[1], AGENT)
        await feedback.mark_helpful(memory, rules[0], LOW)
        again = await remember.store_fact(memory, NewFact("crane", "again", "again"), LOW)
        assert not again.confirmed
        await recall.get_memory(memory, MemoryType.FACT, facts[0], AGENT)
        await keep_unread(memory, OWNER)
        await run_decay_sweep(memory, OWNER)
    assert await owner.fetchval("select count(*) from episodes where id = $1", unread) == 1
    clock.now = begun + timedelta(days=31)
    await keep_unread(memory, OWNER)
    await run_episode_cleanup(memory, OWNER)
    await run_decay_sweep(memory, OWNER)
    active = await owner.fetch("select id from facts where validity = 'active'")
    assert {row["id"] for row in active} == {facts[1], kept}
    forgotten = "select id from rules where rule_state(metadata) = 'forgotten'"
    assert [row["id"] for row in await owner.fetch(forgotten)] == [rules[0]]
    assert await owner.fetchval("select count(*) from episodes") == 0


@pytest.mark.contract("L52")
async def test_pieces_of_sessions_of_low_trust_end_after_thirty_days_too(memory, owner):
    for who, text in ((LOW, "the crane is green"), (AGENT, "the harbour opens at nine")):
        await store(memory, NewEpisode(text, "general", piece="said"), who)
    rows = await owner.fetch("select expires_at - created_at as days from episodes order by trust")
    assert [row["days"].days for row in rows] == [30, 365]


@pytest.mark.contract("L52")
async def test_a_person_who_says_what_low_trust_says_is_not_taken_for_it(memory, owner):
    memory.settings = MemoryModuleConfig(facts=FactsConfig(same_again="confirm"))
    first = await know(memory, LOW, "crane", "colour", "green")
    second = await know(memory, OWNER, "crane", "colour", "green")
    assert first != second
    row = await owner.fetchrow("select trust, decay_rate from facts where id = $1", second)
    assert row["trust"] == Trust.STATED and row["decay_rate"] < 0.01


@pytest.mark.contract("L52", "L30")
async def test_marks_of_low_trust_count_for_no_rule_its_own_included(memory):
    own, theirs = await follow(memory, LOW, "Be brief"), await follow(memory, OWNER, "Be kind")
    for rule in (own, theirs):
        for _ in range(6):
            lifted = await feedback.mark_helpful(memory, rule, LOW)
            harmed = await feedback.mark_harmful(memory, rule, "bad", LOW)
        assert (lifted["maturity"], lifted["success_count"]) == ("candidate", 0)
        assert (harmed["harmful_count"], harmed["effectiveness_score"]) == (0, 0)
    assert (await feedback.mark_helpful(memory, own, AGENT))["success_count"] == 1


@pytest.mark.contract("L52", "L40")
async def test_low_trust_makes_nothing_of_others_outdated_or_doubtful(memory):
    episode = await tell(memory, OWNER, "the crane is yellow")
    drawn = await know(memory, LOW, "crane", "paint", "yellow", source_episode_id=episode)
    await correct.correct_fact(memory, drawn, "green", LOW)
    past = await know(memory, OWNER, "crane", "height", "ten metres")
    await know(memory, OWNER, "crane", "height", "twelve metres")
    for kind, id, relation in (("episode", episode, "derived_from"), ("fact", drawn, "depends_on")):
        with pytest.raises(Conflict, match="more trusted"):
            await links.create_link(memory, "fact", past, kind, id, relation, LOW)
    row = await recall.get_memory(memory, MemoryType.EPISODE, episode, AGENT)
    assert not row["outdated_by"]
    own = await tell(memory, LOW, "the crane is blue")
    await know(memory, LOW, "crane", "tint", "blue", source_episode_id=own)
    await forget.forget_memory(memory, "fact", await know(memory, LOW, "crane", "tint", "red"), LOW)
    row = await recall.get_memory(memory, MemoryType.EPISODE, own, AGENT)
    assert row["outdated_by"]


@pytest.mark.contract("L52")
async def test_low_trust_ends_and_revives_no_decision_of_others(memory):
    ids = [
        await store(memory, NewEpisode(said, "general", piece="decision", session_id=uuid4()), who)
        for said, who in (("We release on Tuesdays.", OWNER), ("We release on Fridays.", LOW))
    ]
    with pytest.raises(Conflict, match="more trusted"):
        await decisions.retire_decision(memory, ids[0], None, LOW)
    assert await decisions.retire_decision(memory, ids[0], None, OWNER)
    with pytest.raises(Conflict, match="more trusted"):
        await decisions.restore_decision(memory, ids[0], LOW)
    assert await decisions.restore_decision(memory, ids[0], OWNER)
    block = await context.build_context(
        memory, context.ContextQuery("", "general", 3_000, opening=True), AGENT
    )
    assert "Tuesdays" in block.text and "Fridays" not in block.text


@pytest.mark.contract("L52")
async def test_a_memory_that_gains_trust_is_found_among_the_others(memory, owner):
    rule = await follow(memory, LOW, "Paint cranes green")
    fact = await know(memory, LOW, "crane", "colour", "green")
    docs = "select memory_id, doc from index_memories"
    assert all(row["doc"] < 0 for row in await owner.fetch(docs))
    for table, id in (("facts", fact), ("rules", rule)):
        await owner.execute(f"update {table} set trust = 4 where id = $1", id)
    assert all(row["doc"] > 0 for row in await owner.fetch(docs))
    found = await recall.recall(memory, CandidateQuery("crane colour green"), 5, AGENT)
    assert [one.ref for one in found][:1] == [MemoryRef(MemoryType.FACT, fact)]
    assert await differences(owner) == []
    await owner.execute("update facts set trust = 0")
    assert await differences(owner) == []


@pytest.mark.contract("L52", "L11")
async def test_what_a_person_said_is_drawn_although_low_trust_said_it_before(memory, owner):
    await know(memory, LOW, "crane", "colour", "green", scope="general")
    await follow(memory, LOW, "Paint cranes green", scope="general")
    await tell(memory, OWNER, "The crane is green, paint cranes green")
    model = ScriptedModel(
        answer(
            new_facts=[fact("crane", "colour", "green")],
            new_rules=[{"content": "Paint cranes green", "tags": []}],
        )
    )
    report = await run_consolidation(memory, model, OWNER)
    assert (report.facts_created, report.rules_created) == (1, 1)
    assert "green" not in model.prompts[0].split("<episode")[0]
    drawn = await owner.fetch("select trust from facts where validity = 'active'")
    assert [row["trust"] for row in drawn] == [Trust.INFERRED]
    await tell(memory, LOW, "The crane is green")
    await know(memory, LOW, "crane", "size", "small", scope="general")
    [(low, confirmed)] = await owner.fetch(
        "select id, last_confirmed_at from facts where content = 'small'"
    )
    again = ScriptedModel(answer(new_facts=[fact("crane", "size", "small")]))
    report = await run_consolidation(memory, again, OWNER)
    assert (report.facts_created, report.confirmations_made, report.proposals_made) == (0, 0, 0)
    assert (
        await owner.fetchval("select last_confirmed_at from facts where id = $1", low) == confirmed
    )


@pytest.mark.contract("L52")
async def test_low_trust_takes_no_position_in_a_session_of_others(memory, owner):
    session = uuid4()
    for who in (OWNER, LOW, LOW, OWNER):
        said = NewEpisode("we paint the crane", "general", session_id=session)
        await store(memory, said, who)
    rows = await owner.fetch("select place from index_memories order by abs(doc)")
    assert [row["place"] for row in rows] == [1, 1, 2, 2]
