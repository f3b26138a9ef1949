"""Failures as callers read them: words that help, never a stack trace.

Callers of the API read one shape of JSON; whoever looks at pages is shown a page.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from butlers.errors import (
    Away,
    ButlersError,
    Conflict,
    Forbidden,
    IntegrityViolation,
    InvalidInput,
    NotFound,
    Unavailable,
)
from butlers.kernel.text import clean
from butlers.operation import fault_in_words

log = structlog.get_logger(__name__)

_STATUS: Mapping[type[ButlersError], int] = {
    InvalidInput: 400,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    IntegrityViolation: 409,
    Unavailable: 503,
}
_FIELD = re.compile(r"([a-z_]+(?:\.[a-z_]+)*): ")
_LONGEST = 2_000
# Another server may take over in a moment; a request waits as long for one itself.
_AWAY_SECONDS = 5
OUR_FAULT = "the butler failed for a reason of its own; its log says which"

_Answer: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]
Page: TypeAlias = Callable[[Request, Exception], Response]
"""Makes the page that explains a failure."""


class Explanation(BaseModel):
    """What went wrong, and the field it is about where it is about one."""

    model_config = ConfigDict(extra="forbid")

    message: str
    field: str | None = None


class Failure(BaseModel):
    """The answer to a request that failed."""

    error: Explanation


FAILURES: dict[int | str, dict[str, Any]] = {
    400: {"model": Failure, "description": "A value that cannot be used."},
    401: {"model": Failure, "description": "No valid token."},
    403: {"model": Failure, "description": "Not for this caller."},
    404: {"model": Failure, "description": "No such thing for this caller."},
    409: {"model": Failure, "description": "It clashes with what is there."},
    413: {"model": Failure, "description": "The request is too large."},
    422: {"model": Failure, "description": "A value of the wrong form."},
    429: {"model": Failure, "description": "Too many requests; `Retry-After` says when to try."},
    503: {
        "model": Failure,
        "description": "Something outside does not answer; `Retry-After` says if it may soon.",
    },
}
"""How any route may fail, for the OpenAPI document."""


def answer_failures(app: FastAPI, page: Page) -> None:
    """Answer every failure: below /api in the API's shape, anywhere else with a page."""
    app.add_exception_handler(ButlersError, _by_path(_ours, page))
    app.add_exception_handler(RequestValidationError, _by_path(_malformed, page))
    app.add_exception_handler(HTTPException, _by_path(_refused, page))
    app.add_exception_handler(Exception, _logged(_by_path(_unforeseen, page)))


def failure(status: int, message: str, field: str | None = None) -> JSONResponse:
    """An answer that says what went wrong."""
    # The ends say which field and what is valid; what a caller sent may be long between them.
    words = clean(message)
    if len(words) > _LONGEST:
        words = f"{words[: _LONGEST // 2]} … {words[-_LONGEST // 2 :]}"
    explanation = Explanation(message=words, field=field)
    body = Failure(error=explanation).model_dump(exclude_none=True)
    return JSONResponse(body, status)


def status_of(error: ButlersError) -> int:
    """The status that stands for an error of ours."""
    return next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)


def _by_path(answer: _Answer, page: Page) -> _Answer:
    async def chosen(request: Request, error: Exception) -> Response:
        is_api = request.url.path == "/api" or request.url.path.startswith("/api/")
        return await answer(request, error) if is_api else page(request, error)

    return chosen


def _logged(answer: _Answer) -> _Answer:
    async def logged(request: Request, error: Exception) -> Response:
        log.error("a request failed", path=request.url.path, exc_info=error)
        return await answer(request, error)

    return logged


async def _ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ButlersError)
    named = _FIELD.match(str(error))
    answer = failure(status_of(error), str(error), named[1] if named else None)
    if isinstance(error, Away):
        answer.headers["Retry-After"] = str(_AWAY_SECONDS)
    return answer


async def _malformed(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    message = "; ".join(_fault(fault) for fault in faults[:5])
    return failure(422, message, _where(faults[0]) or None)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    answer = failure(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def _unforeseen(_: Request, __: Exception) -> JSONResponse:
    return failure(500, OUR_FAULT)


def _fault(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "json_invalid":
        return "the body is not JSON"
    return fault_in_words(fault, fault["loc"][1:])


def _where(fault: Mapping[str, Any]) -> str:
    """The field by its own name: whether it stood in body or query is known from the route."""
    if fault["type"] == "json_invalid":
        return ""
    return ".".join(str(part) for part in fault["loc"][1:])
