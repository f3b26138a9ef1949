"""An answer about claimed episodes, whoever gave it: what it may touch, and what came of it."""

from collections.abc import Sequence
from typing import Any

import structlog

from butlers.db.postgres import Row
from butlers.kernel.mentions import Mentions
from butlers.memory.flows import consolidation_lease as leases
from butlers.memory.flows.consolidation_apply import apply
from butlers.memory.flows.consolidation_lease import Claimed, GivenBack
from butlers.memory.flows.consolidation_report import ActionEffect, Applied, ConsolidationReport
from butlers.memory.handle import Memory
from butlers.memory.model import EntityType, Lineage, Maturity, Permanence
from butlers.memory.policy.consolidation import (
    ConsolidationPrompt,
    KnownEntity,
    KnownFact,
    KnownMemories,
    KnownRule,
    Reach,
)
from butlers.memory.policy.consolidation_parser import ConsolidationResult, parse_consolidation
from butlers.memory.policy.consolidation_plan import EpisodeBatch, plan
from butlers.memory.policy.consolidation_quotes import in_their_words
from butlers.memory.store import consolidation

MOST_ENTITIES = 50
"""How many of those whom the episodes name a prompt shows."""

# Looked for as letters first, which a longer word may hold too.
_MOST_NAMED = 500
_log = structlog.get_logger(__name__)


async def read_known(
    memory: Memory, claimed: Claimed, reach: Reach, lineage: Lineage
) -> KnownMemories:
    """What is shown of what this butler knows."""
    settings = memory.settings.consolidation
    most_facts, most_rules = map(reach.known, (settings.max_known_facts, settings.max_known_rules))
    asked = {"butler": claimed.butler, "episode_ids": claimed.lease.episode_ids}
    async with memory.transaction(lineage) as tx:
        now = memory.now()
        facts = await consolidation.find_known_facts(tx, limit=most_facts, now=now, **asked)
        rules = await consolidation.find_known_rules(tx, limit=most_rules, **asked)
        named = await consolidation.find_named(
            tx, limit=reach.known(_MOST_NAMED), episode_ids=claimed.lease.episode_ids
        )
    texts = [f"{one.author or ''}\n{one.content}" for one in claimed.episodes]
    return known_of(facts, rules, [row for row in named if _is_named(row, texts)][:MOST_ENTITIES])


def known_of(facts: Sequence[Row], rules: Sequence[Row], entities: Sequence[Row]) -> KnownMemories:
    """Rows of facts, rules and entities as what is known."""
    return KnownMemories(
        facts={row["id"]: _fact(row) for row in facts},
        rules={
            row["id"]: KnownRule(row["id"], row["content"], Maturity(row["maturity"]))
            for row in rules
        },
        entities={row["id"]: _entity(row) for row in entities},
    )


async def take_answer(
    memory: Memory, claimed: Claimed, asked: ConsolidationPrompt, answer: str, lineage: Lineage
) -> ConsolidationReport:
    """What came of an answer; one of which nothing can be used is a failed attempt."""
    result = parse_consolidation(answer, asked.shown)
    if asked.is_quoted:
        result = in_their_words(result, claimed.episodes)
    known_to_all = await _known_to_all(memory, result, lineage)
    batch = EpisodeBatch(claimed.butler, claimed.episodes, asked.instructions, known_to_all)
    planned = plan(result, batch, asked.known, memory.settings)
    applied = await apply(memory, claimed, asked.known, planned, lineage)
    if applied.errors and not applied.effects:
        _log.warning(
            "consolidation_attempt_failed", butler=claimed.butler, errors=len(applied.errors)
        )
        return await failed(memory, claimed, applied.errors, lineage)
    return _finished(claimed, applied)


async def failed(
    memory: Memory, claimed: Claimed, errors: list[str], lineage: Lineage
) -> ConsolidationReport:
    """A failed attempt is counted, and told."""
    back = await leases.give_back(memory, claimed.lease, "; ".join(errors), lineage)
    return unfinished(claimed, back, errors)


def unfinished(claimed: Claimed, back: GivenBack, errors: list[str]) -> ConsolidationReport:
    """What is told of episodes that nothing came of."""
    return ConsolidationReport(
        **_group_of(claimed),
        episodes_failed=back.failed,
        episodes_dead_lettered=claimed.dead_lettered + back.dead_lettered,
        errors=[f"{claimed.butler}: {error}" for error in errors],
    )


def _finished(claimed: Claimed, applied: Applied) -> ConsolidationReport:
    return ConsolidationReport(
        **_group_of(claimed),
        facts_created=applied.effects[ActionEffect.FACT_CREATED],
        facts_updated=applied.effects[ActionEffect.FACT_UPDATED],
        rules_created=applied.effects[ActionEffect.RULE_CREATED],
        confirmations_made=applied.effects[ActionEffect.CONFIRMED],
        proposals_made=applied.effects[ActionEffect.PROPOSED],
        episodes_consolidated=applied.consolidated,
        episodes_failed=applied.back.failed,
        episodes_dead_lettered=claimed.dead_lettered + applied.back.dead_lettered,
        errors=[f"{claimed.butler}: {error}" for error in applied.errors],
    )


def _group_of(claimed: Claimed) -> dict[str, Any]:
    episodes = len(claimed.episodes)
    return {
        "episodes_processed": episodes,
        "butlers_processed": 1,
        "groups": {claimed.butler: episodes},
    }


async def _known_to_all(
    memory: Memory, result: ConsolidationResult, lineage: Lineage
) -> frozenset[str]:
    """Which of the subjects every butler knows."""
    names = [entry.subject for entry in result.new_facts]
    if not names:
        return frozenset()
    async with memory.transaction(lineage) as tx:
        rows = await consolidation.find_known_to_all(tx, names=names)
    return frozenset(row["name"] for row in rows)


def _is_named(row: Row, texts: Sequence[str]) -> bool:
    """Whether a name stands there as a word of its own."""
    return any(map(Mentions((row["canonical_name"], *row["aliases"])).in_text, texts))


def _entity(row: Row) -> KnownEntity:
    kind, also = EntityType(row["entity_type"]), tuple(row["aliases"])
    return KnownEntity(row["id"], row["canonical_name"], kind, also, row["is_known_to_all"])


def _fact(row: Row) -> KnownFact:
    columns = {**row, "permanence": Permanence(row["permanence"])}
    return KnownFact(**columns | {"tags": tuple(map(str, row["tags"]))})
