"""Requests of somebody who signed in: their session, their forms and search fields."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, Path
from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.errors import ButlersError
from butlers.interfaces.http.access import ButlerAccess, Visitor, access_butler, app_state_of
from butlers.interfaces.http.fanout import Fleet
from butlers.interfaces.web.browser_sessions import BrowserSession, BrowserSessions, is_from_here
from butlers.memory.operations import listing
from butlers.operation import Operation

CSRF_FIELD = "csrf"
NOT_MEANT = "this form is out of date or was not sent from here; go back, reload and try again"
_FORM_TYPE = "application/x-www-form-urlencoded"
_MOST_FIELDS = 50
_OF_PAGE = ("cursor", "done")
_DATE_LENGTH = len("2026-01-31")
_DATE_FIELDS = ("created_after", "created_before")


class Form(dict[str, str]):
    """The fields of a form; a missing one is empty."""

    def __missing__(self, name: str) -> str:
        return ""

    def optional(self, name: str) -> str | None:
        """Return a field, or None if it is blank."""
        return self[name].strip() or None


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who signed in, with the form they sent."""

    request: Request
    session: BrowserSession
    visitor: Visitor
    form: Form = field(default_factory=Form)

    @property
    def butlers(self) -> list[str]:
        """The butlers of this home that the visitor may see."""
        return self.fleet.here(self.visitor)

    @property
    def homes(self) -> dict[str, str]:
        """The address of each butler's pages; a remote butler's are in its own home."""
        remote = {butler.name: butler.pages for butler in self.fleet.there(self.visitor)}
        return remote | {name: f"/butlers/{name}/memory" for name in self.butlers}

    @property
    def fleet(self) -> Fleet:
        """Every butler that can be queried, remote ones too."""
        fleet: Fleet = self.request.app.state.fleet
        return fleet


@dataclass(frozen=True, slots=True)
class ButlerVisit(ButlerAccess):
    """A visit to the pages of one butler: the visitor's access to it."""

    visit: Visit
    waiting: int = 0
    """How many things of the butler wait for a person's decision."""

    @property
    def home(self) -> str:
        """The address of the butler's first page."""
        return f"/butlers/{self.butler.name}/memory"

    @property
    def form(self) -> Form:
        """The form that the visitor sent."""
        return self.visit.form


def sessions_of(request: Request) -> BrowserSessions:
    """Return the sessions of the application."""
    sessions: BrowserSessions = request.app.state.sessions
    return sessions


def visit_or_none(request: Request) -> Visit | None:
    """Return the visit, or None if nobody is signed in."""
    sessions = sessions_of(request)
    session, visitor = sessions.session(request), sessions.visitor(request)
    return None if session is None or visitor is None else Visit(request, session, visitor)


async def visit_of_request(request: Request) -> Visit:
    """Return the visit; 401 if nobody is signed in."""
    visit = visit_or_none(request)
    if visit is None:
        raise HTTPException(401, "sign in first")
    return visit


async def sent_form(request: Request) -> Form:
    """Read a form; 403 if it was not sent from one of our pages."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise HTTPException(415, f"send the form as {_FORM_TYPE}")
    if not is_from_here(request):
        raise HTTPException(403, NOT_MEANT)
    try:
        body = (await request.body()).decode("utf-8")
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "the form could not be read; try again") from None
    return Form(pairs)


async def visit_with_form(visit: Annotated[Visit, Depends(visit_of_request)]) -> Visit:
    """Read the form of a visit; 403 unless it carries the session's CSRF token."""
    form = await sent_form(visit.request)
    if not visit.session.vouches(form[CSRF_FIELD]):
        raise HTTPException(403, NOT_MEANT)
    return replace(visit, form=form)


Visiting = Annotated[Visit, Depends(visit_of_request)]
Sending = Annotated[Visit, Depends(visit_with_form)]
Name = Annotated[str, Path(max_length=100)]


async def butler_visit(visit: Visiting, name: Name) -> ButlerVisit:
    """Return the visit to a butler; NotFound if the visitor may not see it."""
    request = visit.request
    access = access_butler(app_state_of(request), visit.visitor, name, request.state.request_id)
    named = (access.butler, access.caller, access.request_id)
    return ButlerVisit(*named, visit, await _count_waiting(access))


async def _count_waiting(access: ButlerAccess) -> int:
    """Count what waits for a person; zero where the memory cannot tell."""
    with suppress(ButlersError):
        counts: dict[str, int] = (await access.ask(listing.overview, events=1))["inbox"]
        return sum(counts.values())
    return 0


async def butler_visit_with_form(visit: Sending, name: Name) -> ButlerVisit:
    """Return the visit to a butler with the form that was sent to it."""
    return await butler_visit(visit, name)


ButlerVisiting = Annotated[ButlerVisit, Depends(butler_visit)]
ButlerSending = Annotated[ButlerVisit, Depends(butler_visit_with_form)]


def filled_fields(request: Request) -> dict[str, str]:
    """Return the query parameters that are not blank, without those of the page itself."""
    pairs = request.query_params.items()
    return {key: value.strip() for key, value in pairs if value.strip() and key not in _OF_PAGE}


def operation_fields(operation: Operation, fields: dict[str, Any]) -> dict[str, Any]:
    """Pick the fields that an operation takes; a date becomes its first moment in UTC."""
    return {
        key: f"{value}T00:00:00Z" if key in _DATE_FIELDS and len(value) == _DATE_LENGTH else value
        for key, value in fields.items()
        if key in operation.input_model.model_fields
    }


def search_fields(fields: dict[str, str]) -> dict[str, Any]:
    """Rename the fields of a search form to those of the operation."""
    types = {"types": [fields["types"]]} if "types" in fields else {}
    return {**fields, "query": fields["q"], **types}
