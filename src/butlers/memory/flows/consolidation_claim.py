"""Episodes read by a connected agent with its own model: it claims some, and submits an answer.

The leases, the guards and the ends are those of the built-in flow; only the model is elsewhere. An
agent that does not come back says nothing about the episodes: its claim runs out, uncounted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from butlers.errors import Conflict
from butlers.memory.flows import consolidation_lease as leases
from butlers.memory.flows.consolidation_answer import known_of, read_known, take_answer
from butlers.memory.flows.consolidation_batch import TEMPLATE
from butlers.memory.flows.consolidation_lease import Appetite, Claimed
from butlers.memory.flows.consolidation_report import ConsolidationReport
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.policy.consolidation import (
    ConsolidationPrompt,
    EpisodeToRead,
    Reach,
    build_prompt,
)
from butlers.memory.policy.inputs import checked_id
from butlers.memory.store import claims
from butlers.memory.store.consolidation import Lease

CLAIM_SECONDS = 1800
"""How long an agent may take; it reads between other things."""

MOST_EPISODES, MAX_CHARS = 20, 40_000
_REMEMBERED = timedelta(days=1)
OVER = "claim_id: this claim is over: it was settled, or ran out and went to somebody else"


@dataclass(frozen=True, slots=True)
class UnreadEpisodes:
    """What nobody has read."""

    episodes: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class EpisodeClaim:
    """Episodes to read, with what is known, as one text; nothing waits where there is no claim."""

    claim_id: UUID | None
    butler: str | None
    episodes: int
    waiting: int
    ends_at: datetime | None
    prompt: str


async def count_unread(memory: Memory, lineage: Lineage) -> UnreadEpisodes:
    """How much waits to be read, and since when."""
    rows = await leases.find_waiting(memory, lineage)
    oldest = min((row["oldest"] for row in rows), default=None)
    return UnreadEpisodes(sum(row["episodes"] for row in rows), oldest)


async def claim_episodes(memory: Memory, limit: int, lineage: Lineage) -> EpisodeClaim:
    """The oldest episodes that wait, of the butler whose have waited longest, held for a while."""
    rows = await leases.find_waiting(memory, lineage)
    whole = sum(row["episodes"] for row in rows)
    for row in rows:
        claimed = await _claimed(memory, row["butler"], limit, lineage)
        if claimed.episodes:
            return await _present_claim(memory, claimed, whole - len(claimed.episodes), lineage)
    return EpisodeClaim(None, None, 0, 0, None, "Nothing waits to be read.")


async def submit(
    memory: Memory, claim_id: str | UUID, answer: Mapping[str, Any], lineage: Lineage
) -> ConsolidationReport:
    """What came of an agent's answer; one of which nothing can be used is a failed attempt.

    What fails for another reason is raised, and the claim goes on: the agent may try again.
    """
    id = checked_id("claim_id", claim_id)
    claimed, asked = await _get_claim(memory, id, lineage)
    return await take_answer(memory, claimed, asked, json.dumps(answer), lineage)


async def _claimed(memory: Memory, butler: str, limit: int, lineage: Lineage) -> Claimed:
    run_id = f"agent:{memory.new_id()}"
    most = min(limit, memory.settings.consolidation.batch_size)
    appetite = Appetite(run_id, most, MAX_CHARS, CLAIM_SECONDS)
    return await leases.claim(memory, butler, lineage, appetite)


async def _present_claim(
    memory: Memory, claimed: Claimed, left: int, lineage: Lineage
) -> EpisodeClaim:
    """What the agent is given; kept, since its answer may touch nothing else."""
    known = await read_known(memory, claimed, Reach(), lineage)
    id, now = UUID(claimed.lease.run_id.removeprefix("agent:")), memory.now()
    async with memory.transaction(lineage) as tx:
        await claims.forget(tx, before=now - _REMEMBERED)
        await claims.insert(
            tx,
            id=id,
            butler=claimed.butler,
            episode_ids=claimed.lease.episode_ids,
            fact_ids=list(known.facts),
            rule_ids=list(known.rules),
            entity_ids=list(known.entities),
            now=now,
        )
    prompt = build_prompt(TEMPLATE, claimed.episodes, known) + _submission(id)
    ends_at = now + timedelta(seconds=CLAIM_SECONDS)
    return EpisodeClaim(id, claimed.butler, len(claimed.episodes), left, ends_at, prompt)


def _submission(id: UUID) -> str:
    return (
        f"\nGive the object as `answer` to memory_submit_consolidation, with claim_id {id}, within "
        f"{CLAIM_SECONDS // 60} minutes. What is refused is told; do not make anything up for it.\n"
    )


async def _get_claim(
    memory: Memory, id: UUID, lineage: Lineage
) -> tuple[Claimed, ConsolidationPrompt]:
    """What an agent still holds, and what it was shown by which number."""
    async with memory.transaction(lineage) as tx:
        claim = await claims.get(tx, id=id)
        if claim is None:
            raise Conflict(OVER)
        run_id, ids = f"agent:{id}", claim["episode_ids"]
        episodes = await claims.find_episodes(tx, ids=ids, run_id=run_id)
        facts = await claims.find_facts(tx, ids=claim["fact_ids"])
        rules = await claims.find_rules(tx, ids=claim["rule_ids"])
        named = await claims.find_entities(tx, ids=claim["entity_ids"])
    if len(episodes) != len(ids):
        raise Conflict(OVER)
    shown = _numbers(ids, claim["fact_ids"], claim["rule_ids"], claim["entity_ids"])
    read = tuple(EpisodeToRead(**row) for row in episodes)
    claimed = Claimed(claim["butler"], Lease(run_id, tuple(ids)), read)
    return claimed, ConsolidationPrompt(known_of(facts, rules, named), shown, TEMPLATE)


def _numbers(*shown: Sequence[UUID]) -> dict[int, UUID]:
    return dict(enumerate((id for ids in shown for id in ids), start=1))
