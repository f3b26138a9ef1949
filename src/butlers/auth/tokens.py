"""Bearer tokens and the private file of their records; the token itself is never stored."""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from butlers.atomic_files import replace_file
from butlers.auth.rights import Caller, Right
from butlers.auth.token_grant import TokenGrant
from butlers.clock import Clock, utc_now
from butlers.errors import NotFound, Unavailable
from butlers.llm import ToolServer

log = structlog.get_logger(__name__)
HOOKS_NOTE, COMMANDS_NOTE = "hooks of agents", "commands of this home"
"""The notes of the tokens that a home makes for itself."""
_BETWEEN_NOTES = timedelta(minutes=1)


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
            may_decide=self.may_decide,
        )

    @property
    def may_decide(self) -> bool:
        """Whether it is an operator token that a person made; those of the home itself are not."""
        is_limited = self.low_trust or self.scopes or self.is_private
        return self.rights is Right.OPERATE and not is_limited

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


def digest_of(token: str) -> str:
    """Hash a token; only the hash is stored."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def new_token(butler: str, grant: TokenGrant, now: datetime) -> tuple[TokenRecord, str]:
    """Make a token and its record, which is not stored yet; InvalidInput names a wrong field."""
    token = _random_token()
    fields = asdict(grant.checked()) | {
        "id": secrets.token_hex(4),
        "created_at": now.isoformat(timespec="seconds"),
    }
    return TokenRecord(butler=butler, digest=digest_of(token), **fields), token


def _random_token() -> str:
    return f"btl_{secrets.token_urlsafe(32)}"


_RECORDS = TypeAdapter(list[TokenRecord])


class TokenFile:
    """Tokens in one private file that several processes may change.

    The time of an empty file beside it, one for each token, is when the token was last used.
    """

    def __init__(self, file: Path, clock: Clock = utc_now) -> None:
        self._file = file
        self._clock = clock
        self._reading = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._records: tuple[TokenRecord, ...] = ()
        self._uses = file.with_suffix(".used")
        self._uses_noted: dict[str, datetime] = {}

    def create(
        self, butler: str, tenant: str, note: str = "", **grant: Any
    ) -> tuple[TokenRecord, str]:
        """Make a token from the fields of `TokenGrant` and store its record."""
        record, token = new_token(butler, TokenGrant(tenant, note, **grant), self._clock())
        self.add([record])
        return record, token

    def add(self, records: Iterable[TokenRecord]) -> None:
        """Store records of new tokens."""
        with self._changing() as stored:
            stored.extend(records)

    def revoke(self, token_id: str) -> TokenRecord:
        """Delete a token; its holder is refused from the next request on."""
        with self._changing() as records:
            for record in records:
                if record.id == token_id:
                    records.remove(record)
                    with suppress(OSError):
                        (self._uses / token_id).unlink()
                    return record
        raise NotFound(f"no token has the id {token_id!r}; `butlers token list` shows them all")

    def limit(self, token_id: str, rights: Right) -> None:
        """Change the rights of a token."""
        with self._changing() as records:
            records[:] = [
                record.model_copy(update={"rights": rights}) if record.id == token_id else record
                for record in records
            ]

    def all(self) -> tuple[TokenRecord, ...]:
        """Return every token's record, oldest first."""
        try:
            with self._reading:
                status = self._file.stat()
                stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
                if stamp != self._stamp:
                    self._records, self._stamp = tuple(self._read()), stamp
                return self._records
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._unusable(error) from error

    def usage(self, record: TokenRecord) -> TokenUsage:
        """Return a token with its last use, to the minute."""
        try:
            used = (self._uses / record.id).stat().st_mtime
        except OSError:
            return TokenUsage(record)
        return TokenUsage(record, datetime.fromtimestamp(used, UTC))

    def verify(self, token: str, butler: str | None = None) -> TokenRecord | None:
        """Return the record of a valid token, of one butler if named, and note its use."""
        record, now = self.find(digest_of(token)), self._clock()
        if record is None or butler not in (None, record.butler):
            return None
        if record.expires_at is not None and record.has_expired(now):
            return None
        noted = self._uses_noted.get(record.id)
        if noted is None or now - noted >= _BETWEEN_NOTES:
            self.note_use(record, now)
        return record

    def refusal(self, token: str) -> str:
        """Tell the holder of an expired token when it expired; empty for any other token."""
        record = self.find(digest_of(token))
        if record is None or record.expires_at is None or not record.has_expired(self._clock()):
            return ""
        when = f"{record.expires_at:%Y-%m-%d %H:%M}"
        return f"this token expired at {when} UTC; `butlers token new` makes another"

    def find(self, digest: str) -> TokenRecord | None:
        """Return a token's record, even if it has expired; an unreadable file has none."""
        records: tuple[TokenRecord, ...] = ()
        try:
            records = self.all()
        except Unavailable as error:
            log.error("every caller is refused", reason=str(error))
        # All are compared: how long it takes tells nothing about which token came close.
        matches = [record for record in records if hmac.compare_digest(record.digest, digest)]
        return matches[-1] if matches else self._find_elsewhere(digest)

    def _find_elsewhere(self, digest: str) -> TokenRecord | None:
        """Return the record of a token that is not in the file; a file alone knows none."""
        return None

    def note_use(self, record: TokenRecord, now: datetime) -> None:
        """Note that a token is used; a failure to write refuses nobody."""
        self._uses_noted[record.id] = now
        with suppress(OSError):
            self._uses.mkdir(mode=0o700, exist_ok=True)
            file = self._uses / record.id
            file.touch(mode=0o600)
            os.utime(file, (now.timestamp(), now.timestamp()))

    @contextmanager
    def _changing(self) -> Iterator[list[TokenRecord]]:
        """Lock the file, yield its records to change, and replace the file in one step."""
        try:
            with self._file.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                records = self._read()
                yield records
                rows = [record.model_dump(mode="json") for record in records]
                replace_file(self._file, json.dumps(rows, indent=1))
        except OSError as error:
            raise self._unusable(error) from error

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

    def _unusable(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"cannot use {self._file} ({error.strerror}); check its permissions and the disk"
        )


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
