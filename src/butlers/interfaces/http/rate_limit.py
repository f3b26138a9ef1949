"""What every request passes before any door: valid or no token, and how much one caller may ask."""

import math
import time
from collections import Counter

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from butlers.auth.token_store import TokenStore
from butlers.errors import ButlersError
from butlers.interfaces.http.faults import failure
from butlers.kernel.rates import Rates

MOST_OPEN = 256
"""How many requests of one caller may be under way, streams of agents among them."""
PER_MINUTE = 6_000
"""How many requests a caller may send in a minute, all of which may come at once."""
READY = "/ready"
_BEARER = "bearer "


class Gate:
    """Refuses callers whose token has expired, and those who ask too much; by token, or else by
    address."""

    def __init__(self, app: ASGIApp, tokens: TokenStore, per_minute: int = PER_MINUTE) -> None:
        self._app, self._tokens = app, tokens
        self._rates = Rates(per_minute)
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or answer it."""
        # A balancer asks from the address that all without a token come from.
        if scope["type"] != "http" or scope["path"] == READY:
            await self._app(scope, receive, send)
            return
        token = bearer(Headers(scope=scope))
        try:
            await self._tokens.refresh(token)
        except ButlersError as error:
            await failure(503, str(error))(scope, receive, send)
            return
        known = self._tokens.identify(token) if token else None
        caller = f"token:{known.id}" if known is not None else _address(scope)
        ended = self._tokens.refusal(token) if token and known is None else ""
        refusal = failure(401, ended) if ended else self._refusal(caller)
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
            return _too_much(f"{MOST_OPEN} requests of yours are under way; wait for some", 1)
        return None


def bearer(headers: Headers) -> str:
    """The token that a request carries; empty for none."""
    header = headers.get("authorization", "")
    return header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""


def _address(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""


def _too_much(words: str, wait: float) -> Response:
    refusal = failure(429, words)
    refusal.headers["Retry-After"] = str(math.ceil(wait))
    return refusal
