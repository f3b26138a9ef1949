"""Tokens that the processes of several homes share, in the database of a butler of theirs.

What serves requests may ask about one by its digest, and in no other way. Who owns the database,
as the login of `database.url` does, makes, lists and revokes them.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from butlers.db.faults import translated_errors
from butlers.db.postgres import Database
from butlers.db.provision import connected, external_access
from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, Touched
from butlers.errors import Unavailable
from butlers.host.token_record import TokenRecord
from butlers.settings.names import database_name

_SQL = load(__file__)

_find = FirstValue[str](_SQL["find"])
_note = Touched(_SQL["note"])
_begin_sign_in = Touched(_SQL["begin_sign_in"])
_find_sign_in = FirstRow(_SQL["find_sign_in"])
_end_sign_in = Touched(_SQL["end_sign_in"])


@dataclass(frozen=True, slots=True)
class KeptToken:
    """A token that is kept, and when it was last used as far as is known."""

    record: TokenRecord
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SignIn:
    """A browser that is signed in with a token."""

    record: TokenRecord
    csrf: str
    expires_at: datetime


async def find(database: Database, digest: str) -> TokenRecord | None:
    """The record of a token, or None."""
    async with database.system_transaction() as tx:
        found = await _find(tx, digest=digest)
    return None if found is None else TokenRecord.model_validate_json(found)


async def note(database: Database, digest: str, now: datetime) -> None:
    """A token is used."""
    async with database.system_transaction() as tx:
        await _note(tx, digest=digest, now=now)


async def begin_sign_in(database: Database, digest: str, signed_in: SignIn, now: datetime) -> None:
    """A browser that has a secret of this digest is signed in."""
    token, until = signed_in.record.digest, signed_in.expires_at
    words = {"digest": digest, "token": token, "csrf": signed_in.csrf}
    async with database.system_transaction() as tx:
        await _begin_sign_in(tx, **words, expires_at=until, now=now)


async def find_sign_in(database: Database, digest: str, now: datetime) -> SignIn | None:
    """The sign-in of a browser, or None."""
    async with database.system_transaction() as tx:
        row = await _find_sign_in(tx, digest=digest, now=now)
    if row is None:
        return None
    record = TokenRecord.model_validate_json(row["record"])
    return SignIn(record, row["csrf"], row["expires_at"])


async def end_sign_in(database: Database, digest: str) -> None:
    """A browser is signed out."""
    async with database.system_transaction() as tx:
        await _end_sign_in(tx, digest=digest)


class SharedTokens:
    """The tokens of one butler on an external server, for who owns its database."""

    def __init__(self, butler: str, url: str) -> None:
        self._butler = butler
        self._dsn = external_access(url, database_name(butler)).owner_dsn

    async def all(self) -> list[KeptToken]:
        """Every token, the oldest first; none where the butler never started."""
        async with self._open() as owner:
            if owner is None:
                return []
            rows = await owner.fetch(_SQL["all"].text)
        read = TokenRecord.model_validate_json
        return [KeptToken(read(row["record"]), row["used_at"]) for row in rows]

    async def add(self, tokens: Iterable[KeptToken]) -> bool:
        """Keep tokens; false where the butler never started, so that nothing can be kept."""
        async with self._open() as owner:
            if owner is None:
                return False
            for one in tokens:
                record = one.record
                values = {"digest": record.digest, "id": record.id, "used_at": one.used_at}
                told = _SQL["add"].bound(**values, record=record.model_dump_json())
                await owner.fetchval(*told)
        return True

    async def revoke(self, token_id: str) -> TokenRecord | None:
        """Forget a token; None where there is no such."""
        async with self._open() as owner:
            gone = owner and await owner.fetchval(*_SQL["revoke"].bound(id=token_id))
        return None if gone is None else TokenRecord.model_validate_json(gone)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[asyncpg.Connection | None]:
        """The database as its owner; None where it has no tokens because nothing started it yet."""
        try:
            async with connected(self._dsn) as owner:
                with translated_errors():
                    yield owner if await owner.fetchval(_SQL["is_there"].text) else None
        except Unavailable as error:
            if not isinstance(error.__cause__, asyncpg.InvalidCatalogNameError):
                raise Unavailable(f"the tokens of butler {self._butler}: {error}") from error
            yield None
