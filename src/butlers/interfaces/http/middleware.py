"""Middleware for every request: token, rate limit, size limit, request id."""

import math
import time
from collections import Counter

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from butlers.auth.token_store import TokenStore
from butlers.errors import ButlersError
from butlers.ids import NewId, new_id
from butlers.interfaces.http.faults import failure
from butlers.kernel.text import one_line
from butlers.kernel.throttle import RateLimiter
from butlers.module import MAX_REQUEST_ID

MOST_OPEN = 256
"""How many requests of one caller may run at once, streams of agents included."""
PER_MINUTE = 6_000
"""How many requests a caller may send in a minute, even all at once."""
READY = "/ready"
_BEARER = "bearer "


class RequestLimiter:
    """Refuses expired tokens, and limits requests by token, or by address without one."""

    def __init__(self, app: ASGIApp, tokens: TokenStore, per_minute: int = PER_MINUTE) -> None:
        self._app, self._tokens = app, tokens
        self._rates = RateLimiter(per_minute)
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        # A load balancer asks from the address that requests without a token come from.
        if scope["type"] != "http" or scope["path"] == READY:
            await self._app(scope, receive, send)
            return
        token = bearer(Headers(scope=scope))
        try:
            await self._tokens.refresh(token)
        except ButlersError as error:
            await failure(503, str(error))(scope, receive, send)
            return
        record = self._tokens.identify(token) if token else None
        address = str(scope["client"][0]) if scope.get("client") else ""
        caller = f"token:{record.id}" if record is not None else address
        expired = self._tokens.refusal(token) if token and record is None else ""
        refusal = failure(401, expired) if expired else self._refusal(caller)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self._open[caller] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    def _refusal(self, caller: str) -> Response | None:
        wait = self._rates.take(caller, time.monotonic())
        if wait:
            return _too_much("too many requests; try again in a moment", wait)
        if self._open[caller] >= MOST_OPEN:
            return _too_much(f"{MOST_OPEN} of your requests are running; wait for some to end", 1)
        return None


def bearer(headers: Headers) -> str:
    """Return a request's bearer token; empty without one."""
    header = headers.get("authorization", "")
    return header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""


def _too_much(words: str, wait: float) -> Response:
    refusal = failure(429, words)
    refusal.headers["Retry-After"] = str(math.ceil(wait))
    return refusal


MAX_BODY_BYTES = 4 * 1024 * 1024
REQUEST_ID = "X-Request-Id"
_TOO_LARGE = f"the request has more than {MAX_BODY_BYTES} bytes; send less at once"


class Envelope:
    """Limits the size of a request and gives it an id, which goes back with the response."""

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
        length = headers.get("content-length", "")
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            if length.isdecimal() and int(length) > MAX_BODY_BYTES:
                await failure(413, _TOO_LARGE)(scope, receive, answer)
            else:
                await self._app(scope, _bounded(receive), answer)

    def _request_id(self, given: str | None) -> str:
        """Return the caller's id if it is valid, else a new one."""
        cleaned = one_line(given or "")
        return cleaned if 1 <= len(cleaned) <= MAX_REQUEST_ID else str(self._new_id())


def _bounded(receive: Receive) -> Receive:
    """Count a body as it arrives: its length need not be declared."""
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
