"""The tokens of a home: one interface over its file and its butlers' databases.

A butler on an external server stores its tokens in its database, so that every process that serves
it knows them. The home's file holds those that must work without a database: tokens of butlers on
the embedded server, tokens the home makes for itself, and tokens made before a butler's first
start, which `adopt` moves.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import structlog

from butlers.auth.token_database import SignIn, TokenDatabase
from butlers.auth.tokens import TokenFile, TokenRecord, TokenUsage, digest_of
from butlers.clock import Clock, utc_now
from butlers.errors import ButlersError, NotFound, Unavailable
from butlers.kernel.lru import LRUCache

log = structlog.get_logger(__name__)
FRESH_SECONDS = 1.0
"""How long a database's answer counts: a token revoked anywhere is then refused everywhere."""
# A request that takes long to arrive still finds the answer from its beginning.
_CACHE_ENTRIES, _CACHE_MS = 4_096, 600_000
_BETWEEN_NOTES_MS = 60_000

T = TypeVar("T", TokenRecord, SignIn)


class TokenStore(TokenFile):
    """The tokens of a home; methods that are not async use its file alone, or cached answers."""

    def __init__(
        self, file: Path, clock: Clock = utc_now, databases: Iterable[TokenDatabase] = ()
    ) -> None:
        super().__init__(file, clock)
        self._databases = {database.butler: database for database in databases}
        self.has_databases = bool(self._databases)
        """Whether a token may be outside the file, and is refreshed before it is verified."""
        # By digest: the record that the databases returned, and when.
        self._cache: LRUCache[tuple[TokenRecord | None, float]] = LRUCache(
            _CACHE_ENTRIES, _CACHE_MS
        )
        self._noted: LRUCache[bool] = LRUCache(_CACHE_ENTRIES, _BETWEEN_NOTES_MS)
        self._lookups: dict[str, asyncio.Task[None]] = {}

    async def keep(self, record: TokenRecord) -> None:
        """Store a new token where every process that serves its butler finds it."""
        database = self._databases.get(record.butler)
        if database is None or not await database.add([TokenUsage(record)]):
            self.add([record])

    async def list_all(self) -> list[TokenUsage]:
        """Return every token: those of the file first, each oldest first."""
        tokens = [self.usage(record) for record in self.all()]
        for database in self._databases.values():
            tokens += await database.all()
        return tokens

    async def revoke_anywhere(self, token_id: str) -> TokenRecord:
        """Delete a token from the file or a database; NotFound if neither has it."""
        if not any(record.id == token_id for record in self.all()):
            for database in self._databases.values():
                record = await database.revoke(token_id)
                if record is not None:
                    return record
        return self.revoke(token_id)

    async def adopt(self) -> None:
        """Move tokens from the file to the databases of open butlers."""
        for database in self._databases.values():
            records = [r for r in self.all() if r.butler == database.butler and not r.is_private]
            if records and database.is_open:
                try:
                    await self._move(database, records)
                except ButlersError as error:
                    log.warning("tokens stay in the file", butler=database.butler, error=str(error))

    async def _move(self, database: TokenDatabase, records: Sequence[TokenRecord]) -> None:
        """Store, then delete: interrupted in between, both places have the same token."""
        if await database.add(map(self.usage, records)):
            for record in records:
                with suppress(NotFound):  # another process of this home does the same just now
                    self.revoke(record.id)

    async def refresh(self, token: str) -> None:
        """Look a token up in the databases, unless the file or a fresh answer has it.

        Callers at the same time share one lookup. Unavailable if a database cannot answer.
        """
        digest = digest_of(token)
        cached = self._cache.get(digest)
        is_fresh = cached is not None and time.monotonic() - cached[1] < FRESH_SECONDS
        if not (token and self.has_databases) or is_fresh or self._is_in_file(digest):
            return
        lookup = self._lookups.get(digest)
        if lookup is None:
            lookup = self._lookups[digest] = asyncio.create_task(self._look_up(digest))
            lookup.add_done_callback(lambda _: self._lookups.pop(digest))
        await asyncio.shield(lookup)

    async def begin_sign_in(self, digest: str, sign_in: SignIn) -> bool:
        """Share a sign-in with every process that serves the butler; false if it has no
        database for that."""
        database = self._databases.get(sign_in.record.butler)
        if database is None or self._is_in_file(sign_in.record.digest):
            return False
        await database.begin_sign_in(digest, sign_in, self._clock())
        return True

    async def find_sign_in(self, digest: str) -> SignIn | None:
        """Return the sign-in of a browser at any process, and cache its token."""
        now = self._clock()
        sign_in = await self._first(lambda database: database.find_sign_in(digest, now))
        if sign_in is not None:
            self._cache.set(sign_in.record.digest, (sign_in.record, time.monotonic()))
        return sign_in

    async def end_sign_in(self, digest: str) -> None:
        """Sign a browser out at every process."""
        for database in self._databases.values():
            if database.is_open:
                await database.end_sign_in(digest)

    def _find_elsewhere(self, digest: str) -> TokenRecord | None:
        """Return the record that a database returned, from the cache, even if it has expired."""
        cached, _ = self._cache.get(digest) or (None, 0.0)
        return cached

    def note_use(self, record: TokenRecord, now: datetime) -> None:
        """Note that a token of the file is used; a lookup notes it in a database."""
        if self._is_in_file(record.digest):
            super().note_use(record, now)

    def _is_in_file(self, digest: str) -> bool:
        record = self.find(digest)
        return record is not None and record is not self._find_elsewhere(digest)

    async def _look_up(self, digest: str) -> None:
        asked_at = time.monotonic()
        record = await self._first(lambda database: database.find(digest))
        self._cache.set(digest, (record, asked_at))
        if record is not None and self._noted.get(digest) is None:
            self._noted.set(digest, True)
            # Nobody is refused because the use of a token cannot be written down.
            with suppress(ButlersError):
                await self._databases[record.butler].note_use(digest, self._clock())

    async def _first(self, ask: Callable[[TokenDatabase], Awaitable[T | None]]) -> T | None:
        """Return what a database answers about its own butler; Unavailable if one cannot."""
        databases = [database for database in self._databases.values() if database.is_open]
        answers = await asyncio.gather(*map(ask, databases), return_exceptions=True)
        for database, answer in zip(databases, answers, strict=True):
            if answer is None or isinstance(answer, BaseException):
                continue
            record = answer.record if isinstance(answer, SignIn) else answer
            # The owner of one database could write records of another butler there.
            if record.butler == database.butler:
                return answer
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        if len(databases) < len(self._databases):
            raise Unavailable(
                "a butler's database does not answer, so its tokens cannot be checked; try again"
            )
        return None
