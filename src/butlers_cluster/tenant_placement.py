"""Show on which nodes the tenants of a distributed database are, and move them."""

from dataclasses import dataclass

import asyncpg

from butlers.db import address
from butlers.db.driver_errors import translated_errors
from butlers.db.primary_connector import connected
from butlers.db.queries import load
from butlers.errors import Conflict, InvalidInput, NotFound, Unavailable
from butlers_cluster.distribution import is_distributed
from butlers_cluster.nodes import ClusterNode, list_nodes

_SQL = load(__file__)
# Citus copies the triggers of a shard along; ours stay on the node of their tenant.
_ALLOW_TRIGGERS = "set citus.enable_unsafe_triggers = on"


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What a node holds: shards of all tables, their bytes, and tenants."""

    node: str
    shards: int
    bytes: int
    tenants: int


@dataclass(frozen=True, slots=True)
class TenantPlacement:
    """Whether a database is distributed, over which nodes, and its largest tenants."""

    distributed: bool
    nodes: list[NodeUsage]
    largest: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class IsolatedTenant:
    """A tenant with shards of its own, and the node they are on."""

    tenant: str
    node: str


async def placement_of(dsn: str) -> TenantPlacement:
    """Read which node holds how much of a database."""
    with translated_errors():
        async with connected(dsn) as owner:
            rows = await owner.fetch(_SQL["largest"].text)
            largest = [(row["tenant"], row["memories"]) for row in rows]
            if await is_distributed(owner):
                return TenantPlacement(True, await _usage_by_node(owner), largest)
            size = await owner.fetchval(_SQL["plain_bytes"].text)
            server = NodeUsage(address.without_login(dsn), 0, size, len(await _tenants(owner)))
            return TenantPlacement(False, [server], largest)


async def isolate(dsn: str, tenant: str, to: str | None) -> IsolatedTenant:
    """Give a tenant shards of its own, on the node `to` if given; safe to repeat.

    Blocks writes to the tenant's shards while they move. NotFound for an unknown tenant.
    """
    with translated_errors():
        async with connected(dsn) as owner:
            await _require_distributed(owner)
            if tenant not in await _tenants(owner):
                raise NotFound(f"there is no tenant {tenant!r}; tenants appear when they store")
            shard = await _shard_of(owner, tenant)
            if not shard["is_alone"]:
                await _run(owner, "isolate", tenant=tenant)
                shard = await _shard_of(owner, tenant)
            current = ClusterNode(shard["host"], shard["port"])
            wanted = await _find_node(owner, to) if to else current
            if wanted != current:
                nodes = {"from_host": current.host, "from_port": current.port}
                nodes |= {"host": wanted.host, "port": wanted.port}
                await _run(owner, "move_shard", shard=shard["shard"], **nodes)
            return IsolatedTenant(tenant, str(wanted))


async def rebalance(dsn: str) -> TenantPlacement:
    """Move shards until the nodes hold about as much each; return what each then holds."""
    with translated_errors():
        async with connected(dsn) as owner:
            await _require_distributed(owner)
            await _run(owner, "rebalance")
    return await placement_of(dsn)


async def _require_distributed(owner: asyncpg.Connection) -> None:
    if not await is_distributed(owner):
        raise Conflict("the database is on one server; run `butlers db distribute` first")
    await owner.execute(_ALLOW_TRIGGERS)


async def _usage_by_node(owner: asyncpg.Connection) -> list[NodeUsage]:
    by_node = await owner.fetch(*_SQL["tenants_by_node"].bound(tenants=await _tenants(owner)))
    tenants = {row["node"]: row["tenants"] for row in by_node}
    rows = await owner.fetch(_SQL["usage"].text)
    return [NodeUsage(**row, tenants=tenants.get(row["node"], 0)) for row in rows]


async def _tenants(owner: asyncpg.Connection) -> list[str]:
    return [row["tenant"] for row in await owner.fetch(_SQL["tenants"].text)]


async def _shard_of(owner: asyncpg.Connection, tenant: str) -> asyncpg.Record:
    (shard,) = await owner.fetch(*_SQL["shard"].bound(tenant=tenant))
    return shard


async def _find_node(owner: asyncpg.Connection, wanted: str) -> ClusterNode:
    nodes = {str(node): node for node in await list_nodes(owner)}
    if wanted not in nodes:
        known = ", ".join(nodes)
        raise InvalidInput(f"--node: {wanted!r} is no node of the cluster; its nodes are {known}")
    return nodes[wanted]


async def _run(owner: asyncpg.Connection, query: str, **values: object) -> None:
    """Run a statement that may take minutes; a failure is reported in Citus's own words."""
    try:
        await owner.fetch(*_SQL[query].bound(**values))
    except asyncpg.InternalServerError as error:
        raise Unavailable(f"the cluster refused: {error}") from error
