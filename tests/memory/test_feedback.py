"""Confirmations, and marks that move rules."""

import asyncio
import json
import uuid
from collections import Counter
from dataclasses import replace

import pytest

from butlers.errors import InvalidInput, NotFound, Unavailable
from butlers.memory.flows import feedback, forget, remember
from butlers.memory.model import NewEpisode, NewFact, NewRule, Trust
from memory.audit_stream import event_types, events, fade, metadata, sizes


@pytest.fixture
async def rule_id(memory, lineage):
    """A rule to mark."""
    return (await remember.store_rule(memory, NewRule("reply to all"), lineage)).id


async def be(owner, rule_id, **columns):
    """Put a rule where a test needs it."""
    for name, value in columns.items():
        await owner.execute(f"update rules set {name} = $2 where id = $1", rule_id, value)


def no_model():
    """What happens when the embedding model cannot be loaded."""
    raise Unavailable("the embedding model is not installed")


class Interrupted:
    """A real embedder during whose first work something else happens."""

    def __init__(self, model, meanwhile):
        self._model, self._meanwhile = model, meanwhile
        self.model, self.version, self.dimensions = model.model, model.version, model.dimensions

    async def embed_batch_async(self, texts):
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await self._model.embed_batch_async(texts)


# Confirming


@pytest.mark.contract("R05.7", "N7.1")
@pytest.mark.parametrize("kind", ["fact", "rule"])
async def test_confirming_restarts_decay_and_is_told(memory, lineage, owner, clock, kind):
    fact = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    rule = await remember.store_rule(memory, NewRule("be brief"), lineage)
    chosen, born = (fact if kind == "fact" else rule), clock.now
    clock.advance(days=9)
    assert await feedback.confirm_memory(memory, kind, str(chosen.id), lineage) is True
    confirmed = await owner.fetchval(
        f"select last_confirmed_at from {kind}s where id = $1", chosen.id
    )
    assert confirmed == clock.now
    told = (await events(owner, chosen.id))[1:]
    assert [event["event_type"] for event in told] == [f"{kind}_confirmed"]
    assert told[0]["payload"] == {
        "last_confirmed_at": {"from": born.isoformat(), "to": clock.now.isoformat()}
    }


@pytest.mark.contract("L6")
@pytest.mark.parametrize("kind", ["fact", "rule"])
async def test_confirming_lifts_fading_once(memory, lineage, owner, kind):
    fact = await remember.store_fact(
        memory, NewFact("Ann", "likes", "tea", metadata={"kept": 1}), lineage
    )
    rule = await remember.store_rule(memory, NewRule("be brief", metadata={"kept": 1}), lineage)
    chosen = fact if kind == "fact" else rule
    await fade(owner, f"{kind}s", chosen.id)
    confirmed = await asyncio.gather(
        *(feedback.confirm_memory(memory, kind, chosen.id, lineage) for _ in range(3))
    )
    assert confirmed == [True, True, True]
    assert await metadata(owner, f"{kind}s", chosen.id) == {"kept": 1}
    assert Counter((await event_types(owner, chosen.id))[1:]) == {
        f"{kind}_confirmed": 3,
        f"{kind}_recovered": 1,
    }


@pytest.mark.contract("R05.7")
async def test_an_episode_cannot_be_confirmed(memory, lineage):
    episode = await remember.store_episode(memory, NewEpisode("x", "general"), lineage)
    with pytest.raises(ValueError, match="memory_type: found 'episode'; valid are fact, rule"):
        await feedback.confirm_memory(memory, "episode", episode.id, lineage)


@pytest.mark.contract("R05.7")
async def test_only_what_is_in_use_and_ones_own_can_be_confirmed(memory, lineage, stranger, owner):
    old = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    new = await remember.store_fact(memory, NewFact("Ann", "likes", "milk"), lineage)
    rule = await remember.store_rule(memory, NewRule("be brief"), lineage)
    await forget.forget_memory(memory, "rule", rule.id, lineage)
    before = await sizes(owner)
    assert not await feedback.confirm_memory(memory, "fact", old.id, lineage)
    assert not await feedback.confirm_memory(memory, "rule", rule.id, lineage)
    assert not await feedback.confirm_memory(memory, "fact", uuid.uuid4(), lineage)
    assert not await feedback.confirm_memory(memory, "fact", new.id, stranger)
    assert await sizes(owner) == before


@pytest.mark.contract("L19")
async def test_what_cannot_be_confirmed_is_refused_by_field(memory, lineage):
    with pytest.raises(InvalidInput, match="memory_type: found 'note'; valid are episode, fact"):
        await feedback.confirm_memory(memory, "note", uuid.uuid4(), lineage)
    with pytest.raises(InvalidInput, match="memory_id: found 'seven'; valid is a UUID"):
        await feedback.confirm_memory(memory, "fact", "seven", lineage)


# Marking


@pytest.mark.contract("R21.1", "N7.1")
async def test_a_helpful_mark_counts(memory, lineage, owner, clock, rule_id):
    await be(owner, rule_id, applied_count=2, success_count=1, harmful_count=1)
    born = clock.now
    clock.advance(days=1)
    rule = await feedback.mark_helpful(memory, str(rule_id), lineage)
    row = await owner.fetchrow("select * from rules")
    assert (row["applied_count"], row["success_count"], row["harmful_count"]) == (3, 2, 1)
    assert row["effectiveness_score"] == 2 / 3
    assert row["last_applied_at"] == row["last_evaluated_at"] == clock.now
    assert (rule["id"], rule["success_count"], rule["maturity"]) == (str(rule_id), 2, "candidate")
    told = (await events(owner, rule_id))[1:]
    assert [event["event_type"] for event in told] == ["rule_marked_helpful"]
    assert told[0]["payload"] == {
        "applied_count": {"from": 2, "to": 3},
        "success_count": {"from": 1, "to": 2},
        "harmful_count": {"from": 1, "to": 1},
        "effectiveness_score": {"from": 0.0, "to": 2 / 3},
        "last_confirmed_at": {"from": born.isoformat(), "to": clock.now.isoformat()},
    }


@pytest.mark.contract("L30", "L6")
async def test_only_a_helpful_mark_that_counts_confirms(memory, lineage, owner, clock, rule_id):
    kept = "select last_confirmed_at, metadata ->> 'status' from rules where id = $1"
    born = clock.now
    await fade(owner, "rules", rule_id)
    clock.advance(days=1)
    await feedback.mark_harmful(memory, rule_id, None, lineage)
    await feedback.mark_helpful(memory, rule_id, replace(lineage, ceiling=Trust.LOW))
    assert tuple(await owner.fetchrow(kept, rule_id)) == (born, "fading")
    assert "last_confirmed_at" not in (await events(owner, rule_id))[-1]["payload"]
    await asyncio.gather(*(feedback.mark_helpful(memory, rule_id, lineage) for _ in range(3)))
    assert tuple(await owner.fetchrow(kept, rule_id)) == (clock.now, None)
    assert (await event_types(owner, rule_id)).count("rule_recovered") == 1


@pytest.mark.contract("R21.2", "N5.3", "N7.1")
async def test_a_harmful_mark_counts_four_times_and_keeps_its_reason(
    memory, lineage, owner, clock, rule_id
):
    await be(owner, rule_id, applied_count=9, success_count=8, harmful_count=1)
    clock.advance(days=1)
    await feedback.mark_harmful(memory, rule_id, " it \x00leaked ", lineage)
    row = await owner.fetchrow("select * from rules")
    assert (row["applied_count"], row["success_count"], row["harmful_count"]) == (10, 8, 2)
    assert row["effectiveness_score"] == 8 / (8 + 4 * 2 + 0.01)
    assert row["last_applied_at"] == clock.now
    assert json.loads(row["metadata"]) == {"harmful_reasons": ["it leaked"]}
    await feedback.mark_harmful(memory, rule_id, None, lineage)
    rule = await feedback.mark_harmful(memory, rule_id, "people complained", lineage)
    assert rule["metadata"]["harmful_reasons"] == ["it leaked", "people complained"]
    assert (await events(owner, rule_id))[1]["payload"]["reason"] == "it leaked"


@pytest.mark.contract("R03.1", "R03.2")
async def test_helpful_marks_promote_step_by_step(memory, lineage, owner, clock, rule_id):
    async def helped(times):
        for _ in range(times):
            rule = await feedback.mark_helpful(memory, rule_id, lineage)
        return rule["maturity"]

    assert await helped(4) == "candidate"
    assert await helped(1) == "established"
    assert await helped(15) == "established"
    clock.advance(days=30)
    assert await helped(1) == "proven"
    moves = [e["payload"] for e in await events(owner, rule_id) if "promoted" in e["event_type"]]
    assert moves == [
        {"from": "candidate", "to": "established"},
        {"from": "established", "to": "proven"},
    ]
    assert await owner.fetchval("select maturity from rules") == "proven"


@pytest.mark.contract("R03.3", "R03.4")
async def test_harmful_marks_demote_step_by_step(memory, lineage, owner, rule_id):
    await be(owner, rule_id, maturity="proven", applied_count=16, success_count=16)
    stages = []
    for _ in range(3):
        rule = await feedback.mark_harmful(memory, rule_id, None, lineage)
        stages.append((rule["maturity"], round(rule["effectiveness_score"], 3)))
    assert stages == [("established", 0.8), ("established", 0.666), ("candidate", 0.571)]
    moves = [e["payload"] for e in await events(owner, rule_id) if "demoted" in e["event_type"]]
    assert moves == [
        {"from": "proven", "to": "established"},
        {"from": "established", "to": "candidate"},
    ]


@pytest.mark.contract("R30.1")
async def test_every_mark_is_a_rule_application(memory, lineage, owner, clock, rule_id):
    await feedback.mark_helpful(memory, rule_id, lineage, {"task": "mail\x00"})
    clock.advance(hours=1)
    await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    rows = await owner.fetch("select * from rule_applications order by created_at")
    assert [
        (row["rule_id"], row["outcome"], row["reason"], json.loads(row["context"])) for row in rows
    ] == [
        (rule_id, "helpful", None, {"task": "mail"}),
        (rule_id, "harmful", "it leaked", {}),
    ]
    assert [(row["actor"], row["request_id"], row["tenant_id"]) for row in rows] == [
        ("tester", "request-1", "acme")
    ] * 2
    assert rows[1]["created_at"] == clock.now


async def test_marks_at_once_all_count(memory, lineage, owner, rule_id):
    await be(owner, rule_id, applied_count=90, success_count=90)
    await asyncio.gather(
        *(feedback.mark_helpful(memory, rule_id, lineage) for _ in range(5)),
        *(feedback.mark_harmful(memory, rule_id, f"why {i}", lineage) for i in range(5)),
    )
    row = await owner.fetchrow("select * from rules")
    assert (row["applied_count"], row["success_count"], row["harmful_count"]) == (100, 95, 5)
    reasons = json.loads(row["metadata"])["harmful_reasons"]
    assert sorted(reasons) == [f"why {i}" for i in range(5)]
    assert await owner.fetchval("select count(*) from rule_applications") == 10


@pytest.mark.contract("L19", "L22")
async def test_a_mark_that_cannot_be_used_changes_nothing(
    memory, lineage, stranger, owner, rule_id
):
    before = await sizes(owner), await owner.fetchrow("select * from rules")
    with pytest.raises(InvalidInput, match=r"reason: found a text of 2001 .* at most 2000"):
        await feedback.mark_harmful(memory, rule_id, "x" * 2001, lineage)
    with pytest.raises(InvalidInput, match="context: found"):
        await feedback.mark_helpful(memory, rule_id, lineage, {"x": {1, 2}})
    with pytest.raises(InvalidInput, match="rule_id: found 'x'"):
        await feedback.mark_helpful(memory, "x", lineage)
    with pytest.raises(NotFound, match="rule_id: rule .* does not exist"):
        await feedback.mark_helpful(memory, uuid.uuid4(), lineage)
    with pytest.raises(NotFound, match="rule_id: rule .* does not exist"):
        await feedback.mark_harmful(memory, rule_id, None, stranger)
    assert (await sizes(owner), await owner.fetchrow("select * from rules")) == before


async def test_a_blank_reason_is_none_and_the_mark_counts(memory, lineage, rule_id):
    rule = await feedback.mark_harmful(memory, rule_id, " \x00\n", lineage)
    assert rule["harmful_count"] == 1
    assert "harmful_reasons" not in rule["metadata"]


async def test_a_forgotten_rule_takes_no_marks(memory, lineage, owner, rule_id):
    await forget.forget_memory(memory, "rule", rule_id, lineage)
    before = await sizes(owner)
    with pytest.raises(NotFound, match="was forgotten"):
        await feedback.mark_harmful(memory, rule_id, None, lineage)
    assert await sizes(owner) == before


# Inverting

WARNING = "ANTI-PATTERN: Do NOT reply to all. This caused problems because: "


@pytest.mark.contract("R03.5", "R21.3", "L7")
async def test_the_third_harmful_mark_turns_a_useless_rule_into_a_warning(
    memory, lineage, owner, clock, rule_id
):
    for reason in ("it leaked", None):
        rule = await feedback.mark_harmful(memory, rule_id, reason, lineage)
        assert rule["maturity"] == "candidate"
    clock.advance(days=1)
    rule = await feedback.mark_harmful(memory, rule_id, "people complained", lineage)
    text = WARNING + "it leaked; people complained"
    assert (rule["maturity"], rule["content"]) == ("anti_pattern", text)
    assert rule["metadata"] == {
        "harmful_reasons": ["it leaked", "people complained"],
        "original_content": "reply to all",
    }
    row = await owner.fetchrow(
        "select embedding::text, search_vector = to_tsvector('english', content) as indexed, "
        "maturity, content from rules"
    )
    vector = [float(x) for x in row["embedding"].strip("[]").split(",")]
    assert vector == pytest.approx(memory.embedder().embed(text), abs=1e-6)
    assert (row["indexed"], row["maturity"], row["content"]) == (True, "anti_pattern", text)
    told = (await events(owner, rule_id))[-1]
    assert (told["event_type"], told["payload"]) == (
        "rule_inverted",
        {
            "from": "candidate",
            "to": "anti_pattern",
            "original_content": "reply to all",
            "reasons": ["it leaked", "people complained"],
        },
    )


@pytest.mark.contract("L7")
async def test_a_fallen_rule_is_demoted_and_inverted_by_one_mark(memory, lineage, owner, rule_id):
    await be(
        owner, rule_id, maturity="established", applied_count=4, success_count=2, harmful_count=2
    )
    rule = await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    assert rule["maturity"] == "anti_pattern"
    assert (await event_types(owner, rule_id))[1:] == [
        "rule_marked_harmful",
        "rule_demoted",
        "rule_inverted",
    ]


@pytest.mark.contract("L7")
async def test_a_warning_is_final_though_marks_still_count(memory, lineage, owner, rule_id):
    for _ in range(3):
        await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    inverted = await owner.fetchval("select content from rules")
    for _ in range(20):
        rule = await feedback.mark_helpful(memory, rule_id, lineage)
    rule = await feedback.mark_harmful(memory, rule_id, "again", lineage)
    assert (rule["maturity"], rule["content"]) == ("anti_pattern", inverted)
    assert (rule["success_count"], rule["harmful_count"]) == (20, 4)
    assert rule["metadata"]["original_content"] == "reply to all"
    assert (await event_types(owner, rule_id)).count("rule_inverted") == 1


@pytest.mark.contract("R21.3", "L7")
async def test_without_a_model_the_mark_stands_and_the_inversion_waits(
    memory, lineage, stranger, owner, rule_id
):
    model, memory.embedder = memory.embedder, no_model
    for _ in range(3):
        rule = await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    assert (rule["maturity"], rule["harmful_count"], rule["content"]) == (
        "candidate",
        3,
        "reply to all",
    )
    assert (await metadata(owner, "rules", rule_id))["needs_inversion"] is True
    assert await feedback.invert_waiting(memory, lineage) == 0
    memory.embedder = model
    assert await feedback.invert_waiting(memory, stranger) == 0
    assert await feedback.invert_waiting(memory, lineage) == 1
    assert await feedback.invert_waiting(memory, lineage) == 0
    row = await owner.fetchrow("select maturity, content from rules")
    assert tuple(row) == ("anti_pattern", WARNING + "it leaked")
    assert "needs_inversion" not in await metadata(owner, "rules", rule_id)
    assert (await event_types(owner, rule_id)).count("rule_inverted") == 1


@pytest.mark.contract("L7")
async def test_a_waiting_rule_is_inverted_by_the_next_harmful_mark(memory, lineage, rule_id):
    model, memory.embedder = memory.embedder, no_model
    for _ in range(3):
        await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    memory.embedder = model
    rule = await feedback.mark_harmful(memory, rule_id, "again", lineage)
    assert rule["content"] == WARNING + "it leaked; again"


@pytest.mark.contract("L7")
async def test_a_waiting_rule_that_proves_useful_or_is_forgotten_is_left_alone(
    memory, lineage, owner, rule_id
):
    other = (await remember.store_rule(memory, NewRule("shout"), lineage)).id
    model, memory.embedder = memory.embedder, no_model
    for each in (rule_id, other) * 3:
        await feedback.mark_harmful(memory, each, None, lineage)
    for _ in range(2):
        await feedback.mark_helpful(memory, rule_id, lineage)
    await forget.forget_memory(memory, "rule", other, lineage)
    memory.embedder = model
    assert await feedback.invert_waiting(memory, lineage) == 0
    assert await owner.fetchval("select count(*) from rules where maturity = 'candidate'") == 2


@pytest.mark.contract("L7")
async def test_harmful_marks_at_once_invert_once(memory, lineage, owner, rule_id):
    await asyncio.gather(
        *(feedback.mark_harmful(memory, rule_id, f"why {i}", lineage) for i in range(8))
    )
    row = await owner.fetchrow("select maturity, content, harmful_count from rules")
    assert (row["maturity"], row["harmful_count"]) == ("anti_pattern", 8)
    assert row["content"].startswith(WARNING + "why ")
    assert row["content"].count("ANTI-PATTERN") == 1
    assert (await event_types(owner, rule_id)).count("rule_inverted") == 1
    assert "needs_inversion" not in await metadata(owner, "rules", rule_id)


async def nearly_harmful(memory, lineage, rule_id, meanwhile):
    """A rule one harmful mark short of inversion, and something to happen during that mark."""
    for _ in range(2):
        await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    interrupted = Interrupted(memory.embedder(), meanwhile)
    memory.embedder = lambda: interrupted


@pytest.mark.contract("L7")
async def test_a_rule_forgotten_while_its_warning_is_made_stays_as_it_was(
    memory, lineage, owner, rule_id
):
    async def meanwhile():
        await forget.forget_memory(memory, "rule", rule_id, lineage)

    await nearly_harmful(memory, lineage, rule_id, meanwhile)
    await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    row = await owner.fetchrow("select maturity, content from rules")
    assert tuple(row) == ("candidate", "reply to all")
    assert (await metadata(owner, "rules", rule_id))["forgotten"] is True


@pytest.mark.contract("L7")
async def test_a_reason_given_while_the_warning_is_made_is_part_of_it(
    memory, lineage, owner, rule_id
):
    async def meanwhile():
        await feedback.mark_harmful(memory, rule_id, "people complained", lineage)

    await nearly_harmful(memory, lineage, rule_id, meanwhile)
    await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    text = WARNING + "it leaked; people complained"
    assert await owner.fetchval("select content from rules") == text
    assert (await event_types(owner, rule_id)).count("rule_inverted") == 1


@pytest.mark.contract("L7")
async def test_a_warning_made_of_old_reasons_is_not_written(memory, lineage, owner, rule_id):
    async def meanwhile():
        model, memory.embedder = memory.embedder, no_model
        await feedback.mark_harmful(memory, rule_id, "people complained", lineage)
        memory.embedder = model

    await nearly_harmful(memory, lineage, rule_id, meanwhile)
    await feedback.mark_harmful(memory, rule_id, "it leaked", lineage)
    assert await owner.fetchval("select content from rules") == "reply to all"
    assert await feedback.invert_waiting(memory, lineage) == 1
    text = WARNING + "it leaked; people complained"
    assert await owner.fetchval("select content from rules") == text
