"""What surrounds every request: a bound on its size, and an id that goes back with the answer."""

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from butlers.ids import NewId, new_id
from butlers.interfaces.http.faults import failure
from butlers.kernel.text import one_line
from butlers.module import MAX_REQUEST_ID

MAX_BODY_BYTES = 4 * 1024 * 1024
REQUEST_ID = "X-Request-Id"
_TOO_LARGE = f"the request has more than {MAX_BODY_BYTES} bytes; send less at once"


class Envelope:
    """Refuses what is too large, and names every request."""

    def __init__(self, app: ASGIApp, new_id: NewId = new_id) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = self._request_id(headers.get(REQUEST_ID))
        scope.setdefault("state", {})["request_id"] = request_id
        answer = _naming(request_id, send)
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            if _declared(headers) > MAX_BODY_BYTES:
                await failure(413, _TOO_LARGE)(scope, receive, answer)
            else:
                await self._app(scope, _bounded(receive), answer)

    def _request_id(self, given: str | None) -> str:
        """The caller's own id where it can be one, else a new one."""
        cleaned = one_line(given or "")
        return cleaned if 1 <= len(cleaned) <= MAX_REQUEST_ID else str(self._new_id())


def _declared(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0


def _bounded(receive: Receive) -> Receive:
    """A body without a declared length is counted as it comes."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            raise HTTPException(413, _TOO_LARGE)
        return message

    return counted


def _naming(request_id: str, send: Send) -> Send:
    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            # A header holds latin-1; whatever else the caller sent cannot have come through one.
            MutableHeaders(scope=message)[REQUEST_ID] = request_id
        await send(message)

    return named
