"""One memory: what it says, its life, where it came from, and what can be done about it."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from butlers.doors.pages import charts, pictures
from butlers.doors.pages.rendering import render, seated
from butlers.doors.pages.routing import PageRoute
from butlers.doors.pages.visits import Name, Visiting
from butlers.errors import NotFound
from butlers.memory.flows.detail import memory_detail
from butlers.memory.model import MemoryType, Permanence

router = APIRouter(route_class=PageRoute)
Kinds = Literal["facts", "rules", "episodes"]
KINDS = {
    "facts": MemoryType.FACT,
    "rules": MemoryType.RULE,
    "episodes": MemoryType.EPISODE,
}


@router.get("/butlers/{name}/memory/{kinds}/{memory_id}")
async def one(
    visit: Visiting,
    name: Name,
    kinds: Kinds,
    memory_id: UUID,
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """A memory with all that explains it."""
    seat, kind = visit.seat(name), KINDS[kinds]
    detail = await memory_detail(seat.memory, kind, memory_id, seat.lineage)
    if detail is None:
        raise NotFound(f"{name} has no {kind} {memory_id}; it may have been removed")
    return render(
        visit.request,
        f"{kind}.html",
        **seated(visit, name, kinds),
        detail=detail,
        memory=detail["memory"],
        curve=_curve(detail, seat.memory),
        graph=pictures.provenance(name, detail),
        permanences=list(Permanence),
        here=f"/butlers/{name}/memory/{kinds}/{memory_id}",
        done=done,
    )


def _curve(detail: dict[str, Any], memory: Any) -> Any:
    """The decay of a memory that is in use."""
    found = detail["memory"]
    if found.get("state") not in ("active", "fading") or "decay_rate" not in found:
        return None
    return charts.decay_curve(pictures.decay_of(found, memory))
