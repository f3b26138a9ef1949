"""Render pages: templates, security headers, redirects and failure pages."""

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from butlers import __version__
from butlers.errors import ButlersError
from butlers.interfaces.http.faults import OUR_FAULT, status_of
from butlers.interfaces.web import formatting
from butlers.interfaces.web.environment import environment
from butlers.interfaces.web.visits import ButlerVisit, filled_fields, visit_or_none
from butlers.kernel.word_tables import load_tables

PROTECTION: dict[str, str] = load_tables(__file__, "headers.toml")["pages"]


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page, with what every page needs: who visits, and the fields of the address."""
    visit = visit_or_none(request)
    about = {
        "visit": visit,
        "csrf": visit.session.csrf if visit else "",
        "butlers": visit.butlers if visit else [],
        "path": request.url.path,
        "version": __version__,
        "asked": filled_fields(request),
        "done": request.query_params.get("done", ""),
        "cursor": request.query_params.get("cursor"),
    }
    page = environment.get_template(template).render(about | values)
    return HTMLResponse(page, status, PROTECTION)


def render_butler(
    visit: ButlerVisit, section: str, *, template: str = "", **values: Any
) -> HTMLResponse:
    """Render a page of one butler, with its name, tenant and tabs."""
    values |= {"name": visit.butler.name, "tenant": visit.caller.tenant_id, "home": visit.home}
    values["waiting"] = visit.waiting
    return render(visit.visit.request, template or f"{section}.html", section=section, **values)


def go_to(path: str) -> RedirectResponse:
    """Redirect to another page with GET."""
    return RedirectResponse(path, 303, PROTECTION)


def explained(request: Request, error: Exception) -> Response:
    """Render the page for a failure; redirect to sign-in and back where that is needed."""
    status, words = _status_and_words(request, error)
    if status == 401 and request.method == "GET":  # noqa: PLR2004 - not signed in
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return go_to(f"/sign-in?next={quote(target)}")
    title = formatting.WORDS["titles"].get(str(status), "Something went wrong")
    return render(request, "failure.html", status, title=title, words=words, code=status)


def _status_and_words(request: Request, error: Exception) -> tuple[int, str]:
    if isinstance(error, ButlersError):
        return status_of(error), str(error)
    if isinstance(error, RequestValidationError):
        return 422, "a value in the address or the form is invalid; go back and try again"
    if not isinstance(error, HTTPException):
        return 500, OUR_FAULT
    if error.detail == HTTPStatus(error.status_code).phrase:  # a default message of the framework
        verb = "read" if request.method in {"GET", "HEAD"} else "send something to"
        return error.status_code, f"there is no page {request.url.path[:80]!r} to {verb}"
    return error.status_code, str(error.detail)
