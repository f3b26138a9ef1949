"""The place a caller takes at one butler: its memory, and on whose behalf it is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import structlog
from fastapi import Depends, Path
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.butler.butler import Butler
from butlers.doors.http.callers import Callers, Visitor
from butlers.doors.http.household import Household
from butlers.errors import NotFound, Unavailable
from butlers.module import Caller
from butlers.operation import Audience, Detail, Operation

MEMORY = "memory"
# Only for the OpenAPI document; `Callers` decides.
_SCHEME = HTTPBearer(auto_error=False, description="A token of `butlers token new`.")


@dataclass(frozen=True, slots=True)
class Seat:
    """A caller at a butler."""

    butler: Butler
    caller: Caller
    request_id: str
    is_operator: bool = False

    async def perform(self, module: str, operation: Operation, given: Mapping[str, Any]) -> Any:
        """What an operation answers this caller."""
        if operation.callers is Audience.OWNER and not self.may_run_jobs:
            raise HTTPException(403, f"{operation.name} is for {operation.callers}")
        if not self.butler.settings.is_enabled(module):
            raise NotFound(f"butler {self.butler.name} does not have the {module} module")
        desk = self.butler.module(module).desk(self.caller, self.request_id)
        return await operation.perform(desk, **given)

    async def ask(self, operation: Operation, **given: Any) -> Any:
        """What an operation of the memory answers this caller, in full."""
        if "detail" in operation.fields:
            given.setdefault("detail", Detail.FULL)
        return await self.perform(MEMORY, operation, given)

    @property
    def may_run_jobs(self) -> bool:
        """Whether the caller may start work that concerns the whole butler."""
        own = self.butler.settings.butler.tenant
        return self.is_operator or self.caller.tenant_id == own


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
    if tenant is not None and name in household.failed:
        raise Unavailable(f"butler {name} failed to start: {household.failed[name]}")
    if tenant is None or butler is None:
        raise NotFound(f"there is no butler {name[:80]!r} for this caller")
    operator = visitor.is_operator
    caller = Caller(tenant, visitor.actor, visitor.agent, is_operator=operator)
    return Seat(butler, caller, request_id, operator)


async def seat_of_request(
    request: Request,
    visitor: Annotated[Visitor, Depends(visitor_of_request)],
    name: Annotated[str, Path(max_length=100, description="The butler's name.")],
) -> Seat:
    """The caller's seat at the butler the path names."""
    seat = take_seat(household_of(request), visitor, name, request.state.request_id)
    structlog.contextvars.bind_contextvars(butler=name, tenant=seat.caller.tenant_id)
    return seat


Visiting = Annotated[Visitor, Depends(visitor_of_request)]
Seated = Annotated[Seat, Depends(seat_of_request)]
DOCUMENTED_TOKEN = Depends(_SCHEME)
