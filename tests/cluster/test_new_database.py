"""A new database of a cluster, made by several processes at once; and a cluster that grows."""

import asyncio
import os

from butlers.db.migrate import migrate
from butlers.db.postgres import Database
from butlers.db.primary_connector import connected
from butlers.db.provision import external_access, provision
from butlers.memory.flows import remember
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewFact
from butlers_cluster.distribution import ensure_distributed, include_new_nodes, is_distributed
from butlers_cluster.nodes import ClusterNode
from butlers_cluster.tenant_placement import rebalance
from conftest import BRANCHES, CLUSTER, NEEDS_CLUSTER, ToyEmbedder
from db.distributed import distributed_database, drop_everywhere, likings

NAME = "fresh_distributed"
SPARE = os.environ.get("BUTLERS_TEST_CLUSTER_SPARE", "")


@NEEDS_CLUSTER
async def test_processes_that_start_at_once_distribute_it_once():
    await drop_everywhere(CLUSTER, NAME)
    dsn = external_access(CLUSTER, NAME).owner_dsn
    await provision(CLUSTER, NAME, sign_in=False)
    await migrate(dsn, BRANCHES)
    try:
        attempts = (ensure_distributed(CLUSTER, dsn, NAME) for _ in range(3))
        assert await asyncio.gather(*attempts) == [True] * 3
        async with connected(dsn) as owner:
            assert await is_distributed(owner)
    finally:
        await drop_everywhere(CLUSTER, NAME)


@NEEDS_CLUSTER
async def test_a_node_that_joins_later_gets_its_share():
    access = await distributed_database(CLUSTER, NAME)
    host, _, port = SPARE.partition(":")
    tenants = [f"tenant-{number}" for number in range(12)]
    database = await Database.open(access)
    memory = Memory(database, ToyEmbedder, "general")
    try:
        for tenant in tenants:
            await remember.store_fact(memory, NewFact("Ann", "likes", tenant), Lineage(tenant))
        async with connected(ClusterNode(host, int(port)).dsn(CLUSTER, "postgres")) as there:
            await there.execute("create extension if not exists citus")
        async with connected(CLUSTER) as coordinator:
            await coordinator.fetchval("select citus_add_node($1, $2)", host, int(port))
        assert SPARE not in {node.node for node in (await rebalance(access.owner_dsn)).nodes}
        for _ in range(2):
            await include_new_nodes(CLUSTER, access.owner_dsn, NAME)
        held = {node.node: node for node in (await rebalance(access.owner_dsn)).nodes}
        assert len(held) == 3
        assert held[SPARE].shards > 0 and held[SPARE].tenants > 0
        assert sum(node.tenants for node in held.values()) == len(tenants)
        for tenant in tenants:
            await remember.store_fact(memory, NewFact("Bob", "likes", "ale"), Lineage(tenant))
            assert await likings(memory, Lineage(tenant)) == {tenant, "ale"}
        assert await likings(memory, Lineage("stranger")) == set()
    finally:
        await database.close()
        await drop_everywhere(CLUSTER, NAME)
        async with connected(CLUSTER) as coordinator:
            await coordinator.execute(
                "select citus_remove_node(nodename, nodeport) from pg_dist_node "
                "where nodename = $1 and nodeport = $2",
                host,
                int(port),
            )
