"""Who calls, which butlers that caller may use, and as which tenant.

A caller is recognised by its bearer token, or by another source such as a session cookie, which
must then also prove that a change was intended (CSRF).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

import structlog
from fastapi import Depends, Path
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.auth.rights import Caller, Right
from butlers.auth.token_store import TokenStore
from butlers.auth.tokens import TokenRecord
from butlers.errors import Forbidden, NotFound, Unavailable
from butlers.host.butler import Butler
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.http.middleware import bearer
from butlers.operation import Detail, Operation
from butlers.settings.sections import FleetSection

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Visitor:
    """A caller, its tenant in each butler it may see, and the remote butlers it may see."""

    who: Caller
    """As authenticated, without the tenant of a butler."""
    tenants: Mapping[str, str]
    remotes: frozenset[str] = frozenset()

    @property
    def is_operator(self) -> bool:
        """Whether the caller runs the home."""
        return self.who.is_operator

    def caller(self, tenant: str) -> Caller:
        """Return the caller as one tenant."""
        return replace(self.who, tenant_id=tenant)


class CallerSource(Protocol):
    """A way to recognise a caller."""

    def visitor(self, request: Request) -> Visitor | None:
        """Return the caller; None if the request carries nothing of this kind."""
        ...

    def may_write(self, request: Request) -> bool:
        """Whether the caller intended the request (it is not forged by another page)."""
        ...


class BearerTokens:
    """Callers with a bearer token, which no browser adds by itself."""

    def __init__(self, tokens: TokenStore, fleet: FleetSection) -> None:
        self._tokens = tokens
        self._fleet = fleet

    def visitor(self, request: Request) -> Visitor | None:
        """Return the caller; 401 for an unknown token, None without the header."""
        if "authorization" not in request.headers:
            return None
        record = self._tokens.identify(bearer(request.headers))
        if record is None:
            raise sign_in_required()
        return visitor_of(record, self._fleet)

    def may_write(self, request: Request) -> bool:
        """Return true: only the caller itself can send its token."""
        return True


class Callers:
    """The sources of callers, tried in order."""

    def __init__(self, sources: Sequence[CallerSource]) -> None:
        self._sources = tuple(sources)

    def visitor(self, request: Request) -> Visitor:
        """Return the caller; 401 if unknown, 403 for a change without proof of intent."""
        for source in self._sources:
            found = source.visitor(request)
            if found is None:
                continue
            if request.method not in _SAFE and not source.may_write(request):
                raise HTTPException(403, "the request does not prove that it was meant; try again")
            return found
        raise sign_in_required()


def visitor_of(record: TokenRecord, fleet: FleetSection) -> Visitor:
    """Return the caller of a token: one butler as one tenant, and that tenant's remotes."""
    remotes = frozenset(r.name for r in fleet.remotes if r.tenant == record.tenant)
    return Visitor(record.caller, {record.butler: record.tenant}, remotes)


def operator_of(app_state: AppState, actor: str = "operator") -> Visitor:
    """Return the operator: every butler as its configured tenant, and every remote butler."""
    tenants = {name: butler.settings.butler.tenant for name, butler in app_state.butlers.items()}
    return Visitor(
        Caller("", actor, is_operator=True),
        # The tenant of a butler that could not be built is unknown, and not needed to say why.
        dict.fromkeys(app_state.failed, "") | tenants,
        frozenset(remote.name for remote in app_state.fleet.remotes),
    )


def sign_in_required() -> HTTPException:
    """Return the refusal of an unknown caller."""
    return HTTPException(
        401,
        "a valid token is needed: Authorization: Bearer …",
        headers={"WWW-Authenticate": "Bearer"},
    )


MEMORY = "memory"
# Only for the OpenAPI document; `Callers` decides.
_SCHEME = HTTPBearer(auto_error=False, description="A token of `butlers token new`.")


@dataclass(frozen=True, slots=True)
class ButlerAccess:
    """A caller's access to one butler."""

    butler: Butler
    caller: Caller
    request_id: str

    @property
    def is_operator(self) -> bool:
        """Whether the caller runs the home."""
        return self.caller.is_operator

    async def perform(self, module: str, operation: Operation, given: Mapping[str, Any]) -> Any:
        """Run an operation for the caller."""
        if not self.butler.settings.is_enabled(module):
            raise NotFound(f"butler {self.butler.name} does not have the {module} module")
        return await self.butler.module(module).call(operation, self.caller, given, self.request_id)

    async def ask(self, operation: Operation, **given: Any) -> Any:
        """Run a memory operation for the caller, with full detail."""
        if "detail" in operation.fields:
            given.setdefault("detail", Detail.FULL)
        return await self.perform(MEMORY, operation, given)

    @property
    def may_run_jobs(self) -> bool:
        """Whether the caller may run jobs, which work for every tenant."""
        return self._is_owner and self.caller.rights.includes(Right.OPERATE)

    def must_run_jobs(self, otherwise: str) -> None:
        """Raise Forbidden if the caller may not; `otherwise` is the message for another tenant."""
        if not self._is_owner:
            raise Forbidden(otherwise)
        self.caller.require(Right.OPERATE)

    @property
    def _is_owner(self) -> bool:
        own = self.butler.settings.butler.tenant
        return self.is_operator or self.caller.tenant_id == own


def app_state_of(request: Request) -> AppState:
    """Return the state of the application."""
    app_state: AppState = request.app.state.app_state
    return app_state


async def scoped_visitor(request: Request) -> Visitor:
    """Return the caller, whose token may be limited to scopes."""
    callers: Callers = request.app.state.callers
    visitor = callers.visitor(request)
    visitor.who.require(Right.READ)
    return visitor


async def unlimited_visitor(
    visitor: Annotated[Visitor, Depends(scoped_visitor)],
) -> Visitor:
    """Return the caller; 403 for a token limited to scopes."""
    visitor.who.require_unlimited("what was asked for")
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
    return ButlerAccess(butler, visitor.caller(tenant), request_id)


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
    _: Annotated[Visitor, Depends(unlimited_visitor)],
) -> ButlerAccess:
    """Return the access of a caller; 403 for a token limited to scopes."""
    return access


Visiting = Annotated[Visitor, Depends(unlimited_visitor)]
CurrentAccess = Annotated[ButlerAccess, Depends(unlimited_access)]
ScopedAccess = Annotated[ButlerAccess, Depends(scoped_access)]
"""For routes of operations, which check scopes themselves."""
DOCUMENTED_TOKEN = Depends(_SCHEME)
