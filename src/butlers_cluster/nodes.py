"""The nodes of a Citus cluster, and creating a butler's database on each of them.

The database that `database.url` names has the list of nodes. Citus keeps that list per database,
so every butler's database needs its own copy of it.
"""

from dataclasses import dataclass

import asyncpg

from butlers.db import address
from butlers.db.login import ensure_login, login_of
from butlers.db.primary_connector import connected
from butlers.db.provision import ensure_database, ensure_role
from butlers.db.queries import load
from butlers.db.tenant_proof import read_keys, unbind

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A server of the cluster."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def dsn(self, url: str, database: str = "") -> str:
        """Return the address on this node of a database, or of the URL's, with the URL's login."""
        return address.at(url, self.host, self.port, database or address.database_of(url))


async def list_nodes(connection: asyncpg.Connection) -> list[ClusterNode]:
    """List the nodes that hold tenants; empty where there is no cluster."""
    if not await connection.fetchval(_SQL["is_cluster"].text):
        return []
    return [ClusterNode(**row) for row in await connection.fetch(_SQL["nodes"].text)]


async def create_on_nodes(maintenance_dsn: str, database_dsn: str, database: str) -> None:
    """Create the database on every node that lacks it, and list the nodes in the database."""
    async with connected(maintenance_dsn) as coordinator:
        nodes = await list_nodes(coordinator)
        own_address = await coordinator.fetchrow(_SQL["own_address"].text) if nodes else None
    for node in nodes:
        await _create_on_node(maintenance_dsn, node, database)
    if nodes:
        async with connected(database_dsn) as owner:
            await owner.execute("create extension if not exists citus")
            if own_address is not None:
                await owner.fetchval(*_SQL["set_coordinator"].bound(**own_address))
            for node in nodes:
                await owner.fetchval(*_SQL["add_node"].bound(host=node.host, port=node.port))


async def copy_keys_to_nodes(owner: asyncpg.Connection, dsn: str, database: str) -> None:
    """Give every node the keys that tenant proofs are checked with, valid on any connection."""
    await unbind(owner)
    statements = await owner.fetchval(_SQL["key_statements"].text)
    for node in await list_nodes(owner):
        async with connected(node.dsn(dsn, database)) as connection:
            await connection.execute(statements)
    await allow_login(owner, database)


async def allow_login(owner: asyncpg.Connection, database: str) -> None:
    """Let the coordinator sign in to nodes as the database's own login, by its password."""
    password = (await read_keys(owner)).password()
    await ensure_login(owner, database, password)
    credentials = f"password={password}"
    await owner.fetchval(
        *_SQL["set_credentials"].bound(login=login_of(database), credentials=credentials)
    )


async def _create_on_node(maintenance_dsn: str, node: ClusterNode, database: str) -> None:
    async with connected(node.dsn(maintenance_dsn)) as server:
        await ensure_role(server, sign_in=True)
        await ensure_database(server, database)
    async with connected(node.dsn(maintenance_dsn, database)) as connection:
        await connection.execute("create extension if not exists citus")
