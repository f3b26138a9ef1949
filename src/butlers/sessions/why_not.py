"""Answer why a memory was not given at the prompts of a session."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.errors import NotFound
from butlers.memory.flows import projects
from butlers.memory.flows.candidates import CandidateQuery, find_candidates
from butlers.memory.flows.recall import DEPTH, search_memories
from butlers.memory.model import MemoryRef, MemoryType, SearchMode
from butlers.memory.operations import OperationContext
from butlers.memory.policy import focus
from butlers.memory.policy.scopes import PROJECT, is_project
from butlers.memory.store.search import load_memories
from butlers.sessions.injection_log import InjectionRecord
from butlers.sessions.injection_report import plain_line
from butlers.sessions.injections import Delivery, InjectionEvent
from butlers.sessions.log import excerpt

_ID = re.compile(r"[0-9a-f]{6,8}[0-9a-f-]*", re.IGNORECASE)
_CURRENT = ("active", "fading", None)


@dataclass(frozen=True, slots=True)
class _Target:
    """The memory that is asked about, and the name of the project it belongs to, if any."""

    ref: MemoryRef
    row: Row
    project: str


async def why_not(
    ctx: OperationContext, records: Sequence[InjectionRecord], wanted: str
) -> dict[str, Any]:
    """Say for each injection of a session why a memory was not in it.

    `wanted` is an id, at least six digits of one, or what the memory says. NotFound if there is no
    such memory.
    """
    target = await _find(ctx, wanted)
    answers = []
    for number, record in enumerate(records):
        answer = await _answer(ctx, record, records[:number], target)
        answers.append({"at": record.at, "asked": record.asked, "answer": answer})
    about = {"id": str(target.ref.id), "text": excerpt(str(target.row["content"]))}
    return {"memory_type": target.ref.type, **about, "prompts": answers}


async def _find(ctx: OperationContext, wanted: str) -> _Target:
    memory, tenant = ctx.memory, ctx.lineage.tenant_id
    ref = await ctx.find(wanted, to_read=True) if _ID.fullmatch(wanted) else None
    ref = ref or await _nearest(ctx, wanted)
    rows = await load_memories(memory.database, tenant, [ref] if ref else [], memory.now())
    if ref is None or ref not in rows:
        raise NotFound(f"there is no memory {wanted!r:.100}; nothing of it could be given")
    scope, project = rows[ref]["scope"], ""
    if is_project(scope):
        id = scope.removeprefix(PROJECT)
        project = (await projects.get_project(memory, id, ctx.lineage))["name"]
    return _Target(ref, rows[ref], project)


async def _nearest(ctx: OperationContext, text: str) -> MemoryRef | None:
    query = CandidateQuery(text, scope=await ctx.seen(None))
    best = await search_memories(ctx.memory, query, SearchMode.HYBRID, 1, ctx.lineage)
    return MemoryRef(MemoryType(best[0]["memory_type"]), UUID(best[0]["id"])) if best else None


async def _answer(
    ctx: OperationContext,
    record: InjectionRecord,
    earlier: Sequence[InjectionRecord],
    target: _Target,
) -> str:
    """Return the first reason that applies: what is on record, then what is known today."""
    return (
        _recorded(record, target)
        or _not_then(record, earlier, target)
        or _not_valid(record, target)
        or await _not_near(ctx, record, target)
    )


def _recorded(record: InjectionRecord, target: _Target) -> str:
    for line in record.lines:
        if line.id == target.ref.id and record.outcome is not Delivery.FAILED:
            return f"It was given: {plain_line(line.text)}"
    if record.outcome is Delivery.FAILED:
        return f"Nothing could be given: {record.reason or 'the reason is not known'}."
    for one in record.left_out:
        if one.id == target.ref.id:
            near = "" if one.relevance is None else f" (relevance {one.relevance:.2f})"
            return f"It came near{near} and was left out: {one.why}."
    return ""


def _not_then(record: InjectionRecord, earlier: Sequence[InjectionRecord], target: _Target) -> str:
    stored_at = target.row["created_at"]
    if stored_at > record.at:
        return f"It was not stored yet: that was on {stored_at:%Y-%m-%d %H:%M}."
    for before in earlier:
        if any(line.id == target.ref.id for line in before.lines):
            return f"The session had it already, since {before.at:%Y-%m-%d %H:%M}."
    return ""


def _not_valid(record: InjectionRecord, target: _Target) -> str:
    row = target.row
    if target.project and target.project != record.project:
        return f"It belongs to project {target.project}; the session was in another one."
    state = row.get("state") or row.get("validity")
    if row.get("quarantined"):
        return "It is quarantined: it waits for your review."
    if state not in _CURRENT:
        return f"It is {state} today."
    return "It is outdated: later facts replace it." if row.get("outdated_by") else ""


async def _not_near(ctx: OperationContext, record: InjectionRecord, target: _Target) -> str:
    """Compute the relevance today; what it was then nobody recorded."""
    if record.event is InjectionEvent.START or not record.asked:
        return "It was not among what the start of a session gives: what is newest and standing."
    least = ctx.memory.settings.facts.retrieval_confidence_threshold
    query = CandidateQuery(record.asked, scope=target.row["scope"], min_confidence=least)
    candidates = await find_candidates(ctx.memory, query, ctx.lineage, DEPTH)
    likely = focus.likelihoods_by_ref(candidates.ranked(candidates.columns))
    near = likely.get(target.ref, 0.0)
    if near >= focus.LEAST_BEST:
        return (
            f"There was no room: others came first. Its relevance for this prompt is {near:.2f} "
            "by today's figures."
        )
    return f"Its relevance was too low: for this prompt it is {near:.2f} by today's figures."
