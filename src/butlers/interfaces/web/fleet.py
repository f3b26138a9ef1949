"""Pages of the fleet: every butler, one search over all, activity, jobs and backups."""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from butlers.backup.directory import Backups
from butlers.clock import utc_now
from butlers.interfaces.http import backups
from butlers.interfaces.http import fleet as api
from butlers.interfaces.http.access import app_state_of
from butlers.interfaces.http.butlers import ButlerGlance, get_glance
from butlers.interfaces.http.fanout import FleetQuery
from butlers.interfaces.web.pages import go_to, render
from butlers.interfaces.web.visits import (
    Sending,
    Visit,
    Visiting,
    filled_fields,
    operation_fields,
    search_fields,
)
from butlers.memory.operations import retrieval
from butlers.memory.operations.listing import OverviewInput
from butlers.sessions.session_alerts import shortfalls

router = APIRouter()
_EVENTS = 15


@router.get("/memory")
async def fleet(visit: Visiting) -> Response:
    """Show every butler, the search, the activity, the jobs and the backups."""
    params = OverviewInput(events=_EVENTS)
    query = FleetQuery(
        ButlerGlance, lambda access: get_glance(access, params), "glance", params.model_dump()
    )
    replies = await api.ask_fleet(visit.request, visit.visitor, query)
    events = {reply.name: reply.result.activity for reply in replies if reply.result}
    return render(
        visit.request,
        "fleet.html",
        homes=visit.homes,
        **await _home_status(visit),
        butler_cards=[{**api.status_of(reply), "result": reply.result} for reply in replies],
        activity=api.newest(events, _EVENTS),
    )


async def _home_status(visit: Visit) -> dict[str, Any]:
    """Load alerts about sessions and the backups, for the operator of the home."""
    if not visit.visitor.who.is_operator:
        return {"shortfalls": [], "backups": None}
    root = app_state_of(visit.request).home.root
    return {
        "shortfalls": await asyncio.to_thread(shortfalls, root, utc_now()),
        "backups": await backups.list_backups(visit.request, _backups(visit)),
    }


def _backups(visit: Visit) -> Backups:
    return backups.backups_of(visit.request, visit.visitor)


@router.post("/memory/backups")
async def back_up(visit: Sending) -> Response:
    """Back up the home now."""
    backup = await backups.make_backup(visit.request, _backups(visit))
    return go_to(f"/memory?done={'saved' if backup['file'] else 'saving'}")


@router.post("/memory/backups/verify")
async def check_backup(visit: Sending) -> Response:
    """Check the newest backup; the page shows the result."""
    params = backups.AskedCheck(deep=visit.form["deep"] == "yes")
    await backups.check_backup(visit.request, _backups(visit), params)
    return go_to("/memory?done=checked")


@router.get("/memory/feed")
async def feed(visit: Visiting) -> Response:
    """Return the activity list alone, for the page that refreshes it."""
    params = api.AskedFleetActivity(limit=_EVENTS)
    page = await api.activity(visit.request, visit.visitor, params)
    return render(visit.request, "feed.html", homes=visit.homes, activity=page["items"])


@router.get("/memory/search")
async def search(visit: Visiting) -> Response:
    """Search all butlers and show one ranked list."""
    fields = filled_fields(visit.request)
    results = None
    if "q" in fields:
        params = operation_fields(retrieval.search, search_fields(fields))
        retrieval.search.parse(params)  # refuses bad input with a message
        query = api.AskedFleetSearch.model_validate(params)
        results = await api.search(visit.request, visit.visitor, query)
    return render(visit.request, "fleet_search.html", homes=visit.homes, results=results)
