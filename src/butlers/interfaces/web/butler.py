"""One butler: what it knows, how it came to be, what happened lately, and its jobs."""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from butlers.interfaces.http import jobs as api
from butlers.interfaces.http.access import ButlerAccess
from butlers.interfaces.http.butlers import get_overview
from butlers.interfaces.web import pictures
from butlers.interfaces.web.pictures import retrieval_latency
from butlers.interfaces.web.rendering import render, seated
from butlers.interfaces.web.routing import PageRoute, go_to
from butlers.interfaces.web.visits import Name, Sending, Visiting
from butlers.memory.model import Maturity
from butlers.memory.operations import listing

router = APIRouter(route_class=PageRoute)
_FEW = 6
_EVENTS = 12
_PATH = "/butlers/{name}/memory"


@router.get(_PATH)
async def overview(visit: Visiting, name: Name) -> Response:
    """Counts, plots, and the newest of everything."""
    access = visit.access(name)
    told, timeline, facts, (rules, warnings), episodes, activity = await asyncio.gather(
        get_overview(access),
        access.ask(listing.timeline),
        access.ask(listing.list_facts, limit=_FEW),
        _newest_rules(access),
        access.ask(listing.list_episodes, limit=_FEW),
        access.ask(listing.activity, limit=_EVENTS),
    )
    return render(
        visit.request,
        "butler.html",
        **seated(visit, name, "overview"),
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
    """The whole audit stream, a page at a time."""
    page = await visit.access(name).ask(listing.activity, limit=50, cursor=cursor)
    return render(
        visit.request,
        "activity.html",
        **seated(visit, name, "activity"),
        activity=page["items"],
        cursor=cursor,
        next_cursor=page["next_cursor"],
    )


@router.get(_PATH + "/jobs")
async def jobs(visit: Visiting, name: Name, done: str = "") -> Response:
    """Every job with its next run, and the newest runs of all."""
    told = await api.list_jobs(visit.access(name))
    return render(visit.request, "jobs.html", **seated(visit, name, "jobs"), told=told, done=done)


@router.post(_PATH + "/jobs/clock")
async def accept_clock(sent: Sending, name: Name) -> Response:
    """Say that the clock is right."""
    await api.accept_clock(sent.visit.access(name))
    return go_to(f"/butlers/{name}/memory/jobs?done=believed")


@router.post(_PATH + "/jobs/{job}/run")
async def run(sent: Sending, name: Name, job: Name) -> Response:
    """Run a job now; the history then shows it."""
    answer = await api.run_job(sent.visit.access(name), sent.visit.request, job)
    word = "ended" if answer["run"] else "begun"
    return go_to(f"/butlers/{name}/memory/jobs?done={word}")


async def _newest_rules(access: ButlerAccess) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The newest rules to follow, and the newest warnings."""
    page = await access.ask(listing.list_rules)
    warnings = await access.ask(listing.list_rules, maturity=Maturity.ANTI_PATTERN, limit=_FEW)
    rules = [rule for rule in page["items"] if rule["maturity"] != Maturity.ANTI_PATTERN]
    shown = pictures.with_decay(rules[:_FEW], access)
    return shown, pictures.with_decay(warnings["items"], access)
