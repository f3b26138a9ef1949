"""One butler: what it knows, how it came to be, and what happened lately."""

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from butlers.doors.http.reading import overview_of
from butlers.doors.http.seats import Seat
from butlers.doors.pages import pictures
from butlers.doors.pages.latency import retrieval_latency
from butlers.doors.pages.rendering import render, seated
from butlers.doors.pages.routing import PageRoute
from butlers.doors.pages.visits import Name, Visiting
from butlers.memory.flows import browse
from butlers.memory.flows.browse import EpisodeFilter, FactFilter, RuleFilter, Wanted
from butlers.memory.flows.timeline import memory_timeline
from butlers.memory.model import Maturity

router = APIRouter(route_class=PageRoute)
_DAYS = 30
_FEW = Wanted(limit=6)
_EVENTS = 12


@router.get("/butlers/{name}/memory")
async def overview(visit: Visiting, name: Name) -> Response:
    """Counts, plots, and the newest of everything."""
    seat = visit.seat(name)
    told, timeline, facts, (rules, warnings), episodes, activity = await asyncio.gather(
        overview_of(seat),
        memory_timeline(seat.memory, _DAYS, seat.lineage),
        browse.browse_facts(seat.memory, FactFilter(), _FEW, seat.lineage),
        newest_rules(seat),
        browse.browse_episodes(seat.memory, EpisodeFilter(), _FEW, seat.lineage),
        browse.recent_activity(seat.memory, _EVENTS, None, seat.lineage),
    )
    return render(
        visit.request,
        "butler.html",
        **seated(visit, name, "overview"),
        told=told,
        plots=pictures.plots(timeline, retrieval_latency(name)),
        facts=pictures.with_decay(facts.items, seat.memory),
        rules=rules,
        warnings=warnings,
        episodes=episodes.items,
        activity=activity.items,
    )


@router.get("/butlers/{name}/memory/activity")
async def activity(visit: Visiting, name: Name, cursor: str | None = None) -> Response:
    """The whole audit stream, a page at a time."""
    seat = visit.seat(name)
    page = await browse.recent_activity(seat.memory, 50, cursor, seat.lineage)
    return render(
        visit.request,
        "activity.html",
        **seated(visit, name, "activity"),
        activity=page.items,
        cursor=cursor,
        next_cursor=page.next_cursor,
    )


async def newest_rules(seat: Seat) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The newest rules to follow, and the newest warnings."""
    warned = RuleFilter(maturity=Maturity.ANTI_PATTERN)
    page = await browse.browse_rules(seat.memory, RuleFilter(), Wanted(limit=20), seat.lineage)
    warnings = await browse.browse_rules(seat.memory, warned, _FEW, seat.lineage)
    rules = [rule for rule in page.items if rule["maturity"] != Maturity.ANTI_PATTERN]
    few = rules[: _FEW.limit]
    return pictures.with_decay(few, seat.memory), pictures.with_decay(warnings.items, seat.memory)
