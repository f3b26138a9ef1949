"""Searching, recalling, counting, and the context an agent would get."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from butlers.doors.http import answers
from butlers.doors.http.asking import Asked, Limit, Scope
from butlers.doors.http.seats import Seat, Seated
from butlers.memory.flows import context_preview, recall, stats
from butlers.memory.model import MemoryType, SearchMode
from butlers.memory.store.browse import EXCERPT
from butlers.memory.tools.results import RecalledMemory, Stats

router = APIRouter(tags=["memory"])
Share = Annotated[float, Field(ge=0, le=1)]


class AskedSearch(Asked):
    """What is looked for, and among what."""

    q: Annotated[str, Field(max_length=recall.MAX_QUERY)]
    """A question, a name, or words."""
    mode: SearchMode | None = None
    types: Annotated[list[MemoryType], Field(max_length=3)] = []
    scope: Scope | None = None
    """Global memories and those of this scope."""
    limit: Limit = 20
    min_confidence: Share | None = None


class AskedRecall(Asked):
    """What is to be recalled."""

    topic: Annotated[str, Field(max_length=recall.MAX_QUERY)]
    scope: Scope | None = None
    limit: Limit = 10


class AskedContext(Asked):
    """The prompt an agent would be given."""

    prompt: str
    token_budget: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    butler: Scope | None = None
    """Whose memories beside the global ones; the butler itself unless given."""


class AskedStats(Asked):
    """What is counted."""

    scope: Scope | None = None


@router.get("/stats", response_model=Stats)
async def get_stats(seat: Seated, asked: Annotated[AskedStats, Query()]) -> Any:
    """Memories counted by kind and state."""
    return await stats.memory_stats(seat.memory, asked.scope, seat.lineage)


@router.get("/overview", response_model=answers.Overview)
async def get_overview(seat: Seated) -> Any:
    """All counts, the last consolidation and the health of one butler."""
    return await overview_of(seat)


@router.get("/search", response_model=answers.FoundAll, response_model_exclude_unset=True)
async def search(seat: Seated, asked: Annotated[AskedSearch, Query()]) -> Any:
    """The best matches, each with the scores of its mode; not counted as a use."""
    return {"items": await search_of(seat, asked)}


@router.post("/recall", response_model=list[RecalledMemory])
async def recall_topic(seat: Seated, asked: AskedRecall) -> Any:
    """What matters about a topic, best first; counted as a use."""
    threshold = seat.memory.settings.facts.retrieval_confidence_threshold
    query = recall.Query(asked.topic, recall.ALL_TYPES, asked.scope, threshold)
    found = await recall.recall(seat.memory, query, asked.limit, seat.lineage)
    return [recall.as_recalled(one) for one in found]


@router.post("/context", response_model=answers.ContextPreview)
async def preview_context(seat: Seated, asked: AskedContext) -> Any:
    """The very block an agent would get, with its budget and reasons; not counted as a use."""
    butler = asked.butler or seat.butler.name
    return await context_preview.preview_context(
        seat.memory, asked.prompt, butler, asked.token_budget, seat.lineage
    )


async def overview_of(seat: Seat) -> dict[str, Any]:
    """What a fleet shows of one butler."""
    counted = await stats.memory_overview(seat.memory, seat.lineage)
    return {**counted, "health": await health_of(seat)}


async def health_of(seat: Seat) -> str:
    """Whether every module of a butler is well, in a word."""
    modules = await seat.butler.health()
    return "ok" if all(module.ok for module in modules.values()) else "unwell"


async def search_of(seat: Seat, asked: AskedSearch) -> list[dict[str, Any]]:
    """What one butler finds, with long contents cut."""
    settings = seat.memory.settings
    mode = asked.mode or SearchMode(settings.retrieval.default_mode)
    least = settings.facts.retrieval_confidence_threshold
    query = recall.Query(
        asked.q,
        tuple(dict.fromkeys(asked.types)),
        asked.scope,
        least if asked.min_confidence is None else asked.min_confidence,
    )
    found = await recall.search_memories(seat.memory, query, mode, asked.limit, seat.lineage)
    return [_shortened(one) for one in found]


def _shortened(found: dict[str, Any]) -> dict[str, Any]:
    content = found["content"]
    return {**found, "content": content[:EXCERPT], "content_length": len(content)}
