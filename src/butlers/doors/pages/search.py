"""Searching one butler, with the parts of every score."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from butlers.doors.http.reading import AskedSearch, search_of
from butlers.doors.http.seats import Seat
from butlers.doors.pages.asked import given, read
from butlers.doors.pages.rendering import render, seated
from butlers.doors.pages.routing import PageRoute
from butlers.doors.pages.visits import Name, Visiting
from butlers.memory.flows import recall
from butlers.memory.model import MemoryType, SearchMode

router = APIRouter(route_class=PageRoute)
RECALL = "recall"
_MODES = {
    RECALL: "recall",
    SearchMode.HYBRID: "both",
    SearchMode.SEMANTIC: "meaning",
    SearchMode.KEYWORD: "words",
}


@router.get("/butlers/{name}/memory/search")
async def search(visit: Visiting, name: Name) -> Response:
    """What is found, best first; looking is not counted as a use."""
    seat, fields = visit.seat(name), given(visit.request)
    found = await _found(seat, fields) if "q" in fields else None
    return render(
        visit.request,
        "search.html",
        **seated(visit, name, "search"),
        found=found,
        asked=fields,
        modes=_MODES,
        types=list(MemoryType),
    )


async def _found(seat: Seat, fields: dict[str, str]) -> list[dict[str, Any]]:
    wanted: dict[str, Any] = {**fields, "types": [fields["types"]] if "types" in fields else []}
    if fields.get("mode", RECALL) != RECALL:
        return await search_of(seat, read(AskedSearch, wanted))
    asked = read(AskedSearch, {**wanted, "mode": None})
    least = seat.memory.settings.facts.retrieval_confidence_threshold
    query = recall.Query(asked.q, tuple(asked.types), asked.scope, asked.min_confidence or least)
    recalled = await recall.recall(seat.memory, query, asked.limit, seat.lineage, counted=False)
    return [recall.as_recalled(one) for one in recalled]
