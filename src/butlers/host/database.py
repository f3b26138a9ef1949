"""The PostgreSQL server behind a home: the embedded one, held while in use, or one by URL."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from urllib.parse import quote

import structlog

from butlers.db.address import maintenance_url, signed_in_like, without_login
from butlers.db.branch import Branch
from butlers.db.connection_quota import ConnectionQuota, quota_of
from butlers.db.embedded.configuration import MAX_CONNECTIONS
from butlers.db.embedded.liveness import SocketReply, ask, read_pid_file
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.lease import to_its_end
from butlers.db.login import login_of, own_login
from butlers.db.migrate import migrate
from butlers.db.postgres import Access, Database
from butlers.db.primary_connector import connected
from butlers.db.provision import external_access, provision
from butlers.db.queries import load
from butlers.db.statements import FirstRow, Touched
from butlers.db.template import copy_template
from butlers.errors import ButlersError, Unavailable
from butlers.extension import extension
from butlers.host.home import Home
from butlers.settings.files import load_home
from butlers.settings.names import database_name
from butlers.settings.sections import DatabaseSection, HomeDatabaseSection

log = structlog.get_logger(__name__)
POOL_MAX = 10
_WATCH_SECONDS = 2.0
_LATER = (
    "database.memory takes effect when the database server next starts: stop every process of "
    "this home that uses it first"
)


class DatabaseServer:
    """Gives every butler of a home its database; starts the embedded server when one needs it."""

    def __init__(self, home: Home, butlers: int = 1) -> None:
        """`butlers`: how many will ask for their database."""
        self.home = home
        self._butlers = butlers
        self._embedded = EmbeddedPostgres(home.database_directory)
        self._starting = asyncio.Lock()
        self._holding = False
        self._quotas: dict[str, ConnectionQuota] = {}

    @cached_property
    def _settings(self) -> HomeDatabaseSection:
        return load_home(self.home.settings_file).database

    async def prepare(
        self, butler: str, settings: DatabaseSection, branches: list[Branch], targets: list[str]
    ) -> Access:
        """The butler's database exists and is migrated; how to reach it."""
        if not settings.url:
            await self.hold()
            await copy_template(
                self._embedded.dsn,
                database_name(butler),
                branches,
                targets,
                is_one_of_many=self._butlers > 1,
            )
        access = await self.provide(butler, settings)
        await migrate(access.owner_dsn, branches, targets)
        if not settings.url:
            return access
        database = database_name(butler)
        maintenance = maintenance_url(settings.url)
        await extension().after_migration(maintenance, access.owner_dsn, database)
        return await own_login(access, database)

    async def provide(self, butler: str, settings: DatabaseSection) -> Access:
        """The butler's database exists, be it empty; how to reach it."""
        database = database_name(butler)
        if settings.url:
            access = external_access(settings.url, database)
            await provision(maintenance_url(settings.url), database, sign_in=False)
        else:
            await self.hold()
            access = Access(
                self._embedded.dsn(database), self._embedded.dsn(database, login_of(database))
            )
            await provision(self._embedded.dsn(), database, sign_in=True)
        return access

    async def quota(self, settings: DatabaseSection) -> ConnectionQuota:
        """Return the connection quota that all butlers on the same server share."""
        server = without_login(settings.url) if settings.url else ""
        if server not in self._quotas:
            most = self._settings.connections or quota_of(await _taken_by(settings.url))
            self._quotas.setdefault(server, ConnectionQuota(most, self._butlers))
        return self._quotas[server]

    @property
    def pool_max(self) -> int:
        """How many connections one butler may use; more if `connections` leaves it more."""
        return max(POOL_MAX, self._settings.connections // max(1, self._butlers))

    @property
    def has_embedded(self) -> bool:
        """Whether the embedded server has data; Unavailable where they are another home's."""
        return (self._embedded.data_directory / "PG_VERSION").exists()

    def embedded_dsn(self, database: str = "postgres") -> str:
        """How to reach a database of the embedded server that is held, as its owner."""
        return self._embedded.dsn(database)

    def running_url(self, butler: str) -> str:
        """How to reach a butler's database on the embedded server that some process holds."""
        listed = read_pid_file(self._embedded.data_directory)
        where = listed.socket_directory if listed else None
        if where is None or ask(where) is SocketReply.SILENCE:
            raise Unavailable(
                f"the embedded database of {self.home.root} is not running; "
                "start it with `butlers up`"
            )
        return f"postgresql://postgres@/{database_name(butler)}?host={quote(str(where))}"

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """Within this block the embedded server, should it die, is soon started again."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def release(self) -> None:
        """Let go of the embedded server; the last process to do so stops it."""
        self._holding = False
        await to_its_end(asyncio.to_thread(self._embedded.stop))

    async def hold(self) -> None:
        """Join the embedded server, or start it, until it is released."""
        async with self._starting:
            if not self._holding:
                self._embedded.memory = self._settings.memory
                await to_its_end(asyncio.to_thread(self._embedded.start))
                self._holding = True
                if (now := self._embedded.memory_now) != self._settings.memory:
                    log.warning(_LATER, now=now, wanted=self._settings.memory)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                if self._holding and not await asyncio.to_thread(self._answers):
                    await to_its_end(asyncio.to_thread(self._embedded.start))
                    log.warning("the database server had died and was started again")
            except ButlersError as error:
                log.error("the database server is down", error=str(error))

    def _answers(self) -> bool:
        """A look at the socket; starting anew would also look at accounts, programs and files."""
        return ask(self._embedded.socket_directory) is SocketReply.WELCOME


def replicas_of(access: Access, urls: Sequence[str], butler: str) -> list[Access]:
    """How to reach the copies of a butler's database: by the login that serves at the original."""
    found = [external_access(url, database_name(butler)) for url in urls]
    if access.runtime_role:
        return found
    return [
        Access(one.owner_dsn, signed_in_like(one.owner_dsn, access.runtime_dsn)) for one in found
    ]


async def _taken_by(url: str) -> int:
    """How many connections a server takes; the embedded one is told so by us."""
    if not url:
        return MAX_CONNECTIONS
    async with connected(maintenance_url(url)) as connection:
        takes = "select current_setting('max_connections')::integer"
        return int(await connection.fetchval(takes))


_SQL = load(__file__)

_touch = Touched(_SQL["touch"])
_use_little_memory = FirstRow(_SQL["use_little_memory"])
_take_room = FirstRow(_SQL["take_room"])
# However often it is asked for, by whomever.
_KNOWN_SECONDS, _PATIENCE_SECONDS = 5.0, 5.0


class Storage:
    """What one butler writes to."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._trouble, self._tried_at = "", -_KNOWN_SECONDS
        self._trying = asyncio.Lock()

    async def trouble(self) -> str:
        """Why nothing can be written; empty when something could, a moment ago at most."""
        async with self._trying:
            if time.monotonic() - self._tried_at >= _KNOWN_SECONDS:
                self._trouble = await self._tried()
                self._tried_at = time.monotonic()
            return self._trouble

    async def _tried(self) -> str:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                async with self._database().system_transaction() as tx:
                    await _touch(tx)
                    await _use_little_memory(tx)
                    await _take_room(tx)
        except TimeoutError:
            return f"nothing could be written within {_PATIENCE_SECONDS:g} seconds"
        except ButlersError as error:
            return f"nothing can be written: {error}"
        return ""
