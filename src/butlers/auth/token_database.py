"""Tokens and sign-ins in the database of one butler, shared by every process that serves it.

A process that serves requests may only look a token up by its digest. The owner of the database,
the login of `database.url`, adds, lists and revokes tokens.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import asyncpg

from butlers.auth.tokens import TokenRecord, TokenUsage
from butlers.db.driver_errors import translated_errors
from butlers.db.postgres import Database
from butlers.db.primary_connector import connected
from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, Touched
from butlers.errors import Unavailable

_SQL = load(__file__)
T = TypeVar("T")

_find = FirstValue[str](_SQL["find"])
_note_use = Touched(_SQL["note_use"])
_begin_sign_in = Touched(_SQL["begin_sign_in"])
_find_sign_in = FirstRow(_SQL["find_sign_in"])
_end_sign_in = Touched(_SQL["end_sign_in"])


@dataclass(frozen=True, slots=True)
class SignIn:
    """A browser that is signed in with a token."""

    record: TokenRecord
    csrf: str
    expires_at: datetime


class TokenDatabase:
    """The tokens of one butler on an external server."""

    def __init__(
        self, butler: str, owner_dsn: str, database: Callable[[], Database | None] = lambda: None
    ) -> None:
        """`database`: the butler's database while this process serves it."""
        self.butler = butler
        self._owner_dsn = owner_dsn
        self._served = database

    @property
    def is_open(self) -> bool:
        """Whether this process serves the butler."""
        return self._served() is not None

    async def _run(self, statement: Callable[..., Awaitable[T]], **values: Any) -> T:
        """Run a statement in the served database; Unavailable while this process serves none."""
        database = self._served()
        if database is None:
            raise Unavailable(f"the database of butler {self.butler} is not open")
        async with database.system_transaction() as tx:
            return await statement(tx, **values)

    async def find(self, digest: str) -> TokenRecord | None:
        """Return the record of a token; None if there is none."""
        row = await self._run(_find, digest=digest)
        return None if row is None else TokenRecord.model_validate_json(row)

    async def note_use(self, digest: str, now: datetime) -> None:
        """Note that a token is used."""
        await self._run(_note_use, digest=digest, now=now)

    async def begin_sign_in(self, digest: str, sign_in: SignIn, now: datetime) -> None:
        """Sign in the browser whose secret has this digest."""
        values = {"digest": digest, "token": sign_in.record.digest, "csrf": sign_in.csrf}
        await self._run(_begin_sign_in, **values, expires_at=sign_in.expires_at, now=now)

    async def find_sign_in(self, digest: str, now: datetime) -> SignIn | None:
        """Return the sign-in of a browser; None if it is not signed in."""
        row = await self._run(_find_sign_in, digest=digest, now=now)
        if row is None:
            return None
        record = TokenRecord.model_validate_json(row["record"])
        return SignIn(record, row["csrf"], row["expires_at"])

    async def end_sign_in(self, digest: str) -> None:
        """Sign a browser out."""
        await self._run(_end_sign_in, digest=digest)

    async def all(self) -> list[TokenUsage]:
        """Return every token, oldest first; none if the butler never started."""
        async with self._as_owner() as owner:
            rows = await owner.fetch(_SQL["all"].text) if owner else []
        read = TokenRecord.model_validate_json
        return [TokenUsage(read(row["record"]), row["used_at"]) for row in rows]

    async def add(self, tokens: Iterable[TokenUsage]) -> bool:
        """Store tokens; false, with nothing stored, if the butler never started."""
        async with self._as_owner() as owner:
            if owner is None:
                return False
            for token in tokens:
                values = {"digest": token.record.digest, "id": token.record.id}
                record = token.record.model_dump_json()
                await owner.fetchval(
                    *_SQL["add"].bound(**values, record=record, used_at=token.used_at)
                )
        return True

    async def revoke(self, token_id: str) -> TokenRecord | None:
        """Delete a token; None if there is none."""
        async with self._as_owner() as owner:
            row = owner and await owner.fetchval(*_SQL["revoke"].bound(id=token_id))
        return None if row is None else TokenRecord.model_validate_json(row)

    @asynccontextmanager
    async def _as_owner(self) -> AsyncIterator[asyncpg.Connection | None]:
        """Connect as the database's owner; None while it has no table for tokens."""
        try:
            async with connected(self._owner_dsn) as owner:
                with translated_errors():
                    yield owner if await owner.fetchval(_SQL["is_there"].text) else None
        except Unavailable as error:
            if not isinstance(error.__cause__, asyncpg.InvalidCatalogNameError):
                raise Unavailable(f"the tokens of butler {self.butler}: {error}") from error
            yield None
