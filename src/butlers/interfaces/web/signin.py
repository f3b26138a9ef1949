"""Signing in with a token or with a link of `butlers open`.

A browser holds nothing but a random name for its session. What the session may see is kept here,
and asked of the token again at every request: a token revoked is a session ended. Where several
processes share a token, they share its holder's sessions; that of a link is this process's own.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from butlers.auth.token_database import SignIn
from butlers.auth.token_store import FRESH_SECONDS
from butlers.auth.tokens import TokenRecord
from butlers.clock import Clock, utc_now
from butlers.errors import ButlersError
from butlers.interfaces.http.access import Visitor, operator_of, visitor_of
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.http.faults import failure

COOKIE = "butlers_session"
CSRF_HEADER = "X-CSRF-Token"
SESSION_LIFE = timedelta(hours=12)
MAX_SESSIONS = 1_000


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """One browser that signed in; `token` is a digest, and None for whoever used the link."""

    csrf: str
    expires_at: datetime
    token: str | None = None
    asked_at: float | None = None
    """When the others were asked whether it still is one; None for a session of ours alone."""

    def vouches(self, csrf: str) -> bool:
        """Whether a form was given out to this session."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "replace"))


class BrowserSessions:
    """Every session of this process; also how the API recognises a browser."""

    def __init__(self, app_state: AppState, clock: Clock = utc_now) -> None:
        self._app_state = app_state
        self._clock = clock
        self._open: dict[str, BrowserSession] = {}

    async def begin(self, record: TokenRecord | None) -> str:
        """Open a session for the holder of a token, or for the operator; the cookie's value."""
        self._sweep()
        name, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        session = BrowserSession(
            csrf, self._clock() + SESSION_LIFE, record.digest if record else None
        )
        if record is not None:
            signed_in = SignIn(record, csrf, session.expires_at)
            if await self._app_state.tokens.begin_sign_in(_key(name), signed_in):
                session = replace(session, asked_at=time.monotonic())
        self._open[_key(name)] = session
        return name

    async def end(self, request: Request) -> None:
        """Close the session of a request."""
        key = _key(request.cookies.get(COOKIE, ""))
        ended = self._open.pop(key, None)
        if ended is not None and ended.asked_at is not None:
            await self._app_state.tokens.end_sign_in(key)

    async def learn(self, request: Request) -> None:
        """Ask about a browser that another process signed in, or may have signed out since."""
        key = _key(request.cookies.get(COOKIE, ""))
        known, now = self._open.get(key), time.monotonic()
        if known is not None and (known.asked_at is None or now - known.asked_at < FRESH_SECONDS):
            return
        try:
            found = await self._app_state.tokens.find_sign_in(key)
        except ButlersError:
            if known is None:
                return  # whoever is not known here may sign in
            raise
        if found is not None:
            token = found.record.digest
            self._open[key] = BrowserSession(found.csrf, found.expires_at, token, now)
        else:
            self._open.pop(key, None)

    def session(self, request: Request) -> BrowserSession | None:
        """The session of a request, unless it has expired."""
        found = self._open.get(_key(request.cookies.get(COOKIE, "")))
        return found if found is not None and found.expires_at > self._clock() else None

    def visitor(self, request: Request) -> Visitor | None:
        """Who the session is; None without one, or when its token is no longer valid."""
        session = self.session(request)
        if session is None:
            return None
        if session.token is None:
            return operator_of(self._app_state, "local")
        record = self._app_state.tokens.find(session.token)
        if record is None or record.has_expired(self._clock()):
            return None
        return visitor_of(record, self._app_state.fleet)

    def may_write(self, request: Request) -> bool:
        """Whether a script of our own pages sent it: same origin, and the session's own secret."""
        session = self.session(request)
        sent = request.headers.get(CSRF_HEADER, "")
        return session is not None and is_from_here(request) and session.vouches(sent)

    def _sweep(self) -> None:
        """Forget what has expired, and the oldest if there are too many."""
        now = self._clock()
        self._open = {key: one for key, one in self._open.items() if one.expires_at > now}
        while len(self._open) >= MAX_SESSIONS:
            self._open.pop(next(iter(self._open)))


class Recognition:
    """Before a request of a browser is answered, what others know of its session is asked."""

    def __init__(self, app: ASGIApp, sessions: BrowserSessions) -> None:
        self._app, self._sessions = app, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http" and COOKIE in (request := Request(scope)).cookies:
            try:
                await self._sessions.learn(request)
            except ButlersError as error:
                await failure(503, str(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def give_cookie(request: Request, response: Response, name: str) -> None:
    """Let the browser keep the session's name, for this site alone and out of scripts' reach."""
    response.set_cookie(
        COOKIE,
        name,
        max_age=int(SESSION_LIFE.total_seconds()),
        path="/",
        httponly=True,
        samesite="strict",
        secure=_is_encrypted(request),
    )


def _is_encrypted(request: Request) -> bool:
    """Whether the browser spoke HTTPS, be it to a proxy before us: only then would it say so."""
    origin = request.headers.get("origin", "")
    return request.url.scheme == "https" or origin.startswith("https://")


def take_cookie(response: Response) -> None:
    """Let the browser forget the session's name."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def _key(name: str) -> str:
    """Sessions are kept by the digest of their name, so that looking one up tells nothing."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


def is_from_here(request: Request) -> bool:
    """Whether browser and headers agree that our own origin sent it.

    Browsers that know `Sec-Fetch-Site` say so themselves; `Origin` must name the host we were
    asked for. A request with neither comes from no page, and has to prove itself otherwise.
    """
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
