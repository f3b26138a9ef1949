"""Pages, those that explain a failure included: each says what a browser may do with it."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from butlers.errors import ButlersError
from butlers.interfaces.http.faults import OUR_FAULT, status_of
from butlers.interfaces.web.rendering import render

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
# Not no-referrer: with it a browser sends forms with the origin "null", which is then nobody's.
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
    400: "That cannot be used",
    401: "Sign in first",
    403: "Not allowed",
    404: "Nothing here",
    405: "Nothing here",
    409: "That clashes with what is there",
    422: "That cannot be used",
    503: "Not available right now",
}
_Answer = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route whose every answer is a page with its protection."""

    def get_route_handler(self) -> _Answer:
        """The route's own answer, protected."""
        answer = super().get_route_handler()

        async def page(request: Request) -> Response:
            response = await answer(request)
            protect(response.headers)
            return response

        return page


def protect(headers: MutableHeaders) -> None:
    """Say what a browser may do with an answer."""
    for name, value in PROTECTION.items():
        headers.setdefault(name, value)


def go_to(path: str) -> RedirectResponse:
    """On to another page, by reading it."""
    return RedirectResponse(path, 303)


def explained(request: Request, error: Exception) -> Response:
    """The page for a failure; whoever has to sign in first is led there, and back again."""
    status, words = _status_and_words(request, error)
    if status == 401 and request.method == "GET":  # noqa: PLR2004 - not signed in
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        response: Response = go_to(f"/sign-in?next={quote(asked)}")
    else:
        title = _TITLES.get(status, "That did not work")
        response = render(request, "failure.html", status, title=title, words=words, code=status)
    protect(response.headers)
    return response


def _status_and_words(request: Request, error: Exception) -> tuple[int, str]:
    if isinstance(error, ButlersError):
        return status_of(error), str(error)
    if isinstance(error, RequestValidationError):
        return 422, "a part of the address or the form is of the wrong form; go back and try again"
    if not isinstance(error, HTTPException):
        return 500, OUR_FAULT
    if error.detail == HTTPStatus(error.status_code).phrase:  # nobody of ours has worded it
        return error.status_code, f"there is no page {request.url.path[:80]!r} to {_verb(request)}"
    return error.status_code, str(error.detail)


def _verb(request: Request) -> str:
    return "read" if request.method in {"GET", "HEAD"} else "send something to"
