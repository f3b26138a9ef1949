"""Confirm facts and rules, mark rules helpful or harmful, and invert rules that did harm."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict, InvalidInput, NotFound, Unavailable
from butlers.kernel.json_values import as_json
from butlers.kernel.secrets import admitted
from butlers.kernel.text import clean
from butlers.memory.flows.authority import STORES, is_more_trusted
from butlers.memory.flows.proposals import propose_confirmation
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    Lineage,
    Maturity,
    MemoryRef,
    MemoryType,
    RuleOutcome,
    Trust,
)
from butlers.memory.policy import inputs, maturity
from butlers.memory.policy.inputs import checked_document, checked_ref
from butlers.memory.policy.maturity import Author, Mark, RuleState
from butlers.memory.policy.trust import with_origin
from butlers.memory.store import rules

_log = structlog.get_logger(__name__)


async def invert_waiting(memory: Memory, lineage: Lineage) -> int:
    """Invert every rule that awaits it into a warning; return how many were inverted."""
    async with memory.transaction(lineage) as tx:
        waiting = await rules.find_awaiting_inversion(tx)
    inverted = [await invert_if_possible(memory, rule, lineage) for rule in waiting]
    return sum(rule is not None for rule in inverted)


async def invert_if_possible(memory: Memory, rule: Row, lineage: Lineage) -> Row | None:
    """Invert a rule into a warning; None, and it keeps waiting, while no embedding can be made."""
    try:
        return await _invert(memory, rule, lineage)
    except Unavailable as error:
        _log.warning("rule_inversion_postponed", rule_id=str(rule["id"]), reason=str(error))
        return None


async def _invert(memory: Memory, rule: Row, lineage: Lineage) -> Row | None:
    """Return the rule as a warning, or None when it changed meanwhile.

    What changes the warning is another harmful mark, and that mark inverts the rule itself.
    """
    warning = maturity.warning(rule["content"], maturity.reasons(rule))
    [embedding] = await memory.embed([warning], lineage)
    async with memory.begin(lineage) as work:
        now = work.now
        held = await rules.lock(work.tx, id=rule["id"], now=now)
        if held is None or not maturity.awaits_inversion(held):
            return None
        reasons, content = maturity.reasons(held), held["content"]
        if maturity.warning(content, reasons) != warning:
            return None
        kept = {k: v for k, v in held["metadata"].items() if k != "needs_inversion"}
        columns = {"metadata": kept | {"original_content": content}, "last_at": now}
        columns |= {"maturity": Maturity.ANTI_PATTERN, "content": warning}
        await rules.reword(work.tx, id=held["id"], **columns, **embedding.columns(warning))
        [inverted] = await rules.find(work.tx, ids=[held["id"]], now=now)
        payload = {"from": held["maturity"], "to": Maturity.ANTI_PATTERN}
        payload |= {"original_content": content, "reasons": reasons}
        await work.record(Event(EventType.RULE_INVERTED, held["id"], payload), now)
    return inverted


_MOVED = {RuleOutcome.HELPFUL: EventType.RULE_PROMOTED, RuleOutcome.HARMFUL: EventType.RULE_DEMOTED}
_UNMARKABLE = {
    "forgotten": "was forgotten; it takes no more marks",
    "quarantined": "is in quarantine; it takes no marks",
}
_RECOVERED = {"from": "fading", "to": "active"}
_COUNTED = ("applied_count", "success_count", "harmful_count", "effectiveness_score")


@dataclass(frozen=True, slots=True)
class Application:
    """One application of a rule and its outcome."""

    rule_id: UUID
    outcome: RuleOutcome
    reason: str | None
    context: dict[str, Any]


async def confirm_memory(
    memory: Memory, memory_type: str, memory_id: str | UUID, lineage: Lineage
) -> bool:
    """Confirm a fact or rule: its confidence is full again; false when there is no current one.

    What a less trusted caller confirms, and all that low trust does, waits as a proposal.
    """
    ref = checked_ref("memory", memory_type, memory_id)
    if ref.type is MemoryType.EPISODE:
        raise InvalidInput(
            "memory_type: found 'episode'; valid are fact, rule: an episode cannot be confirmed"
        )
    async with memory.begin(lineage) as work:
        may = lineage.trust > Trust.LOW
        if may and not await is_more_trusted(work.tx, ref, lineage.trust):
            return await confirm_in(work, ref)
        waiting = await propose_confirmation(work, ref)
    raise Conflict(
        f"{ref.type} {ref.id} comes from a more trusted source, or this caller has low trust; "
        f"the confirmation waits for {waiting.why}"
    )


async def confirm_in(work: UnitOfWork, ref: MemoryRef, episode_ids: Sequence[UUID] = ()) -> bool:
    """Confirm a fact or rule and record that; false when there is no current one."""
    now, by = work.now, work.lineage.actor if work.lineage.origin.is_person else None
    before: Row | None = await STORES[ref.type].confirm(work.tx, id=ref.id, now=now, accepted_by=by)
    if before is None:
        return False
    if ref.type is MemoryType.RULE and by is not None:
        await rules.clear_report(work.tx, id=ref.id)
    payload: dict[str, Any] = {"last_confirmed_at": moved_time(before["was_confirmed_at"], now)}
    if by is not None:
        payload["accepted_by"] = by
    if before.get("was_confidence", 1.0) < 1.0:
        payload["confidence"] = {"from": before["was_confidence"], "to": 1.0}
    if episode_ids:
        payload["episodes"] = sorted(map(str, episode_ids))
    await work.record(Event(EventType(f"{ref.type}_confirmed"), ref.id, payload), now)
    if before["was"] == "fading":
        await work.record(Event(EventType(f"{ref.type}_recovered"), ref.id, _RECOVERED), now)
    return True


async def mark_helpful(
    memory: Memory,
    rule_id: str | UUID,
    lineage: Lineage,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Mark a rule as helpful and return it; enough marks raise its maturity.

    Refuses a forgotten or quarantined rule. Locks it. Records `rule_marked_helpful` and changes.
    """
    use = _application(memory, rule_id, RuleOutcome.HELPFUL, None, context)
    async with memory.begin(lineage) as work:
        return as_json(with_origin(await _mark(work, use)))


async def mark_harmful(
    memory: Memory,
    rule_id: str | UUID,
    reason: str | None,
    lineage: Lineage,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Mark a rule as harmful and return it; it may be demoted, or inverted into a warning.

    Refuses a forgotten or quarantined rule. Locks it. Records `rule_marked_harmful` and changes.
    """
    use = _application(memory, rule_id, RuleOutcome.HARMFUL, reason, context)
    async with memory.begin(lineage) as work:
        marked = await _mark(work, use)
    if maturity.awaits_inversion(marked):
        marked = await invert_if_possible(memory, marked, lineage) or marked
    return as_json(with_origin(marked))


async def _mark(work: UnitOfWork, use: Application) -> Row:
    now = work.now
    before = await _lock_rule(work.tx, use.rule_id, now)
    # Marks of low trust count for nothing, its own rules included.
    counted = max(before["trust"], Trust.TOOL) <= work.lineage.trust
    after = await _after(work, before, use)
    await rules.insert_application(
        work.tx,
        id=work.memory.new_id(),
        actor=clean(work.lineage.actor),
        origin=work.lineage.origin,
        counted=counted,
        request_id=work.lineage.request_id and clean(work.lineage.request_id),
        now=now,
        **asdict(use),
    )
    if not counted:
        await work.record(_marked(before, before, use, counted=False), now)
        return before
    written = _columns(before, after, use, now)
    await rules.mark(work.tx, id=use.rule_id, last_at=now, **written)
    [marked] = await rules.find(work.tx, ids=[use.rule_id], now=now)
    for event in _mark_result(before, marked, use):
        await work.record(event, now)
    return marked


async def _after(work: UnitOfWork, before: Row, use: Application) -> RuleState:
    """Compute the rule after a mark; loads earlier marks only where their authors matter."""
    settings, author = work.settings.rules, Author.of(before)
    harms_a_person = author.origin.is_person and use.outcome is RuleOutcome.HARMFUL
    earlier = []
    if harms_a_person or not settings.own_marks:
        earlier = await rules.find_counted_applications(work.tx, rule_id=use.rule_id)
    mark = Mark(use.outcome, clean(work.lineage.actor), work.lineage.origin, work.now)
    marks = [Mark.of(row) for row in earlier]
    return maturity.after_mark(RuleState.of(before), mark, marks, author, settings)


async def _lock_rule(tx: Transaction, rule_id: UUID, now: datetime) -> Row:
    """Lock a rule, so that marks on it take turns."""
    rule = await rules.lock(tx, id=rule_id, now=now)
    if rule is None:
        raise NotFound(f"rule_id: rule {rule_id} does not exist; search for the rule to mark")
    if reason := _UNMARKABLE.get(rule["state"]):
        raise NotFound(f"rule_id: rule {rule_id} {reason}")
    return rule


def _application(
    memory: Memory,
    rule_id: str | UUID,
    outcome: RuleOutcome,
    reason: str | None,
    context: Mapping[str, Any] | None,
) -> Application:
    """Check the fields of an application; a blank reason is none."""
    secrets, id = memory.settings.secrets, inputs.checked_id("rule_id", rule_id)
    reason = reason if reason and clean(reason).strip() else None
    if reason is not None:
        allowed = admitted(secrets, "reason", reason)
        reason = inputs.checked_text("reason", allowed, inputs.MAX_REASON)
    document = checked_document("context", context or {}, secrets)
    return Application(id, outcome, reason, document)


def _columns(before: Row, after: RuleState, use: Application, now: datetime) -> dict[str, Any]:
    """Return the columns that a mark writes; a helpful one confirms the rule."""
    columns = {name: getattr(after, name) for name in ("maturity", *_COUNTED)}
    helped = use.outcome is RuleOutcome.HELPFUL
    columns["confirmed_at"] = now if helped else before["last_confirmed_at"]
    flags = {name: getattr(after, name) for name in ("needs_inversion", maturity.REPORTED)}
    lifted = {*flags, "status"} if helped else flags.keys()
    metadata = {k: v for k, v in before["metadata"].items() if k not in lifted}
    metadata |= {name: True for name, is_set in flags.items() if is_set}
    if use.reason is not None:
        metadata["harmful_reasons"] = maturity.with_reason(maturity.reasons(before), use.reason)
    return columns | {"metadata": metadata}


def moved_time(was: datetime | None, now: datetime) -> dict[str, str | None]:
    """Return a changed time, for an event."""
    return {"from": was.isoformat() if was else None, "to": now.isoformat()}


def _mark_result(before: Row, marked: Row, use: Application) -> Iterator[Event]:
    """Make the events of a mark that counts."""
    yield _marked(before, marked, use)
    if before["state"] == "fading" and marked["state"] == "active":
        yield Event(EventType.RULE_RECOVERED, use.rule_id, _RECOVERED)
    if marked["maturity"] != before["maturity"]:
        payload = {"from": before["maturity"], "to": marked["maturity"]}
        yield Event(_MOVED[use.outcome], use.rule_id, payload)


def _marked(before: Row, marked: Row, use: Application, *, counted: bool = True) -> Event:
    payload: dict[str, Any] = {
        name: {"from": before[name], "to": marked[name]} for name in _COUNTED
    }
    if use.outcome is RuleOutcome.HARMFUL:
        payload["reason"] = use.reason
    if not counted:
        payload["counted"] = False
    elif use.outcome is RuleOutcome.HELPFUL:
        was, now = before["last_confirmed_at"], marked["last_confirmed_at"]
        payload["last_confirmed_at"] = moved_time(was, now)
    return Event(EventType(f"rule_marked_{use.outcome}"), use.rule_id, payload)
