"""Sessions of browsers that signed in with a token or a link of `butlers open`.

The cookie holds only a random name. The session's rights are those of its token, read again at
every request: revoking the token ends the session. Several daemons share the sessions of a shared
token; the session of a link belongs to one process.
"""

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
from butlers.auth.tokens import TokenRecord, digest_of
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
    """A browser that signed in; `token` is a digest, and None for a link of `butlers open`."""

    csrf: str
    expires_at: datetime
    token: str | None = None
    asked_at: float | None = None
    """When it was last checked with the shared store; None for a session of this process."""
    may_decide: bool = False
    """Whether a person was present when its link was made."""

    def vouches(self, csrf: str) -> bool:
        """Whether a CSRF token is this session's own."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "replace"))


class BrowserSessions:
    """The sessions known to this process; also recognises browsers for the API."""

    def __init__(self, app_state: AppState, clock: Clock = utc_now) -> None:
        self._app_state = app_state
        self._clock = clock
        # By the cookie's digest, so that lookup timing reveals nothing.
        self._open: dict[str, BrowserSession] = {}

    async def begin(self, record: TokenRecord | None, *, may_decide: bool = False) -> str:
        """Open a session for a token's holder, or for the operator; return the cookie's value."""
        self._sweep()
        name, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        ends, token = self._clock() + SESSION_LIFE, record.digest if record else None
        session = BrowserSession(csrf, ends, token, may_decide=may_decide)
        if record is not None:
            signed_in = SignIn(record, csrf, session.expires_at)
            if await self._app_state.tokens.begin_sign_in(digest_of(name), signed_in):
                session = replace(session, asked_at=time.monotonic())
        self._open[digest_of(name)] = session
        return name

    async def end(self, request: Request) -> None:
        """Close the session of a request."""
        key = digest_of(request.cookies.get(COOKIE, ""))
        ended = self._open.pop(key, None)
        if ended is not None and ended.asked_at is not None:
            await self._app_state.tokens.end_sign_in(key)

    async def learn(self, request: Request) -> None:
        """Look up a session that another process may have opened or ended."""
        key = digest_of(request.cookies.get(COOKIE, ""))
        known, now = self._open.get(key), time.monotonic()
        if known is not None and (known.asked_at is None or now - known.asked_at < FRESH_SECONDS):
            return
        try:
            sign_in = await self._app_state.tokens.find_sign_in(key)
        except ButlersError:
            if known is not None:
                raise
            return  # an unknown browser may sign in
        if sign_in is None:
            self._open.pop(key, None)
        else:
            token = sign_in.record.digest
            self._open[key] = BrowserSession(sign_in.csrf, sign_in.expires_at, token, now)

    def session(self, request: Request) -> BrowserSession | None:
        """Return the session of a request, unless it has expired."""
        session = self._open.get(digest_of(request.cookies.get(COOKIE, "")))
        return session if session is not None and session.expires_at > self._clock() else None

    def visitor(self, request: Request) -> Visitor | None:
        """Return the session's visitor; None without a session or with an invalid token."""
        session = self.session(request)
        if session is None:
            return None
        if session.token is None:
            return operator_of(self._app_state, may_decide=session.may_decide)
        record = self._app_state.tokens.find(session.token)
        if record is None or record.has_expired(self._clock()):
            return None
        return visitor_of(record, self._app_state.fleet)

    def may_write(self, request: Request) -> bool:
        """Whether a script of our own pages sent it: same origin and the session's CSRF token."""
        session = self.session(request)
        sent = request.headers.get(CSRF_HEADER, "")
        return session is not None and is_from_here(request) and session.vouches(sent)

    def _sweep(self) -> None:
        """Drop expired sessions, and the oldest if there are too many."""
        now = self._clock()
        self._open = {
            key: session for key, session in self._open.items() if session.expires_at > now
        }
        while len(self._open) >= MAX_SESSIONS:
            self._open.pop(next(iter(self._open)))


class Recognition:
    """Middleware that looks up a browser's session before its request is handled."""

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
    """Set the session cookie: this site only, not readable by scripts."""
    origin = request.headers.get("origin", "")  # HTTPS may end at a proxy in front of us
    is_encrypted = request.url.scheme == "https" or origin.startswith("https://")
    response.set_cookie(
        COOKIE,
        name,
        max_age=int(SESSION_LIFE.total_seconds()),
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_encrypted,
    )


def is_from_here(request: Request) -> bool:
    """Whether the headers say that one of our own pages sent the request.

    `Sec-Fetch-Site`, if present, must be same-origin, and `Origin` must name our host. A request
    with neither header comes from no page and needs other proof.
    """
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
