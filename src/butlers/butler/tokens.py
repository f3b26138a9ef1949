"""Bearer tokens, each bound to one butler and one tenant; only their hashes are kept."""

import fcntl
import hashlib
import hmac
import json
import re
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from butlers.butler.token_uses import TokenUses
from butlers.clock import Clock, utc_now
from butlers.errors import InvalidInput, NotFound, Unavailable
from butlers.files import replace_file
from butlers.kernel.rights import Right
from butlers.kernel.text import normalise_whitespace, one_line
from butlers.module import Caller

log = structlog.get_logger(__name__)
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


_RECORDS = TypeAdapter(list[TokenRecord])


class TokenStore:
    """The tokens of a home, in one private file that several processes may change."""

    def __init__(self, file: Path, clock: Clock = utc_now) -> None:
        self._file = file
        self._clock = clock
        self._reading = threading.Lock()
        self.uses = TokenUses(file.with_suffix(".used"))
        self._seen: tuple[int, int, int] | None = None
        self._records: tuple[TokenRecord, ...] = ()

    def create(  # noqa: PLR0913 - whose it is, and what it may do until when
        self,
        butler: str,
        tenant: str,
        note: str = "",
        agent: str = "",
        *,
        rights: Right = Right.WRITE,
        expires_at: datetime | None = None,
        low_trust: bool = False,
        scopes: Iterable[str] = (),
    ) -> tuple[TokenRecord, str]:
        """Make a token, for one agent if one is named; it is returned once and kept nowhere."""
        token = _PREFIX + secrets.token_urlsafe(32)
        record = TokenRecord(
            id=secrets.token_hex(4),
            butler=butler,
            tenant=validate_tenant(tenant),
            note=_one_line(note),
            digest=_digest(token),
            created_at=self._clock().isoformat(timespec="seconds"),
            agent=validate_agent(agent),
            rights=rights,
            expires_at=expires_at,
            low_trust=low_trust,
            scopes=tuple(dict.fromkeys(map(validate_scope, scopes))),
        )
        with self._changing() as records:
            records.append(record)
        return record, token

    def revoke(self, token_id: str) -> TokenRecord:
        """Forget a token; whoever holds it is refused from the next request on."""
        with self._changing() as records:
            for record in records:
                if record.id == token_id:
                    records.remove(record)
                    self.uses.forget(record.id)
                    return record
        raise NotFound(f"no token has the id {token_id!r}; `butlers token list` shows them all")

    def all(self) -> tuple[TokenRecord, ...]:
        """Every token's record, oldest first."""
        with self._explained(), self._reading:
            try:
                status = self._file.stat()
            except FileNotFoundError:
                return ()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp != self._seen:
                self._records, self._seen = tuple(self._read()), stamp
            return self._records

    def verify(self, token: str, butler: str) -> TokenRecord | None:
        """The record of a token valid for this butler, or None; None too if none can be read."""
        found = self.identify(token)
        return found if found is not None and found.butler == butler else None

    def identify(self, token: str) -> TokenRecord | None:
        """The record of a token, whichever butler it is for, or None; its use is noted."""
        found, now = self._recognised(token), self._clock()
        if found is None or found.has_expired(now):
            return None
        self.uses.note(found.id, now)
        return found

    def get(self, token_id: str) -> TokenRecord | None:
        """The record of a token that is valid, by its id, or None."""
        now = self._clock()
        valid = (one for one in self.all() if one.id == token_id and not one.has_expired(now))
        return next(valid, None)

    def limit(self, token_id: str, rights: Right) -> None:
        """Let a token be for this from now on."""
        with self._changing() as records:
            records[:] = [
                one.model_copy(update={"rights": rights}) if one.id == token_id else one
                for one in records
            ]

    def refusal(self, token: str) -> str:
        """Why a token that was valid once is no longer, as its holder may be told; else nothing."""
        found = self._recognised(token)
        if found is None or found.expires_at is None or not found.has_expired(self._clock()):
            return ""
        when = f"{found.expires_at:%Y-%m-%d %H:%M}"
        return f"this token expired at {when} UTC; `butlers token new` makes another"

    def _recognised(self, token: str) -> TokenRecord | None:
        """The record of a token, be it one that has expired, or None."""
        digest, found = _digest(token), None
        try:
            records = self.all()
        except Unavailable as error:
            log.error("every caller is refused", reason=str(error))
            return None
        for record in records:
            # No early exit: how long it takes tells nothing about which token came close.
            if hmac.compare_digest(record.digest, digest):
                found = record
        return found

    @contextmanager
    def _changing(self) -> Iterator[list[TokenRecord]]:
        """The records to change, written back whole and at once, one process at a time."""
        with self._explained(), self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            records = self._read()
            yield records
            replace_file(
                self._file, json.dumps([one.model_dump(mode="json") for one in records], indent=1)
            )

    def _read(self) -> list[TokenRecord]:
        try:
            return _RECORDS.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except ValidationError:
            # Not chained: the validator quotes the file.
            raise Unavailable(
                f"{self._file} is damaged; move it away and make new tokens with "
                "`butlers token new`"
            ) from None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"cannot use {self._file} ({error.strerror}); mend its permissions or the disk"
            ) from error


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


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
