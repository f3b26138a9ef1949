"""The place a caller takes at one butler: its memory, and on whose behalf it is used."""

from dataclasses import dataclass
from typing import Annotated

import structlog
from fastapi import Depends, Path
from fastapi.security import HTTPBearer
from starlette.requests import Request

from butlers.butler.butler import Butler
from butlers.doors.http.callers import Callers, Visitor
from butlers.doors.http.household import Household
from butlers.errors import NotFound, Unavailable
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.module import MemoryModule

# Only for the OpenAPI document; `Callers` decides.
_SCHEME = HTTPBearer(auto_error=False, description="A token of `butlers token new`.")


@dataclass(frozen=True, slots=True)
class Seat:
    """A caller at a butler."""

    butler: Butler
    memory: Memory
    lineage: Lineage
    is_operator: bool = False

    @property
    def may_run_jobs(self) -> bool:
        """Whether the caller may start work that concerns the whole butler."""
        own = self.butler.settings.butler.tenant
        return self.is_operator or self.lineage.tenant_id == own


def household_of(request: Request) -> Household:
    """What the application was built over."""
    household: Household = request.app.state.household
    return household


async def visitor_of_request(request: Request) -> Visitor:
    """Who is calling."""
    callers: Callers = request.app.state.callers
    return callers.visitor(request)


def take_seat(household: Household, visitor: Visitor, name: str, request_id: str) -> Seat:
    """A caller's seat; a butler it may not see does not exist for it."""
    tenant, butler = visitor.tenants.get(name), household.butlers.get(name)
    if tenant is None or butler is None:
        raise NotFound(f"there is no butler {name[:80]!r} for this caller")
    module = butler.module(MemoryModule.name)
    if not isinstance(module, MemoryModule):
        raise Unavailable(f"butler {name} has another memory, which has no pages")
    lineage = Lineage(tenant, visitor.actor, request_id)
    return Seat(butler, module.memory, lineage, visitor.is_operator)


async def seat_of_request(
    request: Request,
    visitor: Annotated[Visitor, Depends(visitor_of_request)],
    name: Annotated[str, Path(max_length=100, description="The butler's name.")],
) -> Seat:
    """The caller's seat at the butler the path names."""
    seat = take_seat(household_of(request), visitor, name, request.state.request_id)
    structlog.contextvars.bind_contextvars(butler=name, tenant=seat.lineage.tenant_id)
    return seat


Visiting = Annotated[Visitor, Depends(visitor_of_request)]
Seated = Annotated[Seat, Depends(seat_of_request)]
DOCUMENTED_TOKEN = Depends(_SCHEME)
