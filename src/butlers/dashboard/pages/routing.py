"""Routes of pages: failures are pages too, and every page says what a browser may do with it."""

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from butlers.dashboard.faults import status_of
from butlers.dashboard.pages.rendering import render
from butlers.errors import ButlersError

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
    409: "That clashes with what is there",
    422: "That cannot be used",
    503: "Not available right now",
}
_Answer = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route whose every answer, a failure included, is a page with its protection."""

    def get_route_handler(self) -> _Answer:
        """The route's own answer, or a page that explains why there is none."""
        answer = super().get_route_handler()

        async def page(request: Request) -> Response:
            try:
                response = await answer(request)
            except (ButlersError, HTTPException, RequestValidationError) as error:
                response = _explained(request, error)
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


def _explained(request: Request, error: Exception) -> Response:
    status, words = _status_and_words(error)
    if status == 401 and request.method == "GET":  # noqa: PLR2004 - not signed in
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return go_to(f"/sign-in?next={quote(asked)}")
    title = _TITLES.get(status, "That did not work")
    return render(request, "failure.html", status, title=title, words=words, code=status)


def _status_and_words(error: Exception) -> tuple[int, str]:
    if isinstance(error, ButlersError):
        return status_of(error), str(error)
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    return 422, "a part of the address or the form is of the wrong form; go back and try again"
