"""What a token is: everything that is known of it but the token itself."""

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from butlers.errors import InvalidInput
from butlers.kernel.rights import Right
from butlers.kernel.text import normalise_whitespace, one_line
from butlers.module import Caller

_PREFIX = "btl_"
_SPAN = re.compile(r"(\d{1,4})([hdw])")
_LONGEST_SCOPE = 100
# What a question for every scope begins with.
_NO_SCOPE = "*"
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class TokenRecord(BaseModel):
    """What is known of a token: everything but the token."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    butler: str
    tenant: str
    note: str
    digest: str = Field(pattern="^[0-9a-f]{64}$", repr=False)
    created_at: str
    agent: str = ""
    rights: Right = Right.OPERATE
    """One made before tokens had rights may do what it could."""
    expires_at: datetime | None = None
    low_trust: bool = False
    scopes: tuple[str, ...] = ()
    """What alone it opens, beside reading what is global; none for everything."""

    @property
    def caller(self) -> Caller:
        """Whoever holds it, as doors know them."""
        who = f"token:{self.id}"
        return Caller(
            self.tenant,
            who,
            self.agent,
            low_trust=self.low_trust,
            rights=self.rights,
            scopes=self.scopes,
        )

    def has_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now

    def shown(self) -> dict[str, Any]:
        """What a person may see of it."""
        return self.model_dump(mode="json", exclude={"digest"})


def new_token(  # noqa: PLR0913 - whose it is, and what it may do until when
    butler: str,
    tenant: str,
    note: str = "",
    agent: str = "",
    *,
    now: datetime,
    rights: Right = Right.WRITE,
    expires_at: datetime | None = None,
    low_trust: bool = False,
    scopes: Iterable[str] = (),
) -> tuple[TokenRecord, str]:
    """A token that nobody keeps yet, for one agent if one is named, and what is known of it."""
    token = _PREFIX + secrets.token_urlsafe(32)
    record = TokenRecord(
        id=secrets.token_hex(4),
        butler=butler,
        tenant=validate_tenant(tenant),
        note=_one_line(note),
        digest=digest_of(token),
        created_at=now.isoformat(timespec="seconds"),
        agent=validate_agent(agent),
        rights=rights,
        expires_at=expires_at,
        low_trust=low_trust,
        scopes=tuple(dict.fromkeys(map(validate_scope, scopes))),
    )
    return record, token


def validate_tenant(tenant: str) -> str:
    """The tenant itself when it can be one; otherwise InvalidInput."""
    return _validate_word("tenant", tenant)


def acting_tenant(own: str, given: str | None) -> str:
    """The tenant that a door of this machine acts for: the one given, else the butler's own."""
    return own if given is None else validate_tenant(given)


def validate_agent(agent: str) -> str:
    """The agent's name itself when it can be one, or none; otherwise InvalidInput."""
    return _validate_word("agent", agent) if agent else ""


def validate_scope(scope: str) -> str:
    """The scope itself when memories can be stored in it; otherwise InvalidInput."""
    cleaned = one_line(normalise_whitespace(scope))
    if cleaned != scope or scope == _NO_SCOPE or not 1 <= len(scope) <= _LONGEST_SCOPE:
        raise InvalidInput(
            f"scope: found {scope[:80]!r}; valid is global, a butler's name or a project's scope, "
            f"one line of 1 to {_LONGEST_SCOPE} characters"
        )
    return scope


def _validate_word(field: str, word: str) -> str:
    printable = word.isprintable() and not any(character.isspace() for character in word)
    if not printable or not 1 <= len(word) <= 200:
        raise InvalidInput(f"{field}: found {word!r}; valid is 1 to 200 characters, no spaces")
    return word


def expiry(given: str, now: datetime) -> datetime | None:
    """When a token ends: after a span such as 90d, or on a day; None for an empty text."""
    if not given:
        return None
    span = _SPAN.fullmatch(given)
    try:
        ends = now + int(span[1]) * _UNITS[span[2]] if span else datetime.fromisoformat(given)
    except ValueError:
        ends = now
    ends = ends if ends.tzinfo else ends.replace(tzinfo=UTC)
    if ends <= now:
        raise InvalidInput(
            f"expires: found {given[:80]!r}; valid is a span such as 12h, 90d or 8w, or a day to "
            "come such as 2030-12-31"
        )
    return ends.astimezone(UTC).replace(microsecond=0)


def _one_line(note: str) -> str:
    if len(note) > 200 or not note.isprintable():
        raise InvalidInput(f"note: found {note[:40]!r}…; valid is one line of 200 characters")
    return note


def digest_of(token: str) -> str:
    """All that is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
