"""Bearer tokens, each bound to one butler and one tenant; only their hashes are kept."""

import fcntl
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from butlers.butler.home import Home
from butlers.clock import Clock, utc_now
from butlers.errors import InvalidInput, NotFound, Unavailable
from butlers.files import replace_file

log = structlog.get_logger(__name__)
_PREFIX = "btl_"
_OF_HOOKS, _OF_COMMANDS = "hooks of agents", "commands of this home"
"""What is said of the tokens that lie in private files of the home."""


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

    def shown(self) -> dict[str, str]:
        """What a person may see of it."""
        return self.model_dump(exclude={"digest"})


_RECORDS = TypeAdapter(list[TokenRecord])


class TokenStore:
    """The tokens of a home, in one private file that several processes may change."""

    def __init__(self, file: Path, clock: Clock = utc_now) -> None:
        self._file = file
        self._clock = clock
        self._reading = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._records: tuple[TokenRecord, ...] = ()

    def create(
        self, butler: str, tenant: str, note: str = "", agent: str = ""
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
        """The record of a token, whichever butler it is for, or None."""
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
            replace_file(self._file, json.dumps([one.model_dump() for one in records], indent=1))

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


def ensure_hook_token(home: Home, butler: str, tenant: str) -> bool:
    """See to it that hooks have a token that is valid; true when this call made one."""
    return _ensure(home, home.hook_token_file(butler), butler, tenant, _OF_HOOKS)


def renew_private_tokens(home: Home, butler: str, tenant: str) -> None:
    """Hooks have a token of their own anew; those nobody holds any more are forgotten."""
    store = TokenStore(home.tokens_file)
    for record in store.all():
        if record.butler == butler and record.note in (_OF_HOOKS, _OF_COMMANDS):
            store.revoke(record.id)
    ensure_hook_token(home, butler, tenant)


def command_token(home: Home, butler: str, tenant: str) -> str:
    """The token with which commands of this home call the process that serves it."""
    file = home.command_token_file(butler)
    _ensure(home, file, butler, tenant, _OF_COMMANDS)
    return file.read_text("utf-8").strip()


def _ensure(home: Home, file: Path, butler: str, tenant: str, note: str) -> bool:
    """See to it that a private file holds a token that is valid; true when this call made one."""
    store = TokenStore(home.tokens_file)
    try:
        known = store.verify(file.read_text("utf-8").strip(), butler) if file.exists() else None
        if known is not None and known.tenant == tenant:
            return False
        file.parent.mkdir(mode=0o700, exist_ok=True)
        _, token = store.create(butler, tenant, note)
        replace_file(file, f"{token}\n")
    except OSError as error:
        raise Unavailable(
            f"cannot write {file} ({error.strerror}); mend its permissions"
        ) from error
    return True


def validate_tenant(tenant: str) -> str:
    """The tenant itself when it can be one; otherwise InvalidInput."""
    return _validate_word("tenant", tenant)


def acting_tenant(own: str, given: str | None) -> str:
    """The tenant that a door of this machine acts for: the one given, else the butler's own."""
    return own if given is None else validate_tenant(given)


def validate_agent(agent: str) -> str:
    """The agent's name itself when it can be one, or none; otherwise InvalidInput."""
    return _validate_word("agent", agent) if agent else ""


def _validate_word(field: str, word: str) -> str:
    printable = word.isprintable() and not any(character.isspace() for character in word)
    if not printable or not 1 <= len(word) <= 200:
        raise InvalidInput(f"{field}: found {word!r}; valid is 1 to 200 characters, no spaces")
    return word


def _one_line(note: str) -> str:
    if len(note) > 200 or not note.isprintable():
        raise InvalidInput(f"note: found {note[:40]!r}…; valid is one line of 200 characters")
    return note


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
