"""One butler: its overview, and what removing it would delete.

A butler is removed while its home is down: agents, jobs and sessions of a running home use it,
some of them without a token.
"""

import shlex
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from butlers.host.removal import belongings
from butlers.interfaces.http.access import ButlerAccess, CurrentAccess
from butlers.interfaces.http.jobs import JobPlans, plan_of
from butlers.memory.operations import listing
from butlers.memory.operations.results import Happened, Instant, MemoryStats
from butlers.operation import Output

router = APIRouter()


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


@router.get("/memory/overview", tags=["fleet"], response_model=ButlerOverview)
async def get_overview(access: CurrentAccess) -> Any:
    """All counts, the last consolidation and the health of one butler."""
    told = await access.ask(listing.overview)
    del told["activity"]
    return {**told, **await _health(access)}


@router.get("/memory/glance", tags=["fleet"], response_model=ButlerGlance)
async def get_glance(
    access: CurrentAccess, asked: Annotated[listing.OverviewInput, Query()]
) -> Any:
    """The overview, the newest events and the jobs of one butler."""
    told = await access.ask(listing.overview, events=asked.events)
    activity = told.pop("activity")
    overview = {**told, **await _health(access)}
    return {"overview": overview, "activity": activity, "plan": await plan_of(access)}


async def _health(access: ButlerAccess) -> dict[str, Any]:
    modules = await access.butler.health()
    well = all(module.ok for module in modules.values())
    return {"health": "ok" if well else "unwell", "failures": access.butler.failures}


class GivenTo(Output):
    """An agent that was given the butler, whose own files are its user's to change."""

    client: str
    project: str
    """Where; "" for all that its user does."""


class RemovalPreview(Output):
    """What would go with a butler, and what removes it."""

    memories: dict[str, int]
    files: list[str]
    schedule: list[str]
    tokens: list[str]
    """The ids of its tokens."""
    sessions: int
    """How many wait to be stored."""
    connections: list[GivenTo]
    commands: list[str]
    """What removes it, typed where the home is: it must be down, and is backed up before."""


@router.get("/removal", tags=["data"], response_model=RemovalPreview)
async def preview_removal(access: CurrentAccess) -> Any:
    """What would go with the butler if it were removed, and the commands that remove it.

    Nothing is changed. It concerns whoever has memories there, so that only its owner may ask.
    """
    access.must_run_jobs("a butler is removed with what every tenant has; its own tenant may ask")
    had = await belongings(access.butler.home, access.butler.name)
    return {
        "memories": had.memories,
        "files": had.files,
        "schedule": had.schedule,
        "tokens": [one.id for one in had.tokens],
        "sessions": len(had.sessions),
        "connections": [{"client": one.client, "project": one.project} for one in had.connections],
        "commands": _commands(access),
    }


def _commands(access: ButlerAccess) -> list[str]:
    home = ["--home", str(access.butler.home.root)]
    typed = (["stop"], ["remove", access.butler.name], ["up"])
    return [shlex.join(["butlers", *words, *home]) for words in typed]
