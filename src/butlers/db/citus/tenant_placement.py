"""Where the tenants of a spread database are, and how they come to be elsewhere."""

from dataclasses import dataclass

import asyncpg

from butlers.db import address
from butlers.db.citus.nodes import ClusterNode, nodes_of
from butlers.db.citus.table_copies import is_spread
from butlers.db.faults import translated_errors
from butlers.db.provision import connected
from butlers.db.queries import load
from butlers.errors import Conflict, InvalidInput, NotFound, Unavailable

_SQL = load(__file__)
# Shards bring their triggers along, which are known to stay on the node of their tenant.
_TRUSTED = "set citus.enable_unsafe_triggers = on"


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What a node holds: shards of all tables, in bytes, and tenants."""

    node: str
    shards: int
    bytes: int
    tenants: int


@dataclass(frozen=True, slots=True)
class TenantPlacement:
    """Whether a database is spread, over which nodes, and who has the most in it."""

    distributed: bool
    nodes: list[NodeUsage]
    largest: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Isolated:
    """A tenant with shards of its own, at a node."""

    tenant: str
    node: str


async def placement_of(dsn: str) -> TenantPlacement:
    """Where everything of a database is."""
    with translated_errors():
        async with connected(dsn) as owner:
            rows = await owner.fetch(_SQL["largest"].text)
            largest = [(row["tenant"], row["memories"]) for row in rows]
            if await is_spread(owner):
                return TenantPlacement(True, await _usage_by_node(owner), largest)
            size = await owner.fetchval(_SQL["plain_bytes"].text)
            one = NodeUsage(address.without_login(dsn), 0, size, len(await _tenants(owner)))
            return TenantPlacement(False, [one], largest)


async def isolate(dsn: str, tenant: str, to: str | None) -> Isolated:
    """A tenant has shards of its own, at a node if one is named; again without harm."""
    with translated_errors():
        async with connected(dsn) as owner:
            await _require_spread(owner)
            if tenant not in await _tenants(owner):
                raise NotFound(f"there is no tenant {tenant!r}; tenants appear when they store")
            place = await _tenant_node(owner, tenant)
            if not place["is_alone"]:
                await _shift(owner, "isolate", tenant=tenant)
                place = await _tenant_node(owner, tenant)
            here = ClusterNode(place["host"], place["port"])
            there = await _node(owner, to) if to else here
            if there != here:
                where = {"from_host": here.host, "from_port": here.port}
                where |= {"host": there.host, "port": there.port}
                await _shift(owner, "shift", shard=place["shard"], **where)
            return Isolated(tenant, str(there))


async def rebalance(dsn: str) -> TenantPlacement:
    """Nodes hold about as much each, those that joined since too; where everything then is."""
    with translated_errors():
        async with connected(dsn) as owner:
            await _require_spread(owner)
            await _shift(owner, "rebalance")
    return await placement_of(dsn)


async def _require_spread(owner: asyncpg.Connection) -> None:
    if not await is_spread(owner):
        raise Conflict("the database is on one server; `butlers db distribute` spreads it first")
    await owner.execute(_TRUSTED)


async def _usage_by_node(owner: asyncpg.Connection) -> list[NodeUsage]:
    by_node = await owner.fetch(*_SQL["tenants_by_node"].bound(tenants=await _tenants(owner)))
    tenants = {row["node"]: row["tenants"] for row in by_node}
    rows = await owner.fetch(_SQL["places"].text)
    return [NodeUsage(**row, tenants=tenants.get(row["node"], 0)) for row in rows]


async def _tenants(owner: asyncpg.Connection) -> list[str]:
    return [row["tenant"] for row in await owner.fetch(_SQL["tenants"].text)]


async def _tenant_node(owner: asyncpg.Connection, tenant: str) -> asyncpg.Record:
    (place,) = await owner.fetch(*_SQL["place"].bound(tenant=tenant))
    return place


async def _node(owner: asyncpg.Connection, wanted: str) -> ClusterNode:
    nodes = await nodes_of(owner)
    for node in nodes:
        if str(node) == wanted:
            return node
    known = ", ".join(str(node) for node in nodes)
    raise InvalidInput(f"--node: {wanted!r} is no node of the cluster; there are {known}")


async def _shift(owner: asyncpg.Connection, query: str, **values: object) -> None:
    """What the cluster does over minutes; its own words say best why it could not."""
    try:
        await owner.fetch(*_SQL[query].bound(**values))
    except asyncpg.InternalServerError as error:
        raise Unavailable(f"the cluster could not do it: {error}") from error
