"""A butler at a glance: all that the fleet's page shows of it, in one question."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from butlers.doors.http import answers
from butlers.doors.http.asking import Asked, Limit
from butlers.doors.http.jobs import Plan, plan_of
from butlers.doors.http.reading import health_of
from butlers.doors.http.seats import Seat, Seated
from butlers.memory.flows.stats import memory_glance
from butlers.memory.tools.results import Answer

router = APIRouter(tags=["memory"])


class Glance(Answer):
    """Counts and health, what happened last, and the jobs with their next and last run."""

    overview: answers.Overview
    activity: list[answers.Happened]
    plan: Plan


class AskedGlance(Asked):
    """How much of what happened."""

    events: Limit = 15


@router.get("/glance", response_model=Glance)
async def glance(seat: Seated, asked: Annotated[AskedGlance, Query()]) -> Any:
    """The overview, the newest events and the jobs of one butler."""
    return await glance_of(seat, asked)


async def glance_of(seat: Seat, asked: AskedGlance) -> dict[str, Any]:
    """What the fleet's page shows of one butler."""
    counted, events = await memory_glance(seat.memory, asked.events, seat.lineage)
    return {
        "overview": {**counted, "health": await health_of(seat)},
        "activity": events,
        "plan": await plan_of(seat),
    }
