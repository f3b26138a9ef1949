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
    """Counts and health of one butler."""

    last_consolidated_at: Instant | None
    health: Literal["ok", "unwell"]
    failures: dict[str, str] = {}
    """The modules that failed to start, each with the reason."""


class ButlerGlance(Output):
    """Counts and health, the newest events, and the jobs with their next and last run."""

    overview: ButlerOverview
    activity: list[Happened]
    plan: JobPlans


@router.get("/memory/overview", tags=["fleet"], response_model=ButlerOverview)
async def get_overview(access: CurrentAccess) -> Any:
    """Read all counts, the last consolidation and the health of one butler."""
    return (await _overview_and_activity(access))[0]


@router.get("/memory/glance", tags=["fleet"], response_model=ButlerGlance)
async def get_glance(
    access: CurrentAccess, asked: Annotated[listing.OverviewInput, Query()]
) -> Any:
    """Read the overview, the newest events and the jobs of one butler."""
    overview, activity = await _overview_and_activity(access, events=asked.events)
    return {"overview": overview, "activity": activity, "plan": await plan_of(access)}


async def _overview_and_activity(access: ButlerAccess, **params: Any) -> tuple[Any, Any]:
    overview = await access.ask(listing.overview, **params)
    activity = overview.pop("activity")
    is_well = all(module.ok for module in (await access.butler.health()).values())
    overview |= {"health": "ok" if is_well else "unwell", "failures": access.butler.failures}
    return overview, activity


class GivenTo(Output):
    """An agent that is connected to the butler; its own files stay unchanged."""

    client: str
    project: str
    """The directory it is connected in; "" for everywhere."""


class RemovalPreview(Output):
    """What removing a butler deletes, and the commands that remove it."""

    memories: dict[str, int]
    files: list[str]
    schedule: list[str]
    tokens: list[str]
    """The ids of its tokens."""
    sessions: int
    """How many sessions are spooled for it."""
    connections: list[GivenTo]
    commands: list[str]
    """Run these on the machine of the home: they stop it, back it up and remove the butler."""


@router.get("/removal", tags=["data"], response_model=RemovalPreview)
async def preview_removal(access: CurrentAccess) -> Any:
    """Show what removing the butler would delete, and the commands that remove it.

    Nothing is changed. Only the butler's owner may ask.
    """
    access.require_jobs(
        "removing a butler affects every tenant; only its own tenant may preview it"
    )
    own = await belongings(access.butler.home, access.butler.name)
    home = ["--home", str(access.butler.home.root)]
    typed = (["stop"], ["remove", access.butler.name], ["up"])
    return {
        "memories": own.memories,
        "files": own.files,
        "schedule": own.schedule,
        "tokens": [token.id for token in own.tokens],
        "sessions": len(own.sessions),
        "connections": own.connections,
        "commands": [shlex.join(["butlers", *words, *home]) for words in typed],
    }
