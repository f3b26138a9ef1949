"""Pages of one butler: overview, activity, jobs, review, and your data."""

import asyncio
import json
from typing import Any, Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.responses import Response

from butlers.errors import InvalidInput
from butlers.interfaces.http import jobs as api
from butlers.interfaces.http.butlers import get_overview, preview_removal
from butlers.interfaces.http.portability import AskedErasure, erase, preview_erasure
from butlers.interfaces.web import pictures
from butlers.interfaces.web.pages import go_to, render_butler
from butlers.interfaces.web.visits import ButlerSending, ButlerVisit, ButlerVisiting, Name
from butlers.memory.flows.browse import MAX_LIMIT
from butlers.memory.flows.inbox import WaitingKind
from butlers.memory.model import Maturity
from butlers.memory.operations import conflicts, consolidation, inbox, listing, trust
from butlers.operation import faults_in_words

router = APIRouter(prefix="/butlers/{name}/memory")
_FEW = 6
_EVENTS = 12
_ONLY_LISTED = (WaitingKind.REPORTED_HARMFUL, WaitingKind.SESSION)


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
    listed = await visit.ask(inbox.list_inbox)
    return render_butler(
        visit,
        "review",
        quarantined=await visit.ask(trust.list_quarantine) if visit.caller.is_operator else None,
        proposals=await visit.ask(consolidation.list_proposals),
        doubts=await visit.ask(conflicts.list_doubts),
        conflicts=page["items"],
        others=[item for item in listed if item["kind"] in _ONLY_LISTED],
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


@router.get("/data")
async def data(visit: ButlerVisiting, about: str = "", keep: str = "") -> Response:
    """Show the exports, and preview an erasure."""
    asked = {"about": about.strip(), "keep": keep.strip()}
    preview = await preview_erasure(visit, _erasure(**asked)) if asked["about"] else None
    return await _render_data(visit, asked=asked, preview=preview, receipt="")


@router.post("/data/erase")
async def erase_data(visit: ButlerSending) -> Response:
    """Erase what was previewed and show the receipt, once."""
    receipt = await erase(visit, _erasure(visit.form["about"].strip(), visit.form["keep"]))
    text = json.dumps(receipt, indent=2, ensure_ascii=False)
    return await _render_data(visit, asked={"about": "", "keep": ""}, preview=None, receipt=text)


async def _render_data(visit: ButlerVisit, **values: Any) -> Response:
    """Render the page; those who may run its jobs also see what removing the butler deletes."""
    removal = await preview_removal(visit) if visit.may_run_jobs else None
    may_erase = visit.caller.is_operator and visit.caller.may_decide
    return render_butler(visit, "data", may_erase=may_erase, removal=removal, **values)


def _erasure(about: str, keep: str) -> AskedErasure:
    """Read a name or the id of an entity, and the ids to keep, separated by spaces."""
    fields: dict[str, Any] = {"keep": keep.split()}
    try:
        fields["entity"] = UUID(about)
    except ValueError:
        fields["about"] = about
    try:
        return AskedErasure.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(faults_in_words(error)) from None
