"""Routes over the fleet: every butler that the caller may see, asked at once."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request

from butlers.interfaces.http import jobs
from butlers.interfaces.http.access import MEMORY, ButlerAccess, Visiting, Visitor
from butlers.interfaces.http.butlers import ButlerOverview, get_overview
from butlers.interfaces.http.fanout import Fleet, FleetQuery, Reply, Result
from butlers.interfaces.http.jobs import Jobs
from butlers.kernel.ranking import best_first
from butlers.memory.model import SearchMode
from butlers.memory.operations import input_fields, listing, retrieval
from butlers.memory.operations.listing import Many
from butlers.memory.operations.page_results import Activity, FoundAll
from butlers.memory.operations.results import Happened, RememberedMemory
from butlers.memory.policy.trust import apart, joined_results, shown_trust
from butlers.operation import Input, Output

router = APIRouter(tags=["fleet"])
_SCORES = {
    SearchMode.HYBRID: "relevance",
    SearchMode.SEMANTIC: "similarity",
    SearchMode.KEYWORD: "rank",
}


class ButlerStatus(Output):
    """Whether a butler answered; `error` says why it did not."""

    name: str
    status: Literal["up", "down"]
    is_remote: bool
    error: str | None


class FleetButler(ButlerStatus):
    """A butler of the fleet; `overview` is null when it is down."""

    overview: ButlerOverview | None


class FleetOverview(Output):
    """Every butler, whether or not it answered."""

    butlers: list[FleetButler]


class FoundAtButler(RememberedMemory):
    """A search result of a butler."""

    butler: str
    score: float
    """Orders the results of different butlers."""


class FleetSearch(Output):
    """The results of all butlers, best first, and the status of each butler."""

    items: list[FoundAtButler]
    butlers: list[ButlerStatus]


class HappenedAtButler(Happened):
    """An event of a butler."""

    butler: str


class FleetActivity(Output):
    """The events of all butlers, newest first, and the status of each butler."""

    items: list[HappenedAtButler]
    butlers: list[ButlerStatus]


class ButlerJobs(ButlerStatus):
    """The jobs of a butler and their newest runs; `jobs` is null when it is down."""

    jobs: Jobs | None


class FleetJobs(Output):
    """The jobs of every butler, whether or not it answered."""

    butlers: list[ButlerJobs]


class Butlers(Output):
    """The butlers a caller may see."""

    butlers: list[str]


class AskedFleetSearch(retrieval.SearchInput):
    """What to search for at every butler."""

    limit: Many = 20
    min_relevance: Annotated[float, *input_fields.within(0, 1)] = retrieval.ANSWERING
    """0 to 1; less relevant memories are left out. By default only those that answer are kept."""


class AskedFleetActivity(Input):
    """How many events to list."""

    limit: Many = 20


@router.get("/butlers", response_model=Butlers)
async def list_butlers(request: Request, visitor: Visiting) -> Any:
    """List the butlers this caller may see."""
    fleet: Fleet = request.app.state.fleet
    remotes = [remote.name for remote in fleet.there(visitor)]
    return {"butlers": fleet.here(visitor) + remotes}


@router.get("/memory/overview", response_model=FleetOverview)
async def overview(request: Request, visitor: Visiting) -> Any:
    """Read counts, backlog, last consolidation and health of every butler."""
    query = FleetQuery(ButlerOverview, get_overview, "overview", {})
    replies = await ask_fleet(request, visitor, query)
    return {"butlers": [{**status_of(reply), "overview": reply.result} for reply in replies]}


@router.get("/memory/search", response_model=FleetSearch, response_model_exclude_unset=True)
async def search(
    request: Request, visitor: Visiting, asked: Annotated[AskedFleetSearch, Query()]
) -> Any:
    """Search every butler; return the best results in one order, each with butler and score."""
    mode = asked.mode or SearchMode.HYBRID
    params = asked.model_dump(mode="json", exclude_none=True) | {"mode": mode.value}

    async def here(access: ButlerAccess) -> Any:
        return {"items": await access.perform(MEMORY, retrieval.search, params)}

    replies = await ask_fleet(request, visitor, FleetQuery(FoundAll, here, "search", params))
    # A butler that leaves the score out ranks last.
    results = [
        row.model_dump(exclude_unset=True)
        | {"butler": reply.name, "score": getattr(row, _SCORES[mode]) or 0.0}
        for reply in replies
        for row in (reply.result.items if reply.result else ())
    ]
    results.sort(key=_best_first)
    others, low = apart(results, shown_trust)
    items = joined_results(others, low, len(low), asked.limit)
    return {"items": items, "butlers": [status_of(reply) for reply in replies]}


def _best_first(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*best_first(row["score"], row["created_at"], row["id"]), row["butler"])


@router.get("/memory/activity", response_model=FleetActivity)
async def activity(
    request: Request, visitor: Visiting, asked: Annotated[AskedFleetActivity, Query()]
) -> Any:
    """List the events of every butler, newest first."""

    async def here(access: ButlerAccess) -> Any:
        page = await access.ask(listing.activity, limit=asked.limit)
        return {"items": page["items"], "next_cursor": None}

    query = FleetQuery(Activity, here, "activity", {"limit": asked.limit})
    replies = await ask_fleet(request, visitor, query)
    events = {reply.name: reply.result.items for reply in replies if reply.result}
    statuses = [status_of(reply) for reply in replies]
    return {"items": newest(events, asked.limit), "butlers": statuses}


@router.get("/memory/jobs", response_model=FleetJobs)
async def list_jobs(request: Request, visitor: Visiting) -> Any:
    """List the jobs of every butler with their next runs and history."""
    replies = await ask_fleet(request, visitor, FleetQuery(Jobs, jobs.list_jobs, "jobs", {}))
    return {"butlers": [{**status_of(reply), "jobs": reply.result} for reply in replies]}


async def ask_fleet(
    request: Request, visitor: Visitor, query: FleetQuery[Result]
) -> list[Reply[Result]]:
    """Ask every butler that the caller may see."""
    fleet: Fleet = request.app.state.fleet
    return await fleet.ask(visitor, request.state.request_id, query)


def newest(by_butler: Mapping[str, list[Happened]], limit: int) -> list[dict[str, Any]]:
    """Merge the events of all butlers, newest first; a butler's own order stays in a tie."""
    events = [(butler, event) for butler, events in by_butler.items() for event in events]
    # Sorting is stable, and each butler returned its events newest first.
    events.sort(key=lambda pair: pair[1].created_at, reverse=True)
    return [{**event.model_dump(), "butler": butler} for butler, event in events[:limit]]


def status_of(reply: Reply[Any]) -> dict[str, Any]:
    """Say whether a butler answered."""
    return {
        "name": reply.name,
        "status": "down" if reply.result is None else "up",
        "is_remote": reply.is_remote,
        "error": reply.error,
    }
