"""What a new token is for, and the checks of what a caller asks for."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from butlers.auth.rights import Right
from butlers.errors import InvalidInput
from butlers.kernel.secrets import masked
from butlers.kernel.text import normalise_whitespace, one_line

_SPAN = re.compile(r"(\d{1,4})([hdw])")
_MAX_SCOPE = 100
# A query for every scope begins with it.
_NO_SCOPE = "*"
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


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

    def checked(self) -> "TokenGrant":
        """Return it with each scope once; InvalidInput names a wrong field."""
        return replace(
            self,
            tenant=_validate_word("tenant", self.tenant),
            note=_validate_note(self.note),
            agent=validate_agent(self.agent),
            scopes=tuple(dict.fromkeys(map(_validate_scope, self.scopes))),
        )


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
    return masked(note).text
