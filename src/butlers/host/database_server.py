"""The PostgreSQL server behind a home: the embedded one, held while in use, or one by URL."""

import asyncio
from urllib.parse import urlsplit, urlunsplit

from butlers.db.embedded_postgres import EmbeddedPostgres
from butlers.db.migrate import Branch, migrate
from butlers.db.postgres import Access
from butlers.db.provision import RUNTIME_ROLE, embedded_access, external_access, provision
from butlers.host.home import Home
from butlers.host.names import database_name
from butlers.host.settings import DatabaseSection


class DatabaseServer:
    """Gives every butler of a home its database; starts the embedded server when one needs it."""

    def __init__(self, home: Home) -> None:
        self._embedded = EmbeddedPostgres(home.database_directory)
        self._starting = asyncio.Lock()
        self._holding = False

    @property
    def holds_embedded(self) -> bool:
        """Whether this process keeps the embedded server running."""
        return self._holding

    async def prepare(
        self, butler: str, settings: DatabaseSection, branches: list[Branch], targets: list[str]
    ) -> Access:
        """The butler's database exists and is migrated; how to reach it."""
        database = database_name(butler)
        if settings.url:
            access = external_access(settings.url, database)
            await provision(_maintenance(settings.url), database, sign_in=False)
        else:
            await self._hold()
            access = self.embedded_access(butler)
            await provision(self._embedded.dsn(), database, sign_in=True)
        await migrate(access.owner_dsn, branches, targets)
        return access

    def embedded_access(self, butler: str) -> Access:
        """How to reach a butler's database on the embedded server, running or not."""
        database = database_name(butler)
        return embedded_access(
            self._embedded.dsn(database), self._embedded.dsn(database, RUNTIME_ROLE)
        )

    async def revive(self) -> None:
        """Start the embedded server again should it have died; nothing when all is well."""
        if self._holding:
            await asyncio.to_thread(self._embedded.start)

    async def release(self) -> None:
        """Let go of the embedded server; the last process to do so stops it."""
        if self._holding:
            self._holding = False
            await asyncio.to_thread(self._embedded.stop)

    async def _hold(self) -> None:
        async with self._starting:
            if not self._holding:
                await asyncio.to_thread(self._embedded.start)
                self._holding = True


def _maintenance(url: str) -> str:
    """The database to sign in to while the butler's own may not exist yet."""
    parts = urlsplit(url)
    return urlunsplit(parts if parts.path.strip("/") else parts._replace(path="/postgres"))
