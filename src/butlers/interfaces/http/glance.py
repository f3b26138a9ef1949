"""A butler at a glance: what a fleet shows of it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from butlers.interfaces.http.jobs import Plan, plan_of
from butlers.interfaces.http.seats import Seat, Seated
from butlers.memory.operations import listing
from butlers.memory.operations.answers import Happened, Instant, Stats
from butlers.operation import Answer

router = APIRouter(tags=["fleet"])


class Overview(Stats):
    """What a fleet shows of one butler."""

    last_consolidated_at: Instant | None
    health: Literal["ok", "unwell"]
    failures: dict[str, str] = {}
    """Why each module that could not start did not."""


class Glance(Answer):
    """Counts and health, what happened last, and the jobs with their next and last run."""

    overview: Overview
    activity: list[Happened]
    plan: Plan


@router.get("/overview", response_model=Overview)
async def get_overview(seat: Seated) -> Any:
    """All counts, the last consolidation and the health of one butler."""
    told = await seat.ask(listing.overview)
    del told["activity"]
    return {**told, **await _health(seat)}


@router.get("/glance", response_model=Glance)
async def glance(seat: Seated, asked: Annotated[listing.AskedOverview, Query()]) -> Any:
    """The overview, the newest events and the jobs of one butler."""
    told = await seat.ask(listing.overview, events=asked.events)
    activity = told.pop("activity")
    overview = {**told, **await _health(seat)}
    return {"overview": overview, "activity": activity, "plan": await plan_of(seat)}


async def _health(seat: Seat) -> dict[str, Any]:
    modules = await seat.butler.health()
    well = all(module.ok for module in modules.values())
    return {"health": "ok" if well else "unwell", "failures": seat.butler.failures}
