"""Columns whose values a database counts up go on where they were in the one before it."""

import asyncpg

from butlers.db import address
from butlers.db.citus.nodes import ClusterNode
from butlers.db.provision import connected
from butlers.db.queries import load

_SQL = load(__file__)


async def go_on(target: asyncpg.Connection, dsn: str, *, spreads: bool) -> None:
    """What is counted next was never counted before, whichever node counts."""
    for row in await target.fetch(_SQL["identities"].text):
        tops = {top["part"]: top["top"] for top in await target.fetch(row["tops"])}
        if tops and not spreads:
            tops = {0: max(tops.values())}
        for part, top in tops.items():
            await _go_on_in(target, dsn, row["sequence"], part, top)


async def _go_on_in(
    target: asyncpg.Connection, dsn: str, sequence: str, part: int, top: int
) -> None:
    """Each node counts in a part of the numbers that is its own; the coordinator in the first."""
    if not part:
        await target.fetchval(_SQL["go_on"].positional, sequence, top)
        return
    node = await target.fetchrow(_SQL["node"].positional, part)
    if node is not None:
        async with connected(ClusterNode(**node).dsn(dsn, address.database_of(dsn))) as there:
            await there.fetchval(_SQL["go_on"].positional, sequence, top)
