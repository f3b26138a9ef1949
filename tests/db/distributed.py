"""A database whose tenants are distributed over the nodes of a cluster."""

from butlers.db.login import own_login
from butlers.db.migrate import migrate
from butlers.db.postgres import Access
from butlers.db.primary_connector import connected
from butlers.db.provision import external_access, provision
from butlers.memory.flows import recall
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, SearchMode
from butlers.memory.module import MemoryModule
from butlers_cluster.distribution import ensure_distributed
from butlers_cluster.nodes import list_nodes


async def distributed_database(url: str, name: str) -> Access:
    """A new database on every node of the cluster, distributed; how to reach it."""
    await drop_everywhere(url, name)
    access = external_access(url, name)
    await provision(url, name, sign_in=False)
    await migrate(access.owner_dsn, [MemoryModule.migrations])
    assert await ensure_distributed(url, access.owner_dsn, name)
    return await own_login(access, name)


async def drop_everywhere(url: str, name: str) -> None:
    """No node has a database of this name."""
    async with connected(url) as coordinator:
        nodes = await list_nodes(coordinator)
        await coordinator.execute(f'drop database if exists "{name}" with (force)')
    for node in nodes:
        async with connected(node.dsn(url, "postgres")) as there:
            await there.execute(f'drop database if exists "{name}" with (force)')


async def likings(memory: Memory, lineage: Lineage) -> set[str]:
    """What a tenant's facts say that people like."""
    query = CandidateQuery("who likes what")
    facts = await recall.search_memories(memory, query, SearchMode.HYBRID, 10, lineage)
    return {fact["content"] for fact in facts}
