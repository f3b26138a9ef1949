"""The nodes of a cluster, and a database that all of them have.

Which nodes there are is asked of the database that `database.url` names: whoever made the cluster
has added them there. Every database of a cluster has to be told of them anew.
"""

from dataclasses import dataclass

import asyncpg

from butlers.db import address
from butlers.db.login import RUNTIME_ROLE, ensure_login, login_of
from butlers.db.provision import connected
from butlers.db.queries import load
from butlers.db.tenant_proof import read_keys

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A server of the cluster."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def dsn(self, url: str, database: str) -> str:
        """How a database is reached there, by the login of a URL."""
        return address.at(url, self.host, self.port, database)


async def nodes_of(connection: asyncpg.Connection) -> list[ClusterNode]:
    """The nodes that a database knows to hold tenants; none where there is no cluster."""
    if not await connection.fetchval(_SQL["is_cluster"].text):
        return []
    return [ClusterNode(**row) for row in await connection.fetch(_SQL["nodes"].text)]


async def join(maintenance_dsn: str, database_dsn: str, database: str) -> list[ClusterNode]:
    """The nodes of the cluster, all of which have the database, which knows them; maybe none."""
    async with connected(maintenance_dsn) as coordinator:
        nodes = await nodes_of(coordinator)
        own = await coordinator.fetchrow(_SQL["own_address"].text) if nodes else None
    for node in nodes:
        await _equip(maintenance_dsn, node, database)
    if nodes:
        async with connected(database_dsn) as owner:
            await owner.execute("create extension if not exists citus")
            if own is not None:
                await owner.fetchval(*_SQL["coordinate"].bound(**own))
            for node in nodes:
                await owner.fetchval(*_SQL["join"].bound(host=node.host, port=node.port))
    return nodes


async def share_keys(owner: asyncpg.Connection, dsn: str, database: str) -> None:
    """Every node checks proofs by the same keys, and a proof serves every connection."""
    await owner.execute("update public.tenant_key set unbound = true where not unbound")
    told = await owner.fetchval(_SQL["keys"].text)
    for node in await nodes_of(owner):
        async with connected(node.dsn(dsn, database)) as there:
            await there.execute(told)
    await welcome(owner, database)


async def welcome(owner: asyncpg.Connection, database: str) -> None:
    """Nodes that ask for a password let the login of a database in by the one it has."""
    password = (await read_keys(owner)).password()
    await ensure_login(owner, database, password)
    await owner.fetchval(
        *_SQL["let_in"].bound(login=login_of(database), told=f"password={password}")
    )


async def _equip(maintenance_dsn: str, node: ClusterNode, database: str) -> None:
    """A node has the database, the role that owns nothing, and what makes it one of a cluster."""
    known = address.database_of(maintenance_dsn)
    async with connected(node.dsn(maintenance_dsn, known)) as there:
        if not await there.fetchval("select 1 from pg_roles where rolname = $1", RUNTIME_ROLE):
            await there.execute(f"create role {RUNTIME_ROLE} nologin")
        if not await there.fetchval("select 1 from pg_database where datname = $1", database):
            await there.execute(
                f"create database \"{database}\" encoding 'UTF8' template template0"
            )
    async with connected(node.dsn(maintenance_dsn, database)) as there:
        await there.execute("create extension if not exists citus")
