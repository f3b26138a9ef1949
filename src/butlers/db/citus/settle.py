"""A new database of a cluster is spread over its nodes, and one that is spread stays so."""

import asyncpg
import structlog

from butlers import __version__
from butlers.db.citus.nodes import join, nodes_of, share_keys
from butlers.db.citus.spread import spread
from butlers.db.citus.table_copies import is_spread
from butlers.db.faults import brief
from butlers.db.migrate import current_revisions
from butlers.db.provision import connected
from butlers.errors import Unavailable

log = structlog.get_logger(__name__)

_MARK = "spread: "
_MARKED = "select shobj_description(oid, 'pg_database') from pg_database where datname = $1"
# Ends with a transaction: a pooler would keep what a session holds.
_ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtextextended('butlers.spread.' || $1, 0))"
_HAS_TENANTS = "select exists (select from memory_tenants)"


async def settle(maintenance_dsn: str, dsn: str, database: str) -> bool:
    """Whether the database is spread, as it is from the first on a server with nodes.

    One that was spread by another version is brought up to this one. One that was filled before
    there was a cluster stays where it is until `butlers db distribute` moves it.
    """
    wanted = _MARK + " ".join([__version__, *await current_revisions(dsn)])
    async with connected(dsn) as owner:
        if await owner.fetchval(_MARKED, database) == wanted:
            return True
        async with connected(maintenance_dsn) as coordinator, coordinator.transaction():
            if not await nodes_of(coordinator) and not await is_spread(owner):
                return False
            await coordinator.execute(_ONE_AT_A_TIME, database)
            if await owner.fetchval(_MARKED, database) == wanted:
                return True  # another process was quicker
            if not await is_spread(owner) and await owner.fetchval(_HAS_TENANTS):
                log.info("the database lies on one node; `butlers db distribute` spreads it")
                return False
            await _spread(owner, maintenance_dsn, dsn, database)
            await owner.execute(f"comment on database \"{database}\" is '{wanted}'")
    return True


async def take_in(maintenance_dsn: str, dsn: str, database: str) -> None:
    """Nodes that joined the cluster since the database was spread may hold tenants of it too."""
    async with (
        connected(dsn) as owner,
        connected(maintenance_dsn) as coordinator,
        coordinator.transaction(),
    ):
        await coordinator.execute(_ONE_AT_A_TIME, database)
        joined = set(await nodes_of(coordinator)) - set(await nodes_of(owner))
        if joined and await is_spread(owner):
            log.info("nodes have joined", nodes=sorted(map(str, joined)))
            await _spread(owner, maintenance_dsn, dsn, database)


async def _spread(owner: asyncpg.Connection, maintenance_dsn: str, dsn: str, database: str) -> None:
    try:
        await join(maintenance_dsn, dsn, database)
        await spread(owner)
        await share_keys(owner, dsn, database)
    except asyncpg.PostgresError as error:
        raise Unavailable(
            f"the database {database} could not be spread over the nodes: {brief(error)}"
        ) from error
