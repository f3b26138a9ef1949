"""Bearer tokens, each bound to one butler and one tenant; only their hashes are kept."""

import fcntl
import hmac
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from pydantic import TypeAdapter, ValidationError

from butlers.clock import Clock, utc_now
from butlers.errors import NotFound, Unavailable
from butlers.files import replace_file
from butlers.host.shared_tokens import SignIn
from butlers.host.token_record import TokenRecord, digest_of, new_token
from butlers.host.token_uses import TokenUses
from butlers.kernel.rights import Right

log = structlog.get_logger(__name__)
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

    def create(
        self, butler: str, tenant: str, *words: str, **limits: Any
    ) -> tuple[TokenRecord, str]:
        """Make a token, as `new_token` does; it is returned once and kept nowhere."""
        record, token = new_token(butler, tenant, *words, now=self._clock(), **limits)
        self.add([record])
        return record, token

    def add(self, given: Iterable[TokenRecord]) -> None:
        """Keep tokens that were made."""
        with self._changing() as records:
            records.extend(given)

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
        found, now = self.recorded(digest_of(token)), self._clock()
        if found is None or found.has_expired(now):
            return None
        self.note(found, now)
        return found

    def note(self, found: TokenRecord, now: datetime) -> None:
        """A token is used."""
        self.uses.note(found.id, now)

    def recorded(self, digest: str) -> TokenRecord | None:
        """The record of a token by its digest, be it one that has expired, or None."""
        found = None
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

    async def learn(self, token: str) -> None:
        """Ask others about a token, where tokens are shared; a home by itself asks nobody."""

    async def begin_sign_in(self, digest: str, signed_in: SignIn) -> bool:
        """Share a sign-in; a home by itself has nobody to share it with."""
        return False

    async def find_sign_in(self, digest: str) -> SignIn | None:
        """The sign-in of a browser elsewhere; a home by itself knows of none."""
        return None

    async def end_sign_in(self, digest: str) -> None:
        """A browser is signed out everywhere."""

    def limit(self, token_id: str, rights: Right) -> None:
        """Let a token be for this from now on."""
        with self._changing() as records:
            records[:] = [
                one.model_copy(update={"rights": rights}) if one.id == token_id else one
                for one in records
            ]

    def refusal(self, token: str) -> str:
        """Why a token that was valid once is no longer, as its holder may be told; else nothing."""
        found = self.recorded(digest_of(token))
        if found is None or found.expires_at is None or not found.has_expired(self._clock()):
            return ""
        when = f"{found.expires_at:%Y-%m-%d %H:%M}"
        return f"this token expired at {when} UTC; `butlers token new` makes another"

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
