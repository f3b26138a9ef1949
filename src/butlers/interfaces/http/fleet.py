"""The whole fleet: every butler the caller may see, asked at once."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request

from butlers.interfaces.http import jobs
from butlers.interfaces.http.access import MEMORY, Visiting
from butlers.interfaces.http.butlers import ButlerOverview, get_overview
from butlers.interfaces.http.fanout import Fleet, FleetQuery, Reply
from butlers.interfaces.http.jobs import Jobs
from butlers.kernel.ranking import best_first
from butlers.memory.model import SearchMode
from butlers.memory.operations import input_fields, listing, retrieval
from butlers.memory.operations.listing import Many
from butlers.memory.operations.page_results import Activity, FoundAll
from butlers.memory.operations.results import Happened, RememberedMemory
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
    """A memory that a butler found."""

    butler: str
    score: float
    """By which results of different butlers are put in one order."""


class FleetSearch(Output):
    """What all butlers found, best first, and which of them did not answer."""

    items: list[FoundAtButler]
    butlers: list[ButlerStatus]


class HappenedAtButler(Happened):
    """Something that happened at a butler."""

    butler: str


class FleetActivity(Output):
    """What happened at all butlers, newest first, and which of them did not answer."""

    items: list[HappenedAtButler]
    butlers: list[ButlerStatus]


class ButlerJobs(ButlerStatus):
    """The jobs of a butler of the fleet and their newest runs; `jobs` is null when it is down."""

    jobs: Jobs | None


class FleetJobs(Output):
    """The jobs of every butler, whether or not it answered."""

    butlers: list[ButlerJobs]


class Butlers(Output):
    """The butlers a caller may see."""

    butlers: list[str]


class AskedFleetSearch(retrieval.SearchInput):
    """What is looked for at every butler."""

    limit: Many = 20
    min_relevance: Annotated[float, *input_fields.within(0, 1)] = retrieval.ANSWERING
    """0 to 1; what is less relevant is left out. Unless told so, what does not answer is."""


class AskedFleetActivity(Input):
    """How much of what happened."""

    limit: Many = 20


@router.get("/butlers", response_model=Butlers)
async def list_butlers(request: Request, visitor: Visiting) -> Any:
    """The butlers this caller may see."""
    return {"butlers": _fleet(request).names(visitor)}


@router.get("/memory/overview", response_model=FleetOverview)
async def overview(request: Request, visitor: Visiting) -> Any:
    """Counts, backlog, last consolidation and health of every butler."""
    question = FleetQuery(ButlerOverview, get_overview, "overview", {})
    replies = await _fleet(request).ask(visitor, request.state.request_id, question)
    return {"butlers": [{**status_of(reply), "overview": reply.said} for reply in replies]}


@router.get("/memory/search", response_model=FleetSearch, response_model_exclude_unset=True)
async def search(
    request: Request, visitor: Visiting, asked: Annotated[AskedFleetSearch, Query()]
) -> Any:
    """The best matches of every butler in one order, each with its butler and score."""

    mode = asked.mode or SearchMode.HYBRID
    params = asked.model_dump(mode="json", exclude_none=True) | {"mode": mode.value}

    async def here(access: Any) -> Any:
        return {"items": await access.perform(MEMORY, retrieval.search, params)}

    question = FleetQuery(FoundAll, here, "search", params)
    replies = await _fleet(request).ask(visitor, request.state.request_id, question)
    found = [
        {
            **one.model_dump(exclude_unset=True),
            "butler": reply.name,
            "score": _score(one, mode),
        }
        for reply in replies
        for one in (reply.said.items if reply.said else ())
    ]
    found.sort(key=lambda one: (*best_first(one["score"], one["created_at"], one["id"]),
                                one["butler"]))  # fmt: skip
    return {"items": found[: asked.limit], "butlers": [status_of(reply) for reply in replies]}


@router.get("/memory/activity", response_model=FleetActivity)
async def activity(
    request: Request, visitor: Visiting, asked: Annotated[AskedFleetActivity, Query()]
) -> Any:
    """What happened at every butler, newest first."""

    async def here(access: Any) -> Any:
        page = await access.ask(listing.activity, limit=asked.limit)
        return {"items": page["items"], "next_cursor": None}

    question = FleetQuery(Activity, here, "activity", {"limit": asked.limit})
    replies = await _fleet(request).ask(visitor, request.state.request_id, question)
    return {
        "items": newest(
            {reply.name: reply.said.items for reply in replies if reply.said}, asked.limit
        ),
        "butlers": [status_of(reply) for reply in replies],
    }


@router.get("/memory/jobs", response_model=FleetJobs)
async def list_jobs(request: Request, visitor: Visiting) -> Any:
    """When the jobs of every butler run next, and how they ran."""
    question = FleetQuery(Jobs, jobs.list_jobs, "jobs", {})
    replies = await _fleet(request).ask(visitor, request.state.request_id, question)
    return {"butlers": [{**status_of(reply), "jobs": reply.said} for reply in replies]}


def newest(told: Mapping[str, list[Happened]], limit: int) -> list[dict[str, Any]]:
    """The newest events of all; of one instant, a butler's own stay in the order it told them."""
    events = [(butler, event) for butler, its in told.items() for event in its]
    # Sorting is stable, and each butler told its events newest first.
    events.sort(key=lambda one: one[1].created_at, reverse=True)
    return [{**event.model_dump(), "butler": butler} for butler, event in events[:limit]]


def status_of(reply: Reply[Any]) -> dict[str, Any]:
    """Whether a butler answered."""
    return {
        "name": reply.name,
        "status": "down" if reply.said is None else "up",
        "is_remote": reply.is_remote,
        "error": reply.error,
    }


def _score(found: RememberedMemory, mode: SearchMode) -> float:
    """The score of the mode; a butler that leaves it out ranks its finding last."""
    score: float | None = getattr(found, _SCORES[mode])
    return 0.0 if score is None else score


def _fleet(request: Request) -> Fleet:
    fleet: Fleet = request.app.state.fleet
    return fleet
