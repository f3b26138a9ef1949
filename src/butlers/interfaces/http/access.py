"""Who calls, which butlers that caller may use, and as which tenant."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import structlog
from fastapi import Depends, Path
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.auth.rights import INCLUDED_RIGHTS, Caller, Right
from butlers.auth.tokens import TokenRecord
from butlers.errors import Forbidden, NotFound, Unavailable
from butlers.host.butler import Butler
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.http.request_limits import bearer
from butlers.operation import Detail, Operation
from butlers.settings.sections import FleetSection

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_THIS = "this request"
_NOT_FROM_PAGE = "not sent from one of our pages, or without its CSRF token; reload and try again"


@dataclass(frozen=True, slots=True)
class Visitor:
    """A caller, its tenant in each butler it may see, and the remote butlers it may see."""

    who: Caller
    """As authenticated, without the tenant of a butler."""
    tenants: Mapping[str, str]
    remotes: frozenset[str] = frozenset()


def authenticate(request: Request) -> Visitor:
    """Recognise the caller by its bearer token, or by the session of its browser.

    401 for an unknown caller. A browser adds its cookie to requests of any page, so a change also
    needs proof that one of our own pages sent it; 403 without.
    """
    if "authorization" in request.headers:
        app_state = app_state_of(request)
        record = app_state.tokens.verify(bearer(request.headers))
        visitor = visitor_of(record, app_state.fleet) if record else None
    else:
        sessions = request.app.state.sessions
        visitor = sessions.visitor(request)
        if visitor and request.method not in _SAFE and not sessions.may_write(request):
            raise HTTPException(403, _NOT_FROM_PAGE)
    if visitor is None:
        headers = {"WWW-Authenticate": "Bearer"}
        raise HTTPException(401, "a valid token is needed: Authorization: Bearer …", headers)
    return visitor


def visitor_of(record: TokenRecord, fleet: FleetSection) -> Visitor:
    """Return the caller of a token: one butler as one tenant, and that tenant's remotes."""
    remotes = frozenset(r.name for r in fleet.remotes if r.tenant == record.tenant)
    return Visitor(record.caller, {record.butler: record.tenant}, remotes)


def operator_of(app_state: AppState, *, may_decide: bool) -> Visitor:
    """Return the operator: every butler as its configured tenant, and every remote butler."""
    tenants = {name: butler.settings.butler.tenant for name, butler in app_state.butlers.items()}
    return Visitor(
        Caller("", "local", is_operator=True, may_decide=may_decide),
        # The tenant of a butler that could not be built is unknown, and not needed to say why.
        dict.fromkeys(app_state.failed, "") | tenants,
        frozenset(remote.name for remote in app_state.fleet.remotes),
    )


MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class ButlerAccess:
    """A caller's access to one butler."""

    butler: Butler
    caller: Caller
    request_id: str

    async def perform(self, module: str, operation: Operation, params: Mapping[str, Any]) -> Any:
        """Run an operation for the caller; NotFound if the butler does not have the module."""
        if not self.butler.settings.is_enabled(module):
            raise NotFound(f"butler {self.butler.name} does not have the {module} module")
        enabled = self.butler.module(module)
        return await enabled.call(operation, self.caller, params, self.request_id)

    async def ask(self, operation: Operation, **params: Any) -> Any:
        """Run a memory operation for the caller, with full detail."""
        if "detail" in operation.fields:
            params.setdefault("detail", Detail.FULL)
        return await self.perform(MEMORY, operation, params)

    @property
    def may_run_jobs(self) -> bool:
        """Whether the caller may run jobs, which work for every tenant."""
        return self._is_owner and Right.OPERATE in INCLUDED_RIGHTS[self.caller.rights]

    def require_jobs(self, otherwise: str) -> None:
        """Raise Forbidden if the caller may not; `otherwise` is the message for another tenant."""
        if not self._is_owner:
            raise Forbidden(otherwise)
        self.caller.require(Right.OPERATE)

    @property
    def _is_owner(self) -> bool:
        own = self.butler.settings.butler.tenant
        return self.caller.is_operator or self.caller.tenant_id == own


def app_state_of(request: Request) -> AppState:
    """Return the state of the application."""
    app_state: AppState = request.app.state.app_state
    return app_state


async def scoped_visitor(request: Request) -> Visitor:
    """Return the caller, whose token may be limited to scopes."""
    visitor = authenticate(request)
    visitor.who.require(Right.READ)
    return visitor


async def unlimited_visitor(visitor: Annotated[Visitor, Depends(scoped_visitor)]) -> Visitor:
    """Return the caller; 403 for a token limited to scopes."""
    visitor.who.require_unlimited(_THIS)
    return visitor


def access_butler(
    app_state: AppState, visitor: Visitor, name: str, request_id: str
) -> ButlerAccess:
    """Return a caller's access to a butler; NotFound if it may not see it."""
    tenant, butler = visitor.tenants.get(name), app_state.butlers.get(name)
    if tenant is not None and name in app_state.failed:
        raise Unavailable(f"butler {name} failed to start: {app_state.failed[name]}")
    if tenant is None or butler is None:
        raise NotFound(f"there is no butler {name[:80]!r} for this caller")
    return ButlerAccess(butler, replace(visitor.who, tenant_id=tenant), request_id)


async def scoped_access(
    request: Request,
    visitor: Annotated[Visitor, Depends(scoped_visitor)],
    name: Annotated[str, Path(max_length=100, description="The butler's name.")],
) -> ButlerAccess:
    """Return the caller's access to the butler of the path; operations check its scopes."""
    access = access_butler(app_state_of(request), visitor, name, request.state.request_id)
    structlog.contextvars.bind_contextvars(butler=name, tenant=access.caller.tenant_id)
    return access


async def unlimited_access(
    access: Annotated[ButlerAccess, Depends(scoped_access)],
) -> ButlerAccess:
    """Return the access of a caller; 403 for a token limited to scopes."""
    access.caller.require_unlimited(_THIS)
    return access


Visiting = Annotated[Visitor, Depends(unlimited_visitor)]
CurrentAccess = Annotated[ButlerAccess, Depends(unlimited_access)]
ScopedAccess = Annotated[ButlerAccess, Depends(scoped_access)]
"""For routes of operations, which check scopes themselves."""
# Only for the OpenAPI document; `authenticate` decides.
DOCUMENTED_TOKEN = Depends(
    HTTPBearer(auto_error=False, description="A token of `butlers token new`.")
)
