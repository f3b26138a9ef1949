"""Who is calling, and which butlers that caller may see, each as which tenant.

A caller is recognised by one of several sources. A bearer token is one; a cookie can be another,
which must then also say what proves that a change was meant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.auth.rights import Caller
from butlers.auth.token_store import TokenStore
from butlers.auth.tokens import TokenRecord
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.http.rate_limit import bearer
from butlers.settings.sections import FleetSection

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Visitor:
    """A caller: the butlers it may see with its tenant in each, and the remote ones by name."""

    who: Caller
    """As it authenticated, whichever tenant it is in a butler."""
    tenants: Mapping[str, str]
    remotes: frozenset[str] = frozenset()

    @property
    def is_operator(self) -> bool:
        """Whether it is whoever runs the home."""
        return self.who.is_operator

    def caller(self, tenant: str) -> Caller:
        """The same as one tenant."""
        return replace(self.who, tenant_id=tenant)


class CallerSource(Protocol):
    """A way to recognise a caller."""

    def visitor(self, request: Request) -> Visitor | None:
        """The caller, or None when the request carries nothing of this kind."""
        ...

    def may_write(self, request: Request) -> bool:
        """Whether the request is one the caller meant to send, not one a page tricked it into."""
        ...


class BearerTokens:
    """Callers with a token in the `Authorization` header, which no browser adds by itself."""

    def __init__(self, tokens: TokenStore, fleet: FleetSection) -> None:
        self._tokens = tokens
        self._fleet = fleet

    def visitor(self, request: Request) -> Visitor | None:
        """The caller; a header that names nobody is refused rather than passed over."""
        if "authorization" not in request.headers:
            return None
        record = self._tokens.identify(bearer(request.headers))
        if record is None:
            raise sign_in_required()
        return visitor_of(record, self._fleet)

    def may_write(self, request: Request) -> bool:
        """Always: whoever sends a token means it."""
        return True


class Callers:
    """The sources of callers, asked in their order."""

    def __init__(self, sources: Sequence[CallerSource]) -> None:
        self._sources = tuple(sources)

    def visitor(self, request: Request) -> Visitor:
        """Who is calling; 401 for nobody, 403 for a change that nobody vouches for."""
        for source in self._sources:
            found = source.visitor(request)
            if found is None:
                continue
            if request.method not in _SAFE and not source.may_write(request):
                raise HTTPException(403, "the request does not prove that it was meant; try again")
            return found
        raise sign_in_required()


def visitor_of(record: TokenRecord, fleet: FleetSection) -> Visitor:
    """The caller a token stands for: one butler as one tenant, and what that tenant is shown."""
    remotes = frozenset(one.name for one in fleet.remotes if one.tenant == record.tenant)
    return Visitor(record.caller, {record.butler: record.tenant}, remotes)


def operator_of(household: AppState, actor: str = "operator") -> Visitor:
    """Whoever runs the home: every butler as its own configured tenant, and every remote one."""
    tenants = {name: butler.settings.butler.tenant for name, butler in household.butlers.items()}
    return Visitor(
        Caller("", actor, is_operator=True),
        # Whose tenant one has that could not be made is not known, nor needed to say why.
        dict.fromkeys(household.failed, "") | tenants,
        frozenset(remote.name for remote in household.fleet.remotes),
    )


def sign_in_required() -> HTTPException:
    """The refusal of a caller that nobody knows."""
    return HTTPException(
        401,
        "a valid token is needed: Authorization: Bearer …",
        headers={"WWW-Authenticate": "Bearer"},
    )
