"""The fleet: every butler at a glance, one search over all, and what is going on."""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from butlers.dashboard.api import fleet as api
from butlers.dashboard.api import jobs as jobs_api
from butlers.dashboard.fanout import Question
from butlers.dashboard.pages.asked import given, read
from butlers.dashboard.pages.rendering import render
from butlers.dashboard.pages.routing import PageRoute
from butlers.dashboard.pages.visits import Visit, Visiting
from butlers.modules.memory.model import MemoryType, SearchMode

router = APIRouter(route_class=PageRoute)
_EVENTS = 15


@router.get("/memory")
async def fleet(visit: Visiting) -> Response:
    """Every butler, the search, the feed and the jobs."""
    # At once: a butler that is down costs its time limit, not three of them.
    overview, activity, jobs = await asyncio.gather(
        api.overview(visit.request, visit.visitor), _activity(visit), _jobs(visit)
    )
    return render(
        visit.request,
        "fleet.html",
        overview=overview,
        activity=activity,
        jobs=jobs,
        asked={},
        modes=list(SearchMode),
        types=list(MemoryType),
    )


@router.get("/memory/feed")
async def feed(visit: Visiting) -> Response:
    """The feed alone, for the page that keeps it fresh."""
    return render(visit.request, "feed.html", activity=await _activity(visit))


@router.get("/memory/search")
async def search(visit: Visiting) -> Response:
    """What all butlers find, in one order."""
    fields = given(visit.request)
    found = None
    if "q" in fields:
        wanted: dict[str, Any] = {**fields, "types": [fields["types"]] if "types" in fields else []}
        question = read(api.AskedFleetSearch, wanted)
        found = await api.search(visit.request, visit.visitor, question)
    return render(
        visit.request,
        "fleet_search.html",
        found=found,
        asked=fields,
        modes=list(SearchMode),
        types=list(MemoryType),
    )


async def _activity(visit: Visit) -> dict[str, Any]:
    asked = api.AskedFleetActivity(limit=_EVENTS)
    told: dict[str, Any] = await api.activity(visit.request, visit.visitor, asked)
    return told


async def _jobs(visit: Visit) -> list[dict[str, Any]]:
    """The jobs of every butler that answers, remote ones too; those cannot be run from here."""
    question = Question(jobs_api.Jobs, jobs_api.jobs_of, "jobs", {})
    replies = await visit.fleet.ask(visit.visitor, visit.request.state.request_id, question)
    return [
        {"butler": reply.name, "is_remote": reply.is_remote, **reply.said.model_dump()}
        for reply in replies
        if reply.said is not None
    ]
