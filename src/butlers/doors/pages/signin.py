"""Signing in with a token or with a link of `butlers open`; sessions live in memory.

A browser holds nothing but a random name for its session. What the session may see is kept here,
and asked of the token again at every request: a token revoked is a session ended.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from butlers.butler.tokens import TokenRecord
from butlers.clock import Clock, utc_now
from butlers.doors.http.callers import Visitor, operator_of, visitor_of
from butlers.doors.http.household import Household

COOKIE = "butlers_session"
CSRF_HEADER = "X-CSRF-Token"
SESSION_LIFE = timedelta(hours=12)
MAX_SESSIONS = 1_000


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that signed in; `token_id` is None for whoever used the link."""

    csrf: str
    expires_at: datetime
    token_id: str | None = None

    def vouches(self, csrf: str) -> bool:
        """Whether a form was given out to this session."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "replace"))


class Sessions:
    """Every session of this process; also how the API recognises a browser."""

    def __init__(self, household: Household, clock: Clock = utc_now) -> None:
        self._household = household
        self._clock = clock
        self._open: dict[str, Session] = {}

    def begin(self, record: TokenRecord | None) -> str:
        """Open a session for the holder of a token, or for the operator; the cookie's value."""
        self._sweep()
        name = secrets.token_urlsafe(32)
        expires_at = self._clock() + SESSION_LIFE
        token_id = record.id if record is not None else None
        self._open[_key(name)] = Session(secrets.token_urlsafe(32), expires_at, token_id)
        return name

    def end(self, request: Request) -> None:
        """Close the session of a request."""
        self._open.pop(_key(request.cookies.get(COOKIE, "")), None)

    def session(self, request: Request) -> Session | None:
        """The session of a request, unless it has expired."""
        found = self._open.get(_key(request.cookies.get(COOKIE, "")))
        return found if found is not None and found.expires_at > self._clock() else None

    def visitor(self, request: Request) -> Visitor | None:
        """Who the session is; None without one, or when its token is no longer valid."""
        session = self.session(request)
        if session is None:
            return None
        if session.token_id is None:
            return operator_of(self._household, "local")
        record = self._household.tokens.get(session.token_id)
        return None if record is None else visitor_of(record, self._household.fleet)

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
