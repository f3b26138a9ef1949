"""Pages of one butler: overview, activity, jobs and review."""

import asyncio
from typing import Any, Literal
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from butlers.interfaces.http import jobs as api
from butlers.interfaces.http.access import ButlerAccess
from butlers.interfaces.http.butlers import get_overview
from butlers.interfaces.web import pictures
from butlers.interfaces.web.pages import PageRoute, go_to, render_butler
from butlers.interfaces.web.pictures import retrieval_latency
from butlers.interfaces.web.visits import Name, Sending, Visiting
from butlers.memory.flows.browse import MAX_LIMIT
from butlers.memory.model import Maturity
from butlers.memory.operations import conflicts, consolidation, listing, trust
from butlers.operation import Operation

router = APIRouter(route_class=PageRoute)
_FEW = 6
_EVENTS = 12
_PATH = "/butlers/{name}/memory"


@router.get(_PATH)
async def overview(visit: Visiting, name: Name) -> Response:
    """Show counts, plots, and the newest memories and events."""
    access = visit.access(name)
    told, timeline, facts, (rules, warnings), episodes, activity = await asyncio.gather(
        get_overview(access),
        access.ask(listing.timeline),
        access.ask(listing.list_facts, limit=_FEW),
        _newest_rules(access),
        access.ask(listing.list_episodes, limit=_FEW),
        access.ask(listing.activity, limit=_EVENTS),
    )
    return render_butler(
        visit,
        name,
        "overview",
        template="butler.html",
        told=told,
        plots=pictures.plots(timeline, retrieval_latency(name)),
        facts=pictures.with_decay(facts["items"], access),
        rules=rules,
        warnings=warnings,
        episodes=episodes["items"],
        activity=activity["items"],
    )


@router.get(_PATH + "/activity")
async def activity(visit: Visiting, name: Name, cursor: str | None = None) -> Response:
    """Show the audit events, a page at a time."""
    page = await visit.access(name).ask(listing.activity, limit=50, cursor=cursor)
    return render_butler(
        visit,
        name,
        "activity",
        activity=page["items"],
        cursor=cursor,
        next_cursor=page["next_cursor"],
    )


@router.get(_PATH + "/jobs")
async def jobs(visit: Visiting, name: Name, done: str = "") -> Response:
    """Show every job with its next run, and the newest runs."""
    told = await api.list_jobs(visit.access(name))
    return render_butler(visit, name, "jobs", told=told, done=done)


@router.post(_PATH + "/jobs/clock")
async def accept_clock(sent: Sending, name: Name) -> Response:
    """Confirm that the system clock is right."""
    await api.accept_clock(sent.visit.access(name))
    return go_to(f"/butlers/{name}/memory/jobs?done=believed")


@router.post(_PATH + "/jobs/{job}/run")
async def run(sent: Sending, name: Name, job: Name) -> Response:
    """Run a job now."""
    answer = await api.run_job(sent.visit.access(name), sent.visit.request, job)
    word = "ended" if answer["run"] else "begun"
    return go_to(f"/butlers/{name}/memory/jobs?done={word}")


_VERDICTS: dict[str, Operation] = {
    "accept": trust.accept_quarantined,
    "reject": trust.reject_quarantined,
}
_ANSWERS: dict[str, Operation] = {
    "accept": consolidation.accept_proposal,
    "decline": consolidation.decline_proposal,
}


@router.get(_PATH + "/review")
async def review(visit: Visiting, name: Name) -> Response:
    """Show what waits for review; quarantined memories only to the operator."""
    access = visit.access(name)
    held = await access.ask(trust.list_quarantine) if access.is_operator else None
    proposed = await access.ask(consolidation.list_proposals)
    doubted = await access.ask(conflicts.list_doubts)
    page = await access.ask(conflicts.list_conflicts, limit=MAX_LIMIT)
    shown = {"held": held, "proposed": proposed, "doubted": doubted, "conflicts": page["items"]}
    return render_butler(visit, name, "review", **shown)


@router.post(_PATH + "/quarantine/{memory_id}/{verdict}")
async def judge(
    sent: Sending, name: Name, memory_id: UUID, verdict: Literal["accept", "reject"]
) -> Response:
    """Release a quarantined memory, or forget it."""
    await sent.visit.access(name).ask(_VERDICTS[verdict], memory_id=str(memory_id))
    return go_to(f"/butlers/{name}/memory/review")


@router.post(_PATH + "/proposals/{proposal_id}/{verdict}")
async def decide(
    sent: Sending, name: Name, proposal_id: UUID, verdict: Literal["accept", "decline"]
) -> Response:
    """Accept a proposal, or decline it."""
    await sent.visit.access(name).ask(_ANSWERS[verdict], proposal_id=str(proposal_id))
    return go_to(f"/butlers/{name}/memory/review")


@router.post(_PATH + "/conflicts/{conflict_id}")
async def settle(sent: Sending, name: Name, conflict_id: UUID) -> Response:
    """Settle a conflict: which fact is true, both, or since when the newer one is."""
    said = {"holds": sent.form["holds"], "since": sent.form.optional("since")}
    await sent.visit.access(name).ask(
        conflicts.settle_conflict, conflict_id=str(conflict_id), **said
    )
    return go_to(f"/butlers/{name}/memory/review")


async def _newest_rules(access: ButlerAccess) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Load the newest rules and the newest anti-patterns."""
    page = await access.ask(listing.list_rules)
    warnings = await access.ask(listing.list_rules, maturity=Maturity.ANTI_PATTERN, limit=_FEW)
    rules = [rule for rule in page["items"] if rule["maturity"] != Maturity.ANTI_PATTERN]
    shown = pictures.with_decay(rules[:_FEW], access)
    return shown, pictures.with_decay(warnings["items"], access)
