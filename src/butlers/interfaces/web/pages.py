"""Render pages: templates, security headers, redirects and failure pages."""

from collections.abc import Callable, Coroutine
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from butlers import __version__
from butlers.clock import utc_now
from butlers.errors import ButlersError
from butlers.interfaces.http.faults import OUR_FAULT, status_of
from butlers.interfaces.web import formatting
from butlers.interfaces.web.svg import meter, swatch
from butlers.interfaces.web.visits import Visit, home_of, visit_or_none


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page with the values that every page needs."""
    visit = visit_or_none(request)
    about = {
        "visit": visit,
        "csrf": visit.session.csrf if visit else "",
        "butlers": visit.butlers if visit else [],
        "path": request.url.path,
        "version": __version__,
    }
    page = _environment.get_template(template).render(about | values)
    return HTMLResponse(page, status)


def render_butler(
    visit: Visit, name: str, section: str, *, template: str = "", **values: Any
) -> HTMLResponse:
    """Render a page of one butler, with its name, tenant and tabs."""
    access = visit.access(name)
    common: dict[str, Any] = {
        "name": name,
        "home": home_of(name),
        "section": section,
        "tenant": access.caller.tenant_id,
        "may_run_jobs": access.may_run_jobs,
    }
    return render(visit.request, template or f"{section}.html", **common, **values)


def _when(value: datetime | str | None, otherwise: str = "never") -> Markup:
    """Show a time; the tooltip says how long ago it was."""
    at = formatting.instant(value)
    if at is None:
        return Markup.escape(otherwise)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(), formatting.distance(at, utc_now()), f"{at:%Y-%m-%d %H:%M}"
    )


def _ago(value: datetime | str | None, otherwise: str = "never") -> Markup:
    """Show how long ago something was; the tooltip says when exactly."""
    at = formatting.instant(value)
    if at is None:
        return Markup.escape(otherwise)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S}", formatting.distance(at, utc_now())
    )


def _decimal(value: float | None, places: int = 2) -> str:
    return "–" if value is None else f"{value:.{places}f}"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _words(value: str) -> str:
    return value.replace("_", " ")


_environment = Environment(
    loader=PackageLoader("butlers.interfaces.web"),
    autoescape=True,
    auto_reload=False,
    undefined=StrictUndefined,
    finalize=formatting.finalized,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "when": _when,
    "ago": _ago,
    "decimal": _decimal,
    "count": _count,
    "words": _words,
    "cut": formatting.cut,
    "span": formatting.span_of,
    "query": formatting.query,
    "event": formatting.event_words,
    "changes": formatting.changes,
    "actor": formatting.actor_words,
}
_environment.globals |= {"meter": meter, "swatch": swatch}


POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
# Not no-referrer: with it browsers send forms with the origin "null", which we would refuse.
PROTECTION = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_TITLES = {
    400: "Invalid request",
    401: "Sign in first",
    403: "Not allowed",
    404: "Page not found",
    405: "Page not found",
    409: "Conflict",
    422: "Invalid request",
    503: "Not available right now",
}
_Answer = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route whose responses carry the security headers."""

    def get_route_handler(self) -> _Answer:
        """Add the security headers to the route's response."""
        answer = super().get_route_handler()

        async def page(request: Request) -> Response:
            response = await answer(request)
            protect(response.headers)
            return response

        return page


def protect(headers: MutableHeaders) -> None:
    """Add the security headers."""
    for name, value in PROTECTION.items():
        headers.setdefault(name, value)


def go_to(path: str) -> RedirectResponse:
    """Redirect to another page with GET."""
    return RedirectResponse(path, 303)


def explained(request: Request, error: Exception) -> Response:
    """Render the page for a failure; redirect to sign-in and back where that is needed."""
    status, words = _status_and_words(request, error)
    if status == 401 and request.method == "GET":  # noqa: PLR2004 - not signed in
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        response: Response = go_to(f"/sign-in?next={quote(asked)}")
    else:
        title = _TITLES.get(status, "Something went wrong")
        response = render(request, "failure.html", status, title=title, words=words, code=status)
    protect(response.headers)
    return response


def _status_and_words(request: Request, error: Exception) -> tuple[int, str]:
    if isinstance(error, ButlersError):
        return status_of(error), str(error)
    if isinstance(error, RequestValidationError):
        return 422, "a value in the address or the form is invalid; go back and try again"
    if not isinstance(error, HTTPException):
        return 500, OUR_FAULT
    if error.detail == HTTPStatus(error.status_code).phrase:  # a default message of the framework
        return error.status_code, f"there is no page {request.url.path[:80]!r} to {_verb(request)}"
    return error.status_code, str(error.detail)


def _verb(request: Request) -> str:
    return "read" if request.method in {"GET", "HEAD"} else "send something to"
