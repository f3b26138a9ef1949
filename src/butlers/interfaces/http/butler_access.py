"""The place a caller takes at one butler: its memory, and on whose behalf it is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import structlog
from fastapi import Depends, Path
from fastapi.security import HTTPBearer
from starlette.requests import Request

from butlers.auth.rights import Caller, Right
from butlers.errors import Forbidden, NotFound, Unavailable
from butlers.host.butler import Butler
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.http.callers import Callers, Visitor
from butlers.operation import Detail, Operation

MEMORY = "memory"
# Only for the OpenAPI document; `Callers` decides.
_SCHEME = HTTPBearer(auto_error=False, description="A token of `butlers token new`.")


@dataclass(frozen=True, slots=True)
class ButlerAccess:
    """A caller at a butler."""

    butler: Butler
    caller: Caller
    request_id: str

    @property
    def is_operator(self) -> bool:
        """Whether it is whoever runs the home."""
        return self.caller.is_operator

    async def perform(self, module: str, operation: Operation, given: Mapping[str, Any]) -> Any:
        """What an operation answers this caller."""
        if not self.butler.settings.is_enabled(module):
            raise NotFound(f"butler {self.butler.name} does not have the {module} module")
        return await self.butler.module(module).call(operation, self.caller, given, self.request_id)

    async def ask(self, operation: Operation, **given: Any) -> Any:
        """What an operation of the memory answers this caller, in full."""
        if "detail" in operation.fields:
            given.setdefault("detail", Detail.FULL)
        return await self.perform(MEMORY, operation, given)

    @property
    def may_run_jobs(self) -> bool:
        """Whether the caller may start work that concerns the whole butler."""
        return self._is_owner and self.caller.rights.includes(Right.OPERATE)

    def must_run_jobs(self, otherwise: str) -> None:
        """Forbidden where it may not: in these words to another tenant."""
        if not self._is_owner:
            raise Forbidden(otherwise)
        self.caller.require(Right.OPERATE)

    @property
    def _is_owner(self) -> bool:
        own = self.butler.settings.butler.tenant
        return self.is_operator or self.caller.tenant_id == own


def household_of(request: Request) -> AppState:
    """What the application was built over."""
    household: AppState = request.app.state.household
    return household


async def any_visitor_of_request(request: Request) -> Visitor:
    """Who is calling, be it with a token that is limited to scopes."""
    callers: Callers = request.app.state.callers
    visitor = callers.visitor(request)
    visitor.who.require(Right.READ)
    return visitor


async def visitor_of_request(
    visitor: Annotated[Visitor, Depends(any_visitor_of_request)],
) -> Visitor:
    """Who is calling; 403 for a token that is limited to scopes, which only operations keep to."""
    visitor.who.require_unlimited("what was asked for")
    return visitor


def take_seat(household: AppState, visitor: Visitor, name: str, request_id: str) -> ButlerAccess:
    """A caller's seat; a butler it may not see does not exist for it."""
    tenant, butler = visitor.tenants.get(name), household.butlers.get(name)
    if tenant is not None and name in household.failed:
        raise Unavailable(f"butler {name} failed to start: {household.failed[name]}")
    if tenant is None or butler is None:
        raise NotFound(f"there is no butler {name[:80]!r} for this caller")
    return ButlerAccess(butler, visitor.caller(tenant), request_id)


async def any_seat_of_request(
    request: Request,
    visitor: Annotated[Visitor, Depends(any_visitor_of_request)],
    name: Annotated[str, Path(max_length=100, description="The butler's name.")],
) -> ButlerAccess:
    """The caller's seat at the butler the path names; operations see to its scopes."""
    seat = take_seat(household_of(request), visitor, name, request.state.request_id)
    structlog.contextvars.bind_contextvars(butler=name, tenant=seat.caller.tenant_id)
    return seat


async def seat_of_request(
    seat: Annotated[ButlerAccess, Depends(any_seat_of_request)],
    _: Annotated[Visitor, Depends(visitor_of_request)],
) -> ButlerAccess:
    """The same; 403 for a token that is limited to scopes."""
    return seat


Visiting = Annotated[Visitor, Depends(visitor_of_request)]
Seated = Annotated[ButlerAccess, Depends(seat_of_request)]
SeatedInScopes = Annotated[ButlerAccess, Depends(any_seat_of_request)]
"""A seat for operations alone, each of which says whether it keeps to scopes."""
DOCUMENTED_TOKEN = Depends(_SCHEME)
