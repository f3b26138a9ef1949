"""The PostgreSQL server behind a home: the embedded one, running while in use, or one by URL."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from urllib.parse import quote

import structlog

from butlers.db.address import maintenance_url, signed_in_like, without_login
from butlers.db.branch import Branch
from butlers.db.connection_quota import ConnectionQuota, quota_of
from butlers.db.embedded.configuration import MAX_CONNECTIONS
from butlers.db.embedded.liveness import SocketReply, ask, read_pid_file
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.lease import beside, to_its_end
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
        self.upgraded: set[str] = set()
        """Butlers whose database this process has migrated from an older revision."""
        self.owner_dsns: dict[str, str] = {}
        """How the owner reaches the database of each butler that was prepared."""

    @cached_property
    def _settings(self) -> HomeDatabaseSection:
        return load_home(self.home.settings_file).database

    async def prepare(
        self, butler: str, settings: DatabaseSection, branches: list[Branch], targets: list[str]
    ) -> Access:
        """Create and migrate the butler's database; return how to reach it."""
        database, many, dsn = database_name(butler), self._butlers > 1, self._embedded.dsn
        if not settings.url:
            await self.hold()
            await copy_template(dsn, database, branches, targets, is_one_of_many=many)
        access = await self.provide(butler, settings)
        if await migrate(access.owner_dsn, branches, targets):
            self.upgraded.add(butler)
        self.owner_dsns[butler] = access.owner_dsn
        if settings.url:
            maintenance = maintenance_url(settings.url)
            await extension().after_migration(maintenance, access.owner_dsn, database)
            access = await own_login(access, database)
        return access

    async def provide(self, butler: str, settings: DatabaseSection) -> Access:
        """Create the butler's database, which may stay empty; return how to reach it."""
        database = database_name(butler)
        if settings.url:
            access = external_access(settings.url, database)
            await provision(maintenance_url(settings.url), database, sign_in=False)
            return access
        await self.hold()
        await provision(self._embedded.dsn(), database, sign_in=True)
        owner, login = (
            self._embedded.dsn(database),
            self._embedded.dsn(database, login_of(database)),
        )
        return Access(owner, login)

    async def quota(self, settings: DatabaseSection) -> ConnectionQuota:
        """Return the connection quota that all butlers on the same server share."""
        server = without_login(settings.url) if settings.url else ""
        if server not in self._quotas:
            most = self._settings.connections or quota_of(await _max_connections(settings.url))
            self._quotas.setdefault(server, ConnectionQuota(most, self._butlers))
        return self._quotas[server]

    @property
    def pool_max(self) -> int:
        """Return how many connections one butler may use; `database.connections` can allow more."""
        return max(POOL_MAX, self._settings.connections // max(1, self._butlers))

    @property
    def has_embedded(self) -> bool:
        """Whether the embedded server has data; Unavailable if they belong to another home."""
        return (self._embedded.data_directory / "PG_VERSION").exists()

    def embedded_dsn(self, database: str = "postgres") -> str:
        """Return the DSN of a database of the embedded server, as its owner; `hold` it first."""
        return self._embedded.dsn(database)

    def running_url(self, butler: str) -> str:
        """Return the DSN of a butler's database on the embedded server, which must be running."""
        pid_file = read_pid_file(self._embedded.data_directory)
        where = pid_file.socket_directory if pid_file else None
        if where is None or ask(where) is SocketReply.SILENCE:
            raise Unavailable(
                f"the embedded database of {self.home.root} is not running; "
                "start it with `butlers up`"
            )
        return f"postgresql://postgres@/{database_name(butler)}?host={quote(str(where))}"

    def kept_alive(self) -> AbstractAsyncContextManager[object]:
        """Within this block an embedded server that dies is started again."""
        return beside(self._watch())

    async def release(self) -> None:
        """Stop using the embedded server; the last process to do so stops it."""
        self._holding = False
        await to_its_end(asyncio.to_thread(self._embedded.stop))

    async def hold(self) -> None:
        """Use the embedded server until `release`; start it if it does not run."""
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
            if not self._holding:
                continue
            try:
                # Only the socket: `start` would also check accounts, programs and files.
                reply = await asyncio.to_thread(ask, self._embedded.socket_directory)
                if reply is not SocketReply.WELCOME:
                    await to_its_end(asyncio.to_thread(self._embedded.start))
                    log.warning("the database server had died and was started again")
            except ButlersError as error:
                log.error("the database server is down", error=str(error))


def replicas_of(access: Access, urls: Sequence[str], butler: str) -> list[Access]:
    """Return how to reach the replicas of a butler's database, with the login of the primary."""
    replicas = [external_access(url, database_name(butler)) for url in urls]
    if access.runtime_role:
        return replicas
    dsns = [replica.owner_dsn for replica in replicas]
    return [Access(dsn, signed_in_like(dsn, access.runtime_dsn)) for dsn in dsns]


async def _max_connections(url: str) -> int:
    """Return how many connections a server accepts; "" is the embedded one."""
    if not url:
        return MAX_CONNECTIONS
    async with connected(maintenance_url(url)) as connection:
        return int(await connection.fetchval("select current_setting('max_connections')::integer"))


_SQL = load(__file__)
_touch = Touched(_SQL["touch"])
_use_little_memory = FirstRow(_SQL["use_little_memory"])
_take_room = FirstRow(_SQL["take_room"])
_CHECK_AGAIN_SECONDS, _CHECK_SECONDS = 5.0, 5.0


class Storage:
    """Whether a butler's database can be written to; tested at most every few seconds."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._trouble, self._checked_at = "", -_CHECK_AGAIN_SECONDS
        self._checking = asyncio.Lock()

    async def trouble(self) -> str:
        """Return why nothing can be written; empty if something can."""
        async with self._checking:
            if time.monotonic() - self._checked_at >= _CHECK_AGAIN_SECONDS:
                self._trouble = await self._check()
                self._checked_at = time.monotonic()
            return self._trouble

    async def _check(self) -> str:
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                async with self._database().system_transaction() as tx:
                    await _touch(tx)
                    await _use_little_memory(tx)
                    await _take_room(tx)
        except TimeoutError:
            return f"nothing could be written within {_CHECK_SECONDS:g} seconds"
        except ButlersError as error:
            return f"nothing can be written: {error}"
        return ""
