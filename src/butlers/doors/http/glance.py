"""A butler at a glance: what a fleet shows of it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from butlers.doors.http.jobs import Plan, plan_of
from butlers.doors.http.seats import Seat, Seated
from butlers.memory.operations import listing
from butlers.memory.operations.answers import Happened, Instant, Stats
from butlers.operation import Answer

router = APIRouter(tags=["fleet"])


class Overview(Stats):
    """What a fleet shows of one butler."""

    last_consolidated_at: Instant | None
    health: Literal["ok", "unwell"]


class Glance(Answer):
    """Counts and health, what happened last, and the jobs with their next and last run."""

    overview: Overview
    activity: list[Happened]
    plan: Plan


@router.get("/overview", response_model=Overview)
async def get_overview(seat: Seated) -> Any:
    """All counts, the last consolidation and the health of one butler."""
    return await overview_of(seat)


@router.get("/glance", response_model=Glance)
async def glance(seat: Seated, asked: Annotated[listing.AskedOverview, Query()]) -> Any:
    """The overview, the newest events and the jobs of one butler."""
    return await glance_of(seat, asked.events)


async def overview_of(seat: Seat) -> dict[str, Any]:
    """What a fleet shows of one butler."""
    told = await seat.ask(listing.overview)
    del told["activity"]
    return {**told, "health": await _health(seat)}


async def glance_of(seat: Seat, events: int) -> dict[str, Any]:
    """What the fleet's page shows of one butler."""
    told = await seat.ask(listing.overview, events=events)
    activity = told.pop("activity")
    overview = {**told, "health": await _health(seat)}
    return {"overview": overview, "activity": activity, "plan": await plan_of(seat)}


async def _health(seat: Seat) -> str:
    modules = await seat.butler.health()
    return "ok" if all(module.ok for module in modules.values()) else "unwell"
