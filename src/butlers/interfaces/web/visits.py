"""Somebody looking at pages: their session, and their access to each butler they may see."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path
from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.interfaces.http.access import ButlerAccess, Visitor, access_butler, app_state_of
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.http.fanout import Fleet
from butlers.interfaces.web.forms import CSRF_FIELD, NOT_MEANT, Form, sent_form
from butlers.interfaces.web.signin import BrowserSession, BrowserSessions


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who signed in."""

    request: Request
    session: BrowserSession
    visitor: Visitor
    app_state: AppState

    @property
    def butlers(self) -> list[str]:
        """The butlers of this home that the visitor may see."""
        return self.fleet.here(self.visitor)

    @property
    def homes(self) -> dict[str, str]:
        """Where the pages of each butler are; those of a remote one are in its own home."""
        there = {remote.name: remote.pages for remote in self.fleet.there(self.visitor)}
        return there | {name: home_of(name) for name in self.butlers}

    @property
    def fleet(self) -> Fleet:
        """Every butler that may be asked, remote ones too."""
        fleet: Fleet = self.request.app.state.fleet
        return fleet

    def access(self, name: str) -> ButlerAccess:
        """The visitor's access to a butler; NotFound where there is none."""
        return access_butler(self.app_state, self.visitor, name, self.request.state.request_id)


@dataclass(frozen=True, slots=True)
class Sent:
    """A form somebody sent, known to be theirs and meant."""

    visit: Visit
    form: Form


def home_of(name: str) -> str:
    """Where the pages of a butler of this home begin."""
    return f"/butlers/{name}/memory"


def sessions_of(request: Request) -> BrowserSessions:
    """The sessions of the application."""
    sessions: BrowserSessions = request.app.state.sessions
    return sessions


def visit_or_none(request: Request) -> Visit | None:
    """The visit, or None when nobody signed in."""
    sessions = sessions_of(request)
    session, visitor = sessions.session(request), sessions.visitor(request)
    if session is None or visitor is None:
        return None
    return Visit(request, session, visitor, app_state_of(request))


async def visit_of_request(request: Request) -> Visit:
    """The visit; 401 when nobody signed in."""
    visit = visit_or_none(request)
    if visit is None:
        raise HTTPException(401, "sign in first")
    return visit


async def sent_in_visit(
    request: Request, visit: Annotated[Visit, Depends(visit_of_request)]
) -> Sent:
    """The form of a visit; 403 when it is not one the session was given."""
    form = await sent_form(request)
    if not visit.session.vouches(form[CSRF_FIELD]):
        raise HTTPException(403, NOT_MEANT)
    return Sent(visit, form)


Visiting = Annotated[Visit, Depends(visit_of_request)]
Sending = Annotated[Sent, Depends(sent_in_visit)]
Name = Annotated[str, Path(max_length=100)]
