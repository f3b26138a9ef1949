"""Bearer tokens, each bound to one butler and one tenant; only their hashes are kept."""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from butlers.clock import Clock, utc_now
from butlers.errors import InvalidInput, NotFound, Unavailable

_PREFIX = "btl_"


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is known of a token: everything but the token."""

    id: str
    butler: str
    tenant: str
    note: str
    digest: str
    created_at: str


class TokenStore:
    """The tokens of a home, in one private file that several processes may change."""

    def __init__(self, file: Path, clock: Clock = utc_now) -> None:
        self._file = file
        self._clock = clock
        self._reading = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._records: tuple[TokenRecord, ...] = ()

    def create(self, butler: str, tenant: str, note: str = "") -> tuple[TokenRecord, str]:
        """Make a token; it is returned once and kept nowhere."""
        validate_tenant(tenant)
        token = _PREFIX + secrets.token_urlsafe(32)
        created_at = self._clock().isoformat(timespec="seconds")
        identifier = secrets.token_hex(4)
        record = TokenRecord(identifier, butler, tenant, note, _digest(token), created_at)
        with self._changing() as records:
            records.append(record)
        return record, token

    def revoke(self, token_id: str) -> TokenRecord:
        """Forget a token; whoever holds it is refused from the next request on."""
        with self._changing() as records:
            for record in records:
                if record.id == token_id:
                    records.remove(record)
                    return record
        raise NotFound(f"no token has the id {token_id!r}; `butlers token list` shows them all")

    def all(self) -> tuple[TokenRecord, ...]:
        """Every token's record, oldest first."""
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return ()
        stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        with self._reading:
            if stamp != self._seen:
                self._records, self._seen = tuple(self._read()), stamp
            return self._records

    def verify(self, token: str, butler: str) -> TokenRecord | None:
        """The record of a token valid for this butler, or None."""
        digest, found = _digest(token), None
        for record in self.all():
            # No early exit: how long it takes tells nothing about which token came close.
            if hmac.compare_digest(record.digest, digest) and record.butler == butler:
                found = record
        return found

    @contextmanager
    def _changing(self) -> Iterator[list[TokenRecord]]:
        """The records to change, written back whole and at once, one process at a time."""
        with self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            records = self._read()
            yield records
            self._write(records)

    def _read(self) -> list[TokenRecord]:
        try:
            entries = json.loads(self._file.read_text(encoding="utf-8"))
            return [TokenRecord(**entry) for entry in entries]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError) as error:
            raise Unavailable(
                f"{self._file} is damaged; move it away and make new tokens with "
                "`butlers token new`"
            ) from error

    def _write(self, records: list[TokenRecord]) -> None:
        draft = self._file.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump([asdict(record) for record in records], file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)


def validate_tenant(tenant: str) -> str:
    """The tenant itself when it can be one; otherwise InvalidInput."""
    printable = tenant.isprintable() and not any(character.isspace() for character in tenant)
    if not printable or not 1 <= len(tenant) <= 200:
        raise InvalidInput(f"tenant: found {tenant!r}; valid is 1 to 200 characters, no spaces")
    return tenant


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
