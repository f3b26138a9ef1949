"""Apply a consolidation plan: each action in a savepoint, all in one transaction."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast
from uuid import UUID

import structlog

from butlers.db.driver_errors import translated_errors
from butlers.db.postgres import Row, Transaction
from butlers.errors import ButlersError, Conflict, NotFound, Unavailable
from butlers.kernel.text import says_the_same
from butlers.memory.flows.authority import is_more_trusted
from butlers.memory.flows.conflict_detection import embed_predicates
from butlers.memory.flows.consolidation.lease import TAKEN_OVER, Claimed, give_back_in
from butlers.memory.flows.consolidation.report import ActionEffect, Applied
from butlers.memory.flows.entity_linking import hold_all
from butlers.memory.flows.fact_windows import (
    confirm_by,
    find_placement,
    with_circumstances,
    with_window,
)
from butlers.memory.flows.links import derive_in
from butlers.memory.flows.proposals import proposal_of, propose_in
from butlers.memory.flows.remember import store_fact_in, store_rule_in
from butlers.memory.flows.results import Stored
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    ConsolidationStatus,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    NewFact,
    Trust,
    Validity,
)
from butlers.memory.policy.consolidation import KnownMemories
from butlers.memory.policy.consolidation_plan import (
    Action,
    ConfirmMemory,
    ConsolidationPlan,
    StoreFact,
    StoreRule,
)
from butlers.memory.policy.trust import LESS_TRUSTED, UNSEEN, why_not_replaced
from butlers.memory.store import consolidation, facts, rules
from butlers.memory.store.consolidation import Lease
from butlers.memory.store.events import Transition
from butlers.memory.store.facts import FactKey

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _ApplyContext(UnitOfWork):
    """What an action needs while the transaction lasts; `trust` is that of each episode."""

    butler: str
    known: KnownMemories
    touchable: set[UUID]
    applied: Applied
    trust: dict[UUID, Trust]
    is_quoted: bool = False

    def least(self, episode_ids: Sequence[UUID]) -> Trust:
        """The least trust among these episodes, which limits what is drawn from them."""
        return min((self.trust[id] for id in episode_ids), default=Trust.STATED)

    def drawn_from(self, episode_ids: Sequence[UUID]) -> "_ApplyContext":
        """The same, storing with no more trust than these episodes have."""
        ceiling = min(self.lineage.ceiling, self.least(episode_ids))
        return replace(self, lineage=replace(self.lineage, ceiling=ceiling))


async def apply(
    memory: Memory,
    claimed: Claimed,
    known: KnownMemories,
    plan: ConsolidationPlan,
    lineage: Lineage,
) -> Applied:
    """Apply a plan and settle its episodes, in one transaction.

    Raises Conflict unless the run still holds every episode. Each action runs in a savepoint: one
    that fails is reported and stops no other. When every action fails nothing is settled, and the
    caller counts a failed attempt. Records `episode_consolidated` and what each action records.
    """
    embeddings = await _embeddings(memory, plan, lineage)
    applied = Applied(errors=list(plan.errors))
    async with memory.transaction(lineage) as tx:
        held = await consolidation.hold(tx, now=memory.now(), **asdict(claimed.lease))
        if len(held) != len(claimed.episodes):
            raise Conflict(TAKEN_OVER)
        actions = await _link_entities(tx, plan.actions)
        stored = [action.new for action in actions if isinstance(action, StoreFact)]
        await facts.hold_keys(tx, *map(FactKey.of, stored))
        touchable = {*known.facts, *known.rules}
        trusted = {row["id"]: Trust(row["trust"]) for row in held}
        whose = (memory, tx, lineage, claimed.butler, known)
        work = _ApplyContext(*whose, touchable, applied, trusted, plan.is_quoted)
        for action, embedding in zip(actions, embeddings, strict=True):
            await _isolated(work, action, embedding)
        if applied.effects or not applied.errors:
            await _settle(work, claimed, held, plan)
    return applied


async def _embeddings(
    memory: Memory, plan: ConsolidationPlan, lineage: Lineage
) -> list[Embedding | None]:
    """Embed what the actions store, before any connection is taken."""
    news = [action.new for action in plan.actions if not isinstance(action, ConfirmMemory)]
    made = iter(await memory.embed([new.searchable_text for new in news], lineage))
    await embed_predicates(memory, news, lineage)
    return [None if isinstance(action, ConfirmMemory) else next(made) for action in plan.actions]


async def _link_entities(tx: Transaction, actions: Sequence[Action]) -> list[Action]:
    """Link each new fact to the entity it names, and lock the names.

    A fact that replaces another keeps that one's subject.
    """
    stored = [action.new for action in actions if isinstance(action, StoreFact)]
    linked, result = iter(await hold_all(tx, stored)), list[Action]()
    for action in actions:
        if isinstance(action, StoreFact):
            new = next(linked)
            action = action if action.target_id else replace(action, new=new)
        result.append(action)
    return result


async def _isolated(work: _ApplyContext, action: Action, embedding: Embedding | None) -> None:
    """Run one action in a savepoint; report its failure instead of raising it."""
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
        work.applied.cited.update(action.cited)


async def _do(work: _ApplyContext, action: Action, embedding: Embedding | None) -> ActionEffect:
    """Run an action, unless what it stores was stored before."""
    if isinstance(action, ConfirmMemory):
        return await _confirm(work, action.ref, action.cited)
    assert embedding is not None, "what is stored has been embedded"
    is_fact, key = isinstance(action, StoreFact), action.new.idempotency_key
    if await (facts if is_fact else rules).get_by_idempotency_key(work.tx, idempotency_key=key):
        return ActionEffect.UNCHANGED
    if isinstance(action, StoreFact):
        return await _store_fact(work, action, embedding)
    return await _store_rule(work, action, embedding)


async def _store_fact(work: _ApplyContext, action: StoreFact, embedding: Embedding) -> ActionEffect:
    """Store a fact, or confirm one that says the same."""
    now = work.now
    new = await with_window(work.tx, await with_circumstances(work.tx, action.new), now)
    holder = await facts.get_active(work.tx, at=now, **asdict(FactKey.of(new)))
    place = await find_placement(work.tx, new, now)
    changed = [change.of.id for change in place.changes]
    overlapping = await facts.find(work.tx, ids=changed, now=now)
    _check_replaceable(work, action, holder, overlapping)
    same = _find_same(work, action, new, holder)
    if same is not None:
        return await _confirm_if_shown(work, MemoryRef(MemoryType.FACT, same), action.cited)
    inferred = work.drawn_from(action.sources)
    unseen = UNSEEN if _unseen(work, action, overlapping) else None
    if reason := _why_review(work, overlapping, inferred.lineage.trust) or unseen:
        target = place.replaced or next((row["id"] for row in overlapping), None)
        return await _propose(work, replace(action, new=new), reason, target)
    await _created(work, await store_fact_in(inferred, new, embedding), action.sources)
    return ActionEffect.FACT_CREATED if action.target_id is None else ActionEffect.FACT_UPDATED


def _find_same(
    work: _ApplyContext, action: StoreFact, new: NewFact, holder: Row | None
) -> UUID | None:
    """Find the fact that says the same: under its key, or of the same subject under another."""
    if new.valid_from or new.valid_to:
        return None
    if holder is not None and says_the_same(holder["content"], new.content):
        is_level = holder["trust"] >= min(work.least(action.sources), Trust.TOOL)
        return cast(UUID, holder["id"]) if is_level else None
    for fact in work.known.facts.values() if action.target_id is None else ():
        same_entity = new.entity_id is not None and fact.entity_id == new.entity_id
        same_subject = same_entity or says_the_same(fact.subject, new.subject)
        if same_subject and says_the_same(fact.content, new.content):
            return fact.id
    return None


def _why_review(
    work: _ApplyContext, replaced: Sequence[Row] = (), by: Trust = Trust.STATED
) -> str | None:
    """Say why an action needs approval, or None: a model does not overrule a person."""
    if work.settings.consolidation.review:
        return "consolidation.review is on"
    return next(filter(None, (why_not_replaced(row, by) for row in replaced)), None)


async def _propose(
    work: _ApplyContext, action: Action, reason: str, target_id: UUID | None = None
) -> ActionEffect:
    made = await propose_in(work, proposal_of(action, work.butler, target_id), reason)
    return ActionEffect.PROPOSED if made else ActionEffect.UNCHANGED


def _check_replaceable(
    work: _ApplyContext, action: StoreFact, holder: Row | None, overlapping: Sequence[Row]
) -> None:
    """Refuse to replace a target that is gone, or anything the prompt did not show."""
    if action.target_id and (holder is None or holder["id"] != action.target_id):
        raise NotFound(f"fact {action.target_id} is no longer current; it was not changed")
    if not work.is_quoted and (id := _unseen(work, action, overlapping)):
        raise Conflict(f"fact {id} contradicts it and was not in the prompt; it was not changed")


def _unseen(work: _ApplyContext, action: StoreFact, overlapping: Sequence[Row]) -> UUID | None:
    """Return a current fact that says something else and that the model has not seen."""
    # What has low trust is not shown to the model, and gives way.
    current = (row for row in overlapping if row["validity"] == Validity.ACTIVE and row["trust"])
    hidden = (row for row in current if row["id"] not in work.touchable)
    new = action.new.content
    return next((row["id"] for row in hidden if not says_the_same(row["content"], new)), None)


async def _store_rule(work: _ApplyContext, action: StoreRule, embedding: Embedding) -> ActionEffect:
    """Store a rule, or confirm one that says the same."""
    about = {"scope": action.new.scope, "content": action.new.content}
    same = await rules.get_same(work.tx, trust=work.least(action.sources), **about)
    if same is not None:
        return await _confirm_if_shown(work, MemoryRef(MemoryType.RULE, same), action.cited)
    if reason := _why_review(work):
        return await _propose(work, action, reason)
    stored = await store_rule_in(work.drawn_from(action.sources), action.new, embedding)
    await _created(work, stored, action.sources)
    return ActionEffect.RULE_CREATED


async def _created(work: _ApplyContext, stored: Stored, sources: tuple[UUID, ...]) -> None:
    """Link a new memory to its source episodes; from here on the answer may change it."""
    await derive_in(work, stored.ref, sources)
    work.touchable.add(stored.id)
    work.applied.created.append(stored.ref)


async def _confirm_if_shown(
    work: _ApplyContext, ref: MemoryRef, cited: tuple[UUID, ...]
) -> ActionEffect:
    return await _confirm(work, ref, cited) if ref.id in work.touchable else ActionEffect.UNCHANGED


async def _confirm(work: _ApplyContext, ref: MemoryRef, cited: tuple[UUID, ...]) -> ActionEffect:
    """Confirm a memory by the episodes that neither are its source nor confirmed it before."""
    known = await consolidation.find_cited(
        work.tx, memory_type=ref.type, memory_id=ref.id, episode_ids=cited
    )
    new = [id for id in cited if id not in {row["episode_id"] for row in known}]
    # The episode confirms it, by its words; the model only pointed at it.
    lesser = await is_more_trusted(work.tx, ref, least := work.least(new))
    if not new or (least is Trust.LOW and not lesser):
        return ActionEffect.UNCHANGED
    if reason := _why_review(work) or (LESS_TRUSTED if lesser else None):
        return await _propose(work, ConfirmMemory("", ref, tuple(new)), reason, ref.id)
    await confirm_by(work, ref, new)
    return ActionEffect.CONFIRMED


async def _settle(
    work: _ApplyContext, claimed: Claimed, held: list[Row], plan: ConsolidationPlan
) -> None:
    """Mark the episodes consolidated; of an answer partly wrong, those it dealt with.

    The others are given back and tried again, fewer at a time.
    """
    applied, run_id = work.applied, claimed.lease.run_id
    dealt_with = applied.cited | plan.nothing_in
    read = [row for row in held if not applied.errors or row["id"] in dealt_with]
    done = Lease(run_id, tuple(row["id"] for row in read))
    applied.consolidated = await consolidation.consolidate(work.tx, **asdict(done))
    created = [{"type": ref.type, "id": str(ref.id)} for ref in applied.created]
    outcome = {"to": ConsolidationStatus.CONSOLIDATED, "created": created}
    payloads = {row["id"]: {"from": row["was"], **outcome} for row in read}
    await work.record(Transition(EventType.EPISODE_CONSOLIDATED, payloads))
    if rest := tuple(row["id"] for row in held if row not in read):
        why = "; ".join(applied.errors)
        applied.back = await give_back_in(work, Lease(run_id, rest), why)
