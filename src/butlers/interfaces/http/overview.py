"""A butler at a glance: what a fleet shows of it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from butlers.interfaces.http.butler_access import ButlerAccess, Seated
from butlers.interfaces.http.jobs import JobPlans, plan_of
from butlers.memory.operations import listing
from butlers.memory.operations.results import Happened, Instant, MemoryStats
from butlers.operation import Output

router = APIRouter(tags=["fleet"])


class ButlerOverview(MemoryStats):
    """What a fleet shows of one butler."""

    last_consolidated_at: Instant | None
    health: Literal["ok", "unwell"]
    failures: dict[str, str] = {}
    """Why each module that could not start did not."""


class ButlerGlance(Output):
    """Counts and health, what happened last, and the jobs with their next and last run."""

    overview: ButlerOverview
    activity: list[Happened]
    plan: JobPlans


@router.get("/overview", response_model=ButlerOverview)
async def get_overview(seat: Seated) -> Any:
    """All counts, the last consolidation and the health of one butler."""
    told = await seat.ask(listing.overview)
    del told["activity"]
    return {**told, **await _health(seat)}


@router.get("/glance", response_model=ButlerGlance)
async def glance(seat: Seated, asked: Annotated[listing.OverviewInput, Query()]) -> Any:
    """The overview, the newest events and the jobs of one butler."""
    told = await seat.ask(listing.overview, events=asked.events)
    activity = told.pop("activity")
    overview = {**told, **await _health(seat)}
    return {"overview": overview, "activity": activity, "plan": await plan_of(seat)}


async def _health(seat: ButlerAccess) -> dict[str, Any]:
    modules = await seat.butler.health()
    well = all(module.ok for module in modules.values())
    return {"health": "ok" if well else "unwell", "failures": seat.butler.failures}
