"""Turn an answer about claimed episodes into a plan and apply it; let an agent claim and answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from butlers.db.postgres import Row
from butlers.errors import Conflict
from butlers.kernel.mentions import Mentions
from butlers.memory import limits
from butlers.memory.flows.consolidation import lease as leases
from butlers.memory.flows.consolidation.apply import apply
from butlers.memory.flows.consolidation.lease import Claimed, ClaimLimits
from butlers.memory.flows.consolidation.report import Applied, ConsolidationReport
from butlers.memory.handle import Memory
from butlers.memory.model import EntityType, Lineage, Maturity, Permanence
from butlers.memory.policy.consolidation import (
    ConsolidationPrompt,
    EpisodeToRead,
    KnownEntity,
    KnownFact,
    KnownMemories,
    KnownRule,
    Reach,
    build_prompt,
)
from butlers.memory.policy.consolidation_brief import parse_brief
from butlers.memory.policy.consolidation_parser import ConsolidationResult, parse_consolidation
from butlers.memory.policy.consolidation_plan import EpisodeBatch, plan
from butlers.memory.policy.inputs import checked_id
from butlers.memory.store import consolidation, memories, proposals
from butlers.memory.store.consolidation import Lease

_PROMPTS = Path(__file__).parents[2]
TEMPLATE = (_PROMPTS / "consolidation.md").read_text(encoding="utf-8")
BRIEF = (_PROMPTS / "consolidation_brief.md").read_text(encoding="utf-8")

MOST_ENTITIES = 50
"""The number of entities named in the episodes that a prompt shows."""

# Found as substrings first, which a longer word may contain too.
_MOST_NAMED = 500
_IN_USE = ("active", "fading")
_log = structlog.get_logger(__name__)


async def read_known(
    memory: Memory, claimed: Claimed, reach: Reach, lineage: Lineage
) -> KnownMemories:
    """Load the facts, rules and entities that the prompt shows."""
    ids, most = claimed.lease.episode_ids, reach.known
    where = {"butler": claimed.butler, "episode_ids": ids}
    async with memory.transaction(lineage) as tx:
        current = {"limit": most(limits.MAX_KNOWN_FACTS), "now": memory.now(), **where}
        facts = await consolidation.find_known_facts(tx, **current)
        in_use = {"limit": most(limits.MAX_KNOWN_RULES), **where}
        rules = await consolidation.find_known_rules(tx, **in_use)
        named = await consolidation.find_named(tx, limit=most(_MOST_NAMED), episode_ids=ids)
    texts = [f"{episode.author or ''}\n{episode.content}" for episode in claimed.episodes]
    entities = [row for row in named if _is_named(row, texts)][:MOST_ENTITIES]
    return _known_memories(facts, rules, entities)


def _known_memories(
    facts: Sequence[Row], rules: Sequence[Row], entities: Sequence[Row]
) -> KnownMemories:
    return KnownMemories(
        facts={row["id"]: _fact(row) for row in facts},
        rules={row["id"]: _rule(row) for row in rules},
        entities={row["id"]: _entity(row) for row in entities},
    )


async def take_answer(
    memory: Memory, claimed: Claimed, prompt: ConsolidationPrompt, answer: str, lineage: Lineage
) -> ConsolidationReport:
    """Parse, plan and apply an answer; one without any usable entry is a failed attempt."""
    if prompt.statements is None:
        result = parse_consolidation(answer, prompt.shown)
    else:
        result = parse_brief(answer, prompt.statements)
    butler, known_to_all = claimed.butler, await _known_to_all(memory, result, lineage)
    batch = EpisodeBatch(butler, claimed.episodes, prompt.instructions, known_to_all)
    planned = plan(result, batch, prompt.known, memory.settings)
    applied = await apply(memory, claimed, prompt.known, planned, lineage)
    if applied.errors and not applied.effects:
        _log.warning("consolidation_attempt_failed", butler=butler, errors=len(applied.errors))
        return await failed(memory, claimed, applied.errors, lineage)
    return ConsolidationReport.of_batch(claimed, applied)


async def failed(
    memory: Memory, claimed: Claimed, errors: list[str], lineage: Lineage
) -> ConsolidationReport:
    """Count a failed attempt and report it."""
    async with memory.begin(lineage) as work:
        back = await leases.give_back_in(work, claimed.lease, "; ".join(errors))
    return ConsolidationReport.of_batch(claimed, Applied(errors=errors, back=back))


async def _known_to_all(
    memory: Memory, result: ConsolidationResult, lineage: Lineage
) -> frozenset[str]:
    """Return the subjects of new facts that every butler knows."""
    names = [entry.subject for entry in result.new_facts]
    if not names:
        return frozenset()
    async with memory.transaction(lineage) as tx:
        rows = await consolidation.find_known_to_all(tx, names=names)
    return frozenset(row["name"] for row in rows)


def _is_named(row: Row, texts: Sequence[str]) -> bool:
    """Whether a text names an entity, as a whole word."""
    return any(map(Mentions((row["canonical_name"], *row["aliases"])).in_text, texts))


def _entity(row: Row) -> KnownEntity:
    kind, also = EntityType(row["entity_type"]), tuple(row["aliases"])
    return KnownEntity(row["id"], row["canonical_name"], kind, also, row["is_known_to_all"])


def _rule(row: Row) -> KnownRule:
    return KnownRule(row["id"], row["content"], Maturity(row["maturity"]))


def _fact(row: Row) -> KnownFact:
    columns = {name: row[name] for name in KnownFact.__slots__}
    columns |= {"permanence": Permanence(row["permanence"]), "tags": tuple(map(str, row["tags"]))}
    return KnownFact(**columns)


CLAIM_SECONDS = 1800
"""How long a claim lasts; an agent reads between other things."""

MOST_EPISODES, MAX_CHARS = 20, 40_000
_REMEMBERED = timedelta(days=1)
_SUBMIT = (
    "\nGive the object as `answer` to memory_submit_consolidation, with claim_id {id}, within "
    f"{CLAIM_SECONDS // 60} minutes. What is refused is told; do not make anything up for it.\n"
)
OVER = "claim_id: this claim is over: it was settled, or ran out and went to somebody else"


@dataclass(frozen=True, slots=True)
class UnreadEpisodes:
    """How many episodes nobody has read, and since when."""

    episodes: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class EpisodeClaim:
    """Claimed episodes and known memories as one prompt; without a claim nothing waits."""

    claim_id: UUID | None
    butler: str | None
    episodes: int
    waiting: int
    ends_at: datetime | None
    prompt: str


async def count_unread(memory: Memory, lineage: Lineage) -> UnreadEpisodes:
    """Count the episodes that wait, and since when."""
    rows = await leases.find_waiting(memory, lineage)
    oldest = min((row["oldest"] for row in rows), default=None)
    return UnreadEpisodes(sum(row["episodes"] for row in rows), oldest)


async def claim_episodes(memory: Memory, limit: int, lineage: Lineage) -> EpisodeClaim:
    """Claim the oldest waiting episodes, of the butler that has waited longest, for an agent."""
    rows = await leases.find_waiting(memory, lineage)
    whole = sum(row["episodes"] for row in rows)
    for row in rows:
        run_id = f"agent:{memory.new_id()}"
        episodes = min(limit, limits.CONSOLIDATION_BATCH)
        most = ClaimLimits(run_id, episodes, MAX_CHARS, CLAIM_SECONDS)
        claimed = await leases.claim(memory, row["butler"], lineage, most)
        if claimed.episodes:
            return await _present_claim(memory, claimed, whole - len(claimed.episodes), lineage)
    return EpisodeClaim(None, None, 0, 0, None, "Nothing waits to be read.")


async def submit(
    memory: Memory, claim_id: str | UUID, answer: Mapping[str, Any], lineage: Lineage
) -> ConsolidationReport:
    """Apply an agent's answer to its claim; one without any usable entry is a failed attempt.

    Raises Conflict when the claim is over. After any other error the claim lasts: try again.
    """
    id = checked_id("claim_id", claim_id)
    claimed, prompt = await _get_claim(memory, id, lineage)
    return await take_answer(memory, claimed, prompt, json.dumps(answer), lineage)


async def _present_claim(
    memory: Memory, claimed: Claimed, left: int, lineage: Lineage
) -> EpisodeClaim:
    """Build the prompt of a claim and store what it shows: the answer may touch nothing else."""
    known = await read_known(memory, claimed, Reach(), lineage)
    id, now = UUID(claimed.lease.run_id.removeprefix("agent:")), memory.now()
    async with memory.transaction(lineage) as tx:
        await proposals.delete_claims(tx, before=now - _REMEMBERED)
        await proposals.insert_claim(
            tx,
            id=id,
            butler=claimed.butler,
            episode_ids=claimed.lease.episode_ids,
            fact_ids=list(known.facts),
            rule_ids=list(known.rules),
            entity_ids=list(known.entities),
            now=now,
        )
    prompt = build_prompt(TEMPLATE, claimed.episodes, known) + _SUBMIT.format(id=id)
    ends_at = now + timedelta(seconds=CLAIM_SECONDS)
    return EpisodeClaim(id, claimed.butler, len(claimed.episodes), left, ends_at, prompt)


async def _get_claim(
    memory: Memory, id: UUID, lineage: Lineage
) -> tuple[Claimed, ConsolidationPrompt]:
    """Load an agent's claim, and what its prompt showed by number; raise Conflict if it is over."""
    async with memory.transaction(lineage) as tx:
        claim = await proposals.get_claim(tx, id=id)
        if claim is None:
            raise Conflict(OVER)
        run_id, ids = f"agent:{id}", claim["episode_ids"]
        episodes = await proposals.find_claimed_episodes(tx, ids=ids, run_id=run_id)
        facts = await memories.find_facts(tx, ids=claim["fact_ids"], now=memory.now())
        rules = await memories.find_rules(tx, ids=claim["rule_ids"], now=memory.now())
        named = await proposals.find_claimed_entities(tx, ids=claim["entity_ids"])
    if len(episodes) != len(ids):
        raise Conflict(OVER)
    shown = (*ids, *claim["fact_ids"], *claim["rule_ids"], *claim["entity_ids"])
    read = tuple(EpisodeToRead(**row) for row in episodes)
    claimed = Claimed(claim["butler"], Lease(run_id, tuple(ids)), read)
    facts, rules = ([row for row in rows if row["state"] in _IN_USE] for rows in (facts, rules))
    known, numbers = _known_memories(facts, rules, named), dict(enumerate(shown, start=1))
    return claimed, ConsolidationPrompt(known, numbers, TEMPLATE)
