"""Tokens in a home's private file."""

import fcntl
import hmac
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from pydantic import TypeAdapter, ValidationError

from butlers.atomic_files import replace_file
from butlers.auth.rights import Right
from butlers.auth.tokens import TokenGrant, TokenRecord, TokenUsage, digest_of, new_token
from butlers.clock import Clock, utc_now
from butlers.errors import NotFound, Unavailable

log = structlog.get_logger(__name__)
_RECORDS = TypeAdapter(list[TokenRecord])
_BETWEEN_NOTES = timedelta(minutes=1)


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
        with self._explained(), self._reading:
            try:
                status = self._file.stat()
            except FileNotFoundError:
                return ()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp != self._stamp:
                self._records, self._stamp = tuple(self._read()), stamp
            return self._records

    def usage(self, record: TokenRecord) -> TokenUsage:
        """Return a token with its last use, to the minute."""
        try:
            used = (self._uses / record.id).stat().st_mtime
        except OSError:
            return TokenUsage(record)
        return TokenUsage(record, datetime.fromtimestamp(used, UTC))

    def verify(self, token: str, butler: str) -> TokenRecord | None:
        """Return the record of a token valid for a butler; None otherwise."""
        record = self.identify(token)
        return record if record is not None and record.butler == butler else None

    def identify(self, token: str) -> TokenRecord | None:
        """Return the record of a valid token of any butler, and note its use; None otherwise."""
        record, now = self.find(digest_of(token)), self._clock()
        if record is None or record.has_expired(now):
            return None
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
        """Return a token's record, even if it has expired; None too if the file is unreadable."""
        try:
            records = self.all()
        except Unavailable as error:
            log.error("every caller is refused", reason=str(error))
            return None
        # All are compared: how long it takes tells nothing about which token came close.
        matches = [record for record in records if hmac.compare_digest(record.digest, digest)]
        return matches[-1] if matches else None

    def note_use(self, record: TokenRecord, now: datetime) -> None:
        """Note that a token is used; a failure to write refuses nobody."""
        noted = self._uses_noted.get(record.id)
        if noted is not None and now - noted < _BETWEEN_NOTES:
            return
        self._uses_noted[record.id] = now
        with suppress(OSError):
            self._uses.mkdir(mode=0o700, exist_ok=True)
            file = self._uses / record.id
            file.touch(mode=0o600)
            os.utime(file, (now.timestamp(), now.timestamp()))

    @contextmanager
    def _changing(self) -> Iterator[list[TokenRecord]]:
        """Lock the file, yield its records to change, and replace the file in one step."""
        with self._explained(), self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            records = self._read()
            yield records
            rows = [record.model_dump(mode="json") for record in records]
            replace_file(self._file, json.dumps(rows, indent=1))

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
                f"cannot use {self._file} ({error.strerror}); check its permissions and the disk"
            ) from error
