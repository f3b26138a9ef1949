"""Every token that opens something of a home that is served.

Those of the home's file, and those that butlers on external servers share through their databases.
What a database said of a token counts for a second: after that it is asked again, so that a token
revoked anywhere is refused everywhere.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from butlers.clock import Clock, utc_now
from butlers.db.postgres import Database
from butlers.errors import ButlersError, Unavailable
from butlers.host import shared_tokens
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.host.shared_tokens import SignIn
from butlers.host.token_record import TokenRecord, digest_of
from butlers.host.tokens import TokenStore
from butlers.kernel.lru import LRUCache

FRESH_SECONDS = 1.0
# A request that is long in coming still finds what was said at its beginning.
_MOST_TOLD, _TOLD_LIVE_MS = 4_096, 600_000
_BETWEEN_NOTES_SECONDS = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _CachedToken:
    """What databases said of a token, and when."""

    record: TokenRecord | None
    at: float


class HouseTokens(TokenStore):
    """The tokens of a home that is served, shared ones among them."""

    def __init__(self, home: Home, butlers: Mapping[str, Butler], clock: Clock = utc_now) -> None:
        super().__init__(home.tokens_file, clock)
        self._sharing = {n: one for n, one in butlers.items() if one.settings.database.url}
        self._told: LRUCache[_CachedToken] = LRUCache(_MOST_TOLD, _TOLD_LIVE_MS)
        self._noted: LRUCache[bool] = LRUCache(_MOST_TOLD, _BETWEEN_NOTES_SECONDS * 1000)
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def learn(self, token: str) -> None:
        """Have databases asked about a token that the file does not know; Unavailable if none can.

        Whoever comes while they are asked waits for the same answer.
        """
        digest = digest_of(token)
        told = self._told.get(digest)
        is_fresh = told is not None and time.monotonic() - told.at < FRESH_SECONDS
        if not (token and self._sharing) or is_fresh or self._recorded(digest) is not None:
            return
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = asyncio.create_task(self._ask(digest))
            asking.add_done_callback(lambda _: self._asking.pop(digest))
        await asyncio.shield(asking)

    async def begin_sign_in(self, digest: str, signed_in: SignIn) -> bool:
        """Share a sign-in with every process that serves the butler; false where it is not."""
        butler = self._sharing.get(signed_in.record.butler)
        if butler is None or self._recorded(signed_in.record.digest) is not None:
            return False
        await shared_tokens.begin_sign_in(butler.database, digest, signed_in, self._clock())
        return True

    async def find_sign_in(self, digest: str) -> SignIn | None:
        """The sign-in of a browser at any process; its token is known from now on."""
        now = self._clock()
        found = await self._first(lambda one: shared_tokens.find_sign_in(one, digest, now), _whose)
        if found is not None:
            self._told.set(found.record.digest, _CachedToken(found.record, time.monotonic()))
        return found

    async def end_sign_in(self, digest: str) -> None:
        """A browser is signed out everywhere."""
        for butler in self._open():
            await shared_tokens.end_sign_in(butler.database, digest)

    def recorded(self, digest: str) -> TokenRecord | None:
        """The record of a token by its digest, be it one that has expired, or None."""
        told = self._told.get(digest)
        return self._recorded(digest) or (told.record if told is not None else None)

    def note(self, found: TokenRecord, now: datetime) -> None:
        """A token is used; of a shared one, the database is told when it is asked."""
        if self._recorded(found.digest) is not None:
            super().note(found, now)

    def _recorded(self, digest: str) -> TokenRecord | None:
        return super().recorded(digest)

    def _open(self) -> list[Butler]:
        return [butler for butler in self._sharing.values() if butler.is_open]

    async def _ask(self, digest: str) -> None:
        asked_at = time.monotonic()
        found = await self._first(lambda one: shared_tokens.find(one, digest), _record)
        self._told.set(digest, _CachedToken(found, asked_at))
        if found is not None and self._noted.get(digest) is None:
            self._noted.set(digest, True)
            # Nobody is refused because the use of a token cannot be written down.
            with suppress(ButlersError):
                database = self._sharing[found.butler].database
                await shared_tokens.note(database, digest, self._clock())

    async def _first(
        self,
        ask: Callable[[Database], Awaitable[T | None]],
        record: Callable[[T], TokenRecord],
    ) -> T | None:
        """What one of the databases knows, of its own butler; Unavailable if one could not say."""
        butlers = self._open()
        asked = [ask(butler.database) for butler in butlers]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for butler, found in zip(butlers, answers, strict=True):
            if found is None or isinstance(found, BaseException):
                continue
            # Who owns one database could write there of another butler.
            if record(found).butler == butler.name:
                return found
        for found in answers:
            if isinstance(found, BaseException):
                raise found
        if len(butlers) < len(self._sharing):
            raise Unavailable("a butler's database is away, so that not every token is known")
        return None


def _record(one: TokenRecord) -> TokenRecord:
    return one


def _whose(one: SignIn) -> TokenRecord:
    return one.record
