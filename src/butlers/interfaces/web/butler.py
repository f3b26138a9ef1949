"""Pages of one butler: overview, activity, jobs and review."""

import asyncio
from typing import Literal
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from butlers.interfaces.http import jobs as api
from butlers.interfaces.http.butlers import get_overview
from butlers.interfaces.web import pictures
from butlers.interfaces.web.pages import go_to, render_butler
from butlers.interfaces.web.visits import ButlerSending, ButlerVisiting, Name
from butlers.memory.flows.browse import MAX_LIMIT
from butlers.memory.model import Maturity
from butlers.memory.operations import conflicts, consolidation, listing, trust

router = APIRouter(prefix="/butlers/{name}/memory")
_FEW = 6
_EVENTS = 12


@router.get("")
async def overview(visit: ButlerVisiting) -> Response:
    """Show counts, plots, and the newest memories and events."""
    counts, timeline, facts, rules, warnings, episodes, activity = await asyncio.gather(
        get_overview(visit),
        visit.ask(listing.timeline),
        visit.ask(listing.list_facts, limit=_FEW),
        visit.ask(listing.list_rules),
        visit.ask(listing.list_rules, maturity=Maturity.ANTI_PATTERN, limit=_FEW),
        visit.ask(listing.list_episodes, limit=_FEW),
        visit.ask(listing.activity, limit=_EVENTS),
    )
    followed = [rule for rule in rules["items"] if rule["maturity"] != Maturity.ANTI_PATTERN]
    return render_butler(
        visit,
        "overview",
        template="butler.html",
        overview=counts,
        plots=pictures.plots(timeline, pictures.retrieval_latency(visit.butler.name)),
        facts=pictures.with_decay(facts["items"], visit),
        rules=pictures.with_decay(followed[:_FEW], visit),
        warnings=pictures.with_decay(warnings["items"], visit),
        episodes=episodes["items"],
        activity=activity["items"],
    )


@router.get("/activity")
async def activity(visit: ButlerVisiting, cursor: str | None = None) -> Response:
    """Show the audit events, a page at a time."""
    page = await visit.ask(listing.activity, limit=50, cursor=cursor)
    return render_butler(visit, "activity", activity=page["items"], next_cursor=page["next_cursor"])


@router.get("/jobs")
async def jobs(visit: ButlerVisiting) -> Response:
    """Show every job with its next run, and the newest runs."""
    return render_butler(visit, "jobs", plan=await api.list_jobs(visit))


@router.post("/jobs/clock")
async def accept_clock(visit: ButlerSending) -> Response:
    """Confirm that the system clock is right."""
    await api.accept_clock(visit)
    return go_to(f"{visit.home}/jobs?done=believed")


@router.post("/jobs/{job}/run")
async def run(visit: ButlerSending, job: Name) -> Response:
    """Run a job now."""
    answer = await api.run_job(visit, visit.visit.request, job)
    return go_to(f"{visit.home}/jobs?done={'ended' if answer['run'] else 'begun'}")


@router.get("/review")
async def review(visit: ButlerVisiting) -> Response:
    """Show what waits for review; quarantined memories only to the operator."""
    page = await visit.ask(conflicts.list_conflicts, limit=MAX_LIMIT)
    return render_butler(
        visit,
        "review",
        quarantined=await visit.ask(trust.list_quarantine) if visit.caller.is_operator else None,
        proposals=await visit.ask(consolidation.list_proposals),
        doubts=await visit.ask(conflicts.list_doubts),
        conflicts=page["items"],
    )


@router.post("/quarantine/{memory_id}/{verdict}")
async def judge(
    visit: ButlerSending, memory_id: UUID, verdict: Literal["accept", "reject"]
) -> Response:
    """Release a quarantined memory, or forget it."""
    accepts = verdict == "accept"
    operation = trust.accept_quarantined if accepts else trust.reject_quarantined
    await visit.ask(operation, memory_id=str(memory_id))
    return go_to(f"{visit.home}/review")


@router.post("/proposals/{proposal_id}/{verdict}")
async def decide(
    visit: ButlerSending, proposal_id: UUID, verdict: Literal["accept", "decline"]
) -> Response:
    """Accept a proposal, or decline it."""
    accepts = verdict == "accept"
    operation = consolidation.accept_proposal if accepts else consolidation.decline_proposal
    await visit.ask(operation, proposal_id=str(proposal_id))
    return go_to(f"{visit.home}/review")


@router.post("/conflicts/{conflict_id}")
async def settle(visit: ButlerSending, conflict_id: UUID) -> Response:
    """Settle a conflict: which fact is true, both, or since when the newer one is."""
    decision = {"holds": visit.form["holds"], "since": visit.form.optional("since")}
    await visit.ask(conflicts.settle_conflict, conflict_id=str(conflict_id), **decision)
    return go_to(f"{visit.home}/review")
