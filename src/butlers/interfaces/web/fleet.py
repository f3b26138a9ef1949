"""Pages of the fleet: every butler, one search over all, activity, jobs and backups."""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from butlers.clock import utc_now
from butlers.interfaces.http import backups
from butlers.interfaces.http import fleet as api
from butlers.interfaces.http.butlers import ButlerGlance, get_glance
from butlers.interfaces.http.fanout import FleetQuery
from butlers.interfaces.web.pages import PageRoute, go_to, render
from butlers.interfaces.web.visits import (
    Sending,
    Visit,
    Visiting,
    filled_fields,
    operation_fields,
    search_fields,
)
from butlers.memory.model import MemoryType, SearchMode
from butlers.memory.operations import retrieval
from butlers.memory.operations.listing import OverviewInput
from butlers.sessions.spool_entries import Shortfall, shortfalls

router = APIRouter(route_class=PageRoute)
_EVENTS = 15


@router.get("/memory")
async def fleet(visit: Visiting) -> Response:
    """Show every butler, the search, the activity, the jobs and the backups."""
    asked = OverviewInput(events=_EVENTS)
    question = FleetQuery(
        ButlerGlance, lambda access: get_glance(access, asked), "glance", asked.model_dump()
    )
    replies = await visit.fleet.ask(visit.visitor, visit.request.state.request_id, question)
    seen = {reply.name: reply.said for reply in replies if reply.said}
    return render(
        visit.request,
        "fleet.html",
        homes=visit.homes,
        shortfalls=await asyncio.to_thread(_shortfalls, visit),
        backups=await _backups(visit),
        done=visit.request.query_params.get("done", ""),
        glances=[{**api.status_of(reply), "said": reply.said} for reply in replies],
        activity=api.newest({name: one.activity for name, one in seen.items()}, _EVENTS),
        asked={},
        modes=list(SearchMode),
        types=list(MemoryType),
    )


def _shortfalls(visit: Visit) -> list[Shortfall]:
    """Load alerts about sessions, for the operator of the home."""
    is_operator = visit.visitor.is_operator
    return shortfalls(visit.app_state.home.root, utc_now()) if is_operator else []


async def _backups(visit: Visit) -> dict[str, Any] | None:
    """Load the backups, for the operator of the home."""
    if not visit.visitor.is_operator:
        return None
    kept = backups.backups_of(visit.request, visit.visitor)
    told: dict[str, Any] = await backups.list_backups(visit.request, kept)
    return told


@router.post("/memory/backups")
async def back_up(sent: Sending) -> Response:
    """Back up the home now."""
    request = sent.visit.request
    made = await backups.make_backup(request, backups.backups_of(request, sent.visit.visitor))
    return go_to(f"/memory?done={'saved' if made['file'] else 'saving'}")


@router.post("/memory/backups/verify")
async def check_backup(sent: Sending) -> Response:
    """Check the newest backup; the page shows the result."""
    request = sent.visit.request
    asked = backups.AskedCheck(deep=sent.form["deep"] == "yes")
    await backups.check_backup(request, backups.backups_of(request, sent.visit.visitor), asked)
    return go_to("/memory?done=checked")


@router.get("/memory/feed")
async def feed(visit: Visiting) -> Response:
    """Return the activity list alone, for the page that refreshes it."""
    asked = api.AskedFleetActivity(limit=_EVENTS)
    told = await api.activity(visit.request, visit.visitor, asked)
    return render(visit.request, "feed.html", homes=visit.homes, activity=told["items"])


@router.get("/memory/search")
async def search(visit: Visiting) -> Response:
    """Search all butlers and show one ranked list."""
    fields = filled_fields(visit.request)
    found = None
    if "q" in fields:
        wanted = operation_fields(retrieval.search, search_fields(fields))
        retrieval.search.parse(wanted)  # refuses bad input with a message
        question = api.AskedFleetSearch.model_validate(wanted)
        found = await api.search(visit.request, visit.visitor, question)
    return render(
        visit.request,
        "fleet_search.html",
        homes=visit.homes,
        found=found,
        asked=fields,
        modes=list(SearchMode),
        types=list(MemoryType),
    )
