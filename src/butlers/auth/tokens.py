"""Bearer tokens: what is recorded of one, and how one is made. The token itself is never stored."""

import hashlib
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from butlers.auth.rights import Caller, Right
from butlers.errors import InvalidInput
from butlers.kernel.text import normalise_whitespace, one_line
from butlers.llm import ToolServer

HOOKS_NOTE, COMMANDS_NOTE = "hooks of agents", "commands of this home"
"""The notes of the tokens that a home makes for itself."""
_SPAN = re.compile(r"(\d{1,4})([hdw])")
_MAX_SCOPE = 100
# A query for every scope begins with it.
_NO_SCOPE = "*"
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class TokenRecord(BaseModel):
    """What is recorded of a token: everything but the token."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    butler: str
    tenant: str
    note: str
    digest: str = Field(pattern="^[0-9a-f]{64}$", repr=False)
    created_at: str
    agent: str = ""
    rights: Right = Right.OPERATE
    """A token made before tokens had rights may do everything."""
    expires_at: datetime | None = None
    low_trust: bool = False
    scopes: tuple[str, ...] = ()
    """The scopes it may write, and read besides global ones; empty for no limit."""

    @property
    def caller(self) -> Caller:
        """The caller that holds it."""
        return Caller(
            self.tenant,
            f"token:{self.id}",
            self.agent,
            low_trust=self.low_trust,
            rights=self.rights,
            scopes=self.scopes,
        )

    @property
    def is_private(self) -> bool:
        """Whether the home made it for itself: only this home uses it."""
        return self.note in (HOOKS_NOTE, COMMANDS_NOTE)

    def has_expired(self, now: datetime) -> bool:
        """Whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now

    def shown(self) -> dict[str, Any]:
        """Return what a person may see of it."""
        return self.model_dump(mode="json", exclude={"digest"})


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """A token and when it was last used; None where no use is known."""

    record: TokenRecord
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """What a new token is for: whose it is, what it may do and until when."""

    tenant: str
    note: str = ""
    agent: str = ""
    rights: Right = Right.WRITE
    expires_at: datetime | None = None
    low_trust: bool = False
    scopes: tuple[str, ...] = ()


def new_token(butler: str, grant: TokenGrant, now: datetime) -> tuple[TokenRecord, str]:
    """Make a token and its record, which is not stored yet; InvalidInput names a wrong field."""
    token = _random_token()
    fields = asdict(grant) | {
        "id": secrets.token_hex(4),
        "created_at": now.isoformat(timespec="seconds"),
        "tenant": _validate_word("tenant", grant.tenant),
        "note": _validate_note(grant.note),
        "agent": validate_agent(grant.agent),
        "scopes": tuple(dict.fromkeys(map(_validate_scope, grant.scopes))),
    }
    return TokenRecord(butler=butler, digest=digest_of(token), **fields), token


def digest_of(token: str) -> str:
    """Hash a token; only the hash is stored."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def acting_tenant(own: str, given: str | None) -> str:
    """Return the tenant that a local command acts for: the one given, else the butler's own."""
    return own if given is None else _validate_word("tenant", given)


def validate_agent(agent: str) -> str:
    """Return a valid agent name, or an empty one, unchanged; InvalidInput otherwise."""
    return _validate_word("agent", agent) if agent else ""


def expiry(given: str, now: datetime) -> datetime | None:
    """Parse when a token expires: a span such as 90d, or a day; None for an empty text."""
    if not given:
        return None
    span = _SPAN.fullmatch(given)
    try:
        ends = now + int(span[1]) * _UNITS[span[2]] if span else datetime.fromisoformat(given)
    except ValueError:
        ends = now
    ends = ends if ends.tzinfo else ends.replace(tzinfo=UTC)
    if ends <= now:
        valid = "a span such as 12h, 90d or 8w, or a future day such as 2030-12-31"
        raise InvalidInput(f"expires: found {given[:80]!r}; valid is {valid}")
    return ends.astimezone(UTC).replace(microsecond=0)


def _validate_scope(scope: str) -> str:
    cleaned = one_line(normalise_whitespace(scope))
    if cleaned != scope or scope == _NO_SCOPE or not 1 <= len(scope) <= _MAX_SCOPE:
        raise InvalidInput(
            f"scope: found {scope[:80]!r}; valid is global, a butler's name or a project's scope, "
            f"one line of 1 to {_MAX_SCOPE} characters"
        )
    return scope


def _validate_word(field: str, word: str) -> str:
    is_word = word.isprintable() and not any(map(str.isspace, word))
    if not is_word or not 1 <= len(word) <= 200:
        raise InvalidInput(f"{field}: found {word!r}; valid is 1 to 200 characters, no spaces")
    return word


def _validate_note(note: str) -> str:
    if len(note) > 200 or not note.isprintable():
        raise InvalidInput(f"note: found {note[:40]!r}…; valid is one line of 200 characters")
    return note


def _random_token() -> str:
    return f"btl_{secrets.token_urlsafe(32)}"


class SessionTokens:
    """Tokens for the tools of a butler's own sessions; they are never stored, and end with them."""

    def __init__(self) -> None:
        self.url = ""
        """Where this process serves the butler's tools; empty while it does not."""
        self._callers: dict[str, tuple[Caller, float]] = {}

    @contextmanager
    def lent(self, caller: Caller, seconds: float) -> Iterator[ToolServer | None]:
        """Give a session tools as this caller, for the block; None if this process serves none."""
        if not self.url:
            yield None
            return
        token = _random_token()
        digest = digest_of(token)
        self._callers[digest] = (caller, time.monotonic() + seconds)
        try:
            yield ToolServer(self.url, token)
        finally:
            del self._callers[digest]

    def caller(self, token: str) -> Caller | None:
        """Return the caller of a token that is valid; None otherwise."""
        caller, until = self._callers.get(digest_of(token), (None, 0.0))
        return caller if time.monotonic() < until else None
