"""Doing what an answer says: every action on its own, all of them or none with the lease."""

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import assert_never
from uuid import UUID

import structlog

from butlers.db.postgres import Row, Transaction, translated_errors
from butlers.errors import ButlersError, Conflict, NotFound, Unavailable
from butlers.kernel.text import normalise_whitespace
from butlers.memory.flows.consolidation_lease import TAKEN_OVER, Claimed
from butlers.memory.flows.feedback import confirm_in
from butlers.memory.flows.remember import store_fact_in, store_rule_in
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import (
    ConsolidationStatus,
    Event,
    EventSubject,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    NewFact,
)
from butlers.memory.policy.consolidation import Known
from butlers.memory.policy.consolidation_plan import (
    Action,
    Confirm,
    Plan,
    StoreFact,
    StoreRule,
)
from butlers.memory.store import consolidation, episodes, facts, links, rules
from butlers.memory.store.facts import FactKey

_log = structlog.get_logger(__name__)


class Effect(StrEnum):
    """What an action came to."""

    FACT_CREATED = "fact_created"
    FACT_UPDATED = "fact_updated"
    RULE_CREATED = "rule_created"
    CONFIRMED = "confirmed"
    UNCHANGED = "unchanged"


@dataclass(slots=True)
class Applied:
    """What has been done so far, and what could not be."""

    effects: Counter[Effect] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    created: list[MemoryRef] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Work:
    """Everything an action needs while the transaction lasts."""

    memory: Memory
    tx: Transaction
    lineage: Lineage
    touchable: set[UUID]
    applied: Applied


async def apply(
    memory: Memory, claimed: Claimed, known: Known, plan: Plan, lineage: Lineage
) -> Applied:
    """Do what is planned and settle the episodes, in one transaction that the lease guards.

    When every action fails nothing is settled: the caller counts a failed attempt.
    """
    embeddings = await _embeddings(memory, plan, lineage)
    applied = Applied(errors=list(plan.errors))
    async with memory.transaction(lineage) as tx:
        held = await consolidation.hold(tx, now=memory.now(), **asdict(claimed.lease))
        _must_be_whole(len(held), claimed)
        stored = [action.new for action in plan.actions if isinstance(action, StoreFact)]
        await facts.hold_keys(tx, *map(FactKey.of, stored))
        work = _Work(memory, tx, lineage, {*known.facts, *known.rules}, applied)
        for action, embedding in zip(plan.actions, embeddings, strict=True):
            await _isolated(work, action, embedding)
        if applied.effects or not applied.errors:
            await _settle(work, claimed, held)
    return applied


async def _embeddings(memory: Memory, plan: Plan, lineage: Lineage) -> list[Embedding | None]:
    """A vector for each action that stores something, made before any connection is taken."""
    texts = [
        action.new.searchable_text for action in plan.actions if not isinstance(action, Confirm)
    ]
    made = iter(await memory.embed_all(texts, lineage) if texts else ())
    return [None if isinstance(action, Confirm) else next(made) for action in plan.actions]


async def _isolated(work: _Work, action: Action, embedding: Embedding | None) -> None:
    """Do one action; its failure is undone and reported, and stops no other."""
    try:
        with translated_errors():
            async with work.tx.savepoint():
                effect = await _do(work, action, embedding)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever fails one action must not fail the others
        fault = str(error) if isinstance(error, ButlersError) else type(error).__name__
        _log.warning("consolidation_action_failed", action=action.label, error=type(error).__name__)
        work.applied.errors.append(f"{action.label}: {fault}")
    else:
        work.applied.effects[effect] += 1


async def _do(work: _Work, action: Action, embedding: Embedding | None) -> Effect:
    match action:
        case StoreFact():
            assert embedding is not None, "what is stored has been embedded"
            return await _store_fact(work, action, embedding)
        case StoreRule():
            assert embedding is not None, "what is stored has been embedded"
            return await _store_rule(work, action, embedding)
        case Confirm():
            return await _confirm(work, action.ref)
        case _:
            assert_never(action)


async def _store_fact(work: _Work, action: StoreFact, embedding: Embedding) -> Effect:
    """Store a fact unless it was stored before; one that says the same is confirmed instead."""
    key = action.new.idempotency_key
    if await facts.get_by_idempotency_key(work.tx, idempotency_key=key):
        return Effect.UNCHANGED
    holder = await facts.get_active(work.tx, FactKey.of(action.new))
    _may_replace(work, action, holder)
    if holder is not None and _says_the_same(holder["content"], action.new.content):
        return await _confirm_if_shown(work, MemoryRef(MemoryType.FACT, holder["id"]))
    new = await _said_as_its_source(work.tx, action.new)
    stored = await store_fact_in(work.memory, work.tx, new, embedding, work.lineage)
    await _created(work, MemoryRef(MemoryType.FACT, stored.id), action.sources)
    return Effect.FACT_CREATED if action.target_id is None else Effect.FACT_UPDATED


async def _said_as_its_source(tx: Transaction, new: NewFact) -> NewFact:
    """A fact that comes from one episode was said where, by whom and when the episode was."""
    if new.source_episode_id is None:
        return new
    said = await episodes.get_circumstances(tx, id=new.source_episode_id)
    return new if said is None else replace(new, **said)


def _may_replace(work: _Work, action: StoreFact, holder: Row | None) -> None:
    """Refuse to replace anything the prompt did not show, or a target that is gone."""
    holder_id = holder["id"] if holder else None
    if action.target_id is not None and holder_id != action.target_id:
        raise NotFound(f"fact {action.target_id} is not active any more; it was left as it is")
    if holder is None or holder_id in work.touchable:
        return
    if not _says_the_same(holder["content"], action.new.content):
        raise Conflict(f"fact {holder_id} says otherwise and was not shown; it was left as it is")


async def _store_rule(work: _Work, action: StoreRule, embedding: Embedding) -> Effect:
    """Store a rule unless it was stored before; one that says the same is confirmed instead."""
    key = action.new.idempotency_key
    if await rules.get_by_idempotency_key(work.tx, idempotency_key=key):
        return Effect.UNCHANGED
    same = await rules.get_same(work.tx, scope=action.new.scope, content=action.new.content)
    if same is not None:
        return await _confirm_if_shown(work, MemoryRef(MemoryType.RULE, same))
    stored = await store_rule_in(work.memory, work.tx, action.new, embedding, work.lineage)
    await _created(work, MemoryRef(MemoryType.RULE, stored.id), action.sources)
    return Effect.RULE_CREATED


async def _created(work: _Work, ref: MemoryRef, sources: tuple[UUID, ...]) -> None:
    """Tie a new memory to the episodes it comes from; from here on the answer may touch it."""
    await links.derive(work.tx, ref, sources, work.memory.now())
    work.touchable.add(ref.id)
    work.applied.created.append(ref)


async def _confirm_if_shown(work: _Work, ref: MemoryRef) -> Effect:
    return await _confirm(work, ref) if ref.id in work.touchable else Effect.UNCHANGED


async def _confirm(work: _Work, ref: MemoryRef) -> Effect:
    if not await confirm_in(work.memory, work.tx, ref, work.lineage):
        raise NotFound(f"{ref.type} {ref.id} is not in use any more; it was left as it is")
    return Effect.CONFIRMED


async def _settle(work: _Work, claimed: Claimed, held: list[Row]) -> None:
    """The episodes have become knowledge, each with a word about what came of the batch."""
    settled = await consolidation.consolidate(work.tx, **asdict(claimed.lease))
    _must_be_whole(settled, claimed)
    now = work.memory.now()
    made = [{"type": ref.type, "id": str(ref.id)} for ref in work.applied.created]
    for row in held:
        payload = {"from": row["was"], "to": ConsolidationStatus.CONSOLIDATED, "created": made}
        event = Event(EventType.EPISODE_CONSOLIDATED, EventSubject.EPISODE, row["id"], payload)
        await work.memory.record(work.tx, event, work.lineage, now)


def _must_be_whole(held: int, claimed: Claimed) -> None:
    """An answer counts only while the run holds every episode that went into it."""
    if held != len(claimed.episodes):
        raise Conflict(TAKEN_OVER)


def _says_the_same(one: str, other: str) -> bool:
    return normalise_whitespace(one).casefold() == normalise_whitespace(other).casefold()
