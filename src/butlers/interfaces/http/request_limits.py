"""Limits on every request: its token, rate, size and time to arrive; and its id."""

import asyncio
import math
import time
from collections import Counter
from functools import partial
from typing import ClassVar

import h11
import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from butlers.auth.token_store import TokenStore
from butlers.errors import ButlersError
from butlers.ids import NewId, new_id
from butlers.interfaces.http.faults import failure
from butlers.kernel.secrets import masked
from butlers.kernel.text import one_line
from butlers.kernel.throttle import ACCOUNT, Account, RateLimiter
from butlers.metrics import PROCESSING_SECONDS, REFUSED
from butlers.module import MAX_REQUEST_ID

MOST_OPEN = 256
"""How many requests of one caller may run at once, streams of agents included."""
PER_MINUTE = 6_000
"""How many requests a caller may send in a minute, even all at once."""
SECONDS_PER_MINUTE = 90.0
"""Processor time that a token's requests may take in a minute, even all at once."""
READY = "/ready"
_BEARER = "bearer "


class RequestLimiter:
    """Refuses expired tokens, and limits requests by token, or by address without one."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: TokenStore,
        per_minute: int = PER_MINUTE,
        seconds_per_minute: float = SECONDS_PER_MINUTE,
    ) -> None:
        self._app, self._tokens = app, tokens
        self._rates, self._times = RateLimiter(per_minute), RateLimiter(seconds_per_minute)
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        # A load balancer asks from the address that requests without a token come from.
        if scope["type"] != "http" or scope["path"] == READY:
            await self._app(scope, receive, send)
            return
        token = bearer(Headers(scope=scope))
        try:
            if self._tokens.has_databases:
                await self._tokens.refresh(token)
        except ButlersError as error:
            await failure(503, str(error))(scope, receive, send)
            return
        record = self._tokens.verify(token) if token else None
        address = str(scope["client"][0]) if scope.get("client") else ""
        caller = f"token:{record.id}" if record is not None else address
        expired = self._tokens.refusal(token) if token and record is None else ""
        now = time.monotonic()
        wait = 0.0 if expired else self._rates.take(caller, now)
        busy = self._times.wait(caller, now)
        if expired or wait or busy or self._open[caller] >= MOST_OPEN:
            await _refusal(expired, wait, busy)(scope, receive, send)
            return
        self._open[caller] += 1
        if record is not None:
            ACCOUNT.set(Account(record.tenant, partial(self._charge, caller)))
        try:
            await self._app(scope, receive, send)
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    def _charge(self, caller: str, seconds: float) -> None:
        self._times.spend(caller, seconds, time.monotonic())
        PROCESSING_SECONDS.inc(seconds)


def bearer(headers: Headers) -> str:
    """Return a request's bearer token; empty without one."""
    header = headers.get("authorization", "")
    return header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""


def _refusal(expired: str, wait: float, busy: float) -> Response:
    if expired:
        return failure(401, expired)
    limit = "rate" if wait else "time" if busy else "running"
    REFUSED.labels(limit).inc()
    refusal = failure(429, _REFUSALS[limit])
    refusal.headers["Retry-After"] = str(math.ceil(wait or busy or 1))
    return refusal


_REFUSALS = {
    "rate": "too many requests; try again in a moment",
    "time": "your requests took all the processor time that a token has in a minute; wait, then "
    "send fewer at once, or shorter texts",
    "running": f"{MOST_OPEN} of your requests are running; wait for some to end",
}


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
        """Return the caller's id, masked, if it is valid, else a new one."""
        cleaned = masked(one_line(given or ""), is_id=True).text
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


MOST_UNFINISHED = 200


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with a deadline per request; too many unfinished ones drop the oldest."""

    seconds: ClassVar[float]
    unfinished: ClassVar[dict["PatientProtocol", asyncio.TimerHandle]]
    """Connections with an incomplete request, the oldest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._update_deadline()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadline."""
        if self in self.unfinished:
            self.unfinished.pop(self).cancel()
        super().connection_lost(exc)

    def _update_deadline(self) -> None:
        """Set the deadline of an unfinished request once; further parts do not move it."""
        is_unfinished = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if self in self.unfinished:
            if not is_unfinished:
                self.unfinished.pop(self).cancel()
        elif is_unfinished and not self.transport.is_closing():
            self.unfinished[self] = self.loop.call_later(self.seconds, self._abort)
            if len(self.unfinished) > MOST_UNFINISHED:
                next(iter(self.unfinished))._abort()

    def _abort(self) -> None:
        self.unfinished.pop(self).cancel()
        self.transport.abort()
