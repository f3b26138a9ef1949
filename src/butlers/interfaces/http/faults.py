"""Answer failures: one shape of JSON for callers of the API, a page for browsers."""

import re
from collections.abc import Callable, Mapping
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
from butlers.kernel.text import clean, without_middle
from butlers.kernel.word_tables import load_tables
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
# Another server may take over in a moment; a request waits as long for one itself.
_RETRY = {"Retry-After": "5"}
OUR_FAULT = "an unexpected error occurred; `butlers logs` shows it"

Page: TypeAlias = Callable[[Request, Exception], Response]
"""Renders the page for a failure."""


class Explanation(BaseModel):
    """What went wrong, and which field is wrong, if one is."""

    model_config = ConfigDict(extra="forbid")

    message: str
    field: str | None = None


class Failure(BaseModel):
    """The response to a request that failed."""

    error: Explanation


FAILURES: dict[int | str, dict[str, Any]] = {
    int(status): {"model": Failure, "description": description}
    for status, description in load_tables(__file__)["failures"].items()
}
"""How any route may fail, for the OpenAPI document."""


def answer_failures(app: FastAPI, page: Page) -> None:
    """Answer every failure: below /api in the API's shape, anywhere else with a page."""

    async def answer(request: Request, error: Exception) -> Response:
        is_api = request.url.path == "/api" or request.url.path.startswith("/api/")
        return _as_json(error) if is_api else page(request, error)

    async def log_and_answer(request: Request, error: Exception) -> Response:
        log.error("a request failed", path=request.url.path, exc_info=error)
        return await answer(request, error)

    for kind in (ButlersError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)
    app.add_exception_handler(Exception, log_and_answer)


def failure(status: int, message: str, field: str | None = None) -> JSONResponse:
    """Build the response that says what went wrong."""
    explanation = Explanation(message=without_middle(clean(message)), field=field)
    return JSONResponse(Failure(error=explanation).model_dump(exclude_none=True), status)


def status_of(error: ButlersError) -> int:
    """Return the HTTP status of an error."""
    return next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)


def _as_json(error: Exception) -> JSONResponse:
    match error:
        case ButlersError():
            named = _FIELD.match(str(error))
            answer = failure(status_of(error), str(error), named[1] if named else None)
            answer.headers.update(_RETRY if isinstance(error, Away) else {})
            return answer
        case RequestValidationError():
            message = "; ".join(_fault(fault) for fault in error.errors()[:5])
            return failure(422, message, _where(error.errors()[0]) or None)
        case HTTPException():
            answer = failure(error.status_code, str(error.detail))
            answer.headers.update(error.headers or {})
            return answer
    return failure(500, OUR_FAULT)


def _fault(fault: Mapping[str, Any]) -> str:
    is_json = fault["type"] != "json_invalid"
    return fault_in_words(fault, fault["loc"][1:]) if is_json else "the body is not JSON"


def _where(fault: Mapping[str, Any]) -> str:
    """Name the field without "body" or "query", which the route tells; empty for no JSON."""
    return "" if fault["type"] == "json_invalid" else ".".join(map(str, fault["loc"][1:]))
