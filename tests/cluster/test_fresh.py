"""A new database of a cluster, made by several processes at once."""

import asyncio

import pytest

from butlers.db.citus.settle import settle
from butlers.db.citus.tables import is_spread
from butlers.db.migrate import migrate
from butlers.db.provision import connected, external_access, provision
from conftest import BRANCHES, CLUSTER
from db.spread import drop_everywhere

NAME = "fresh_spread"


@pytest.mark.skipif(not CLUSTER, reason="no cluster: CITUS names a directory that has one")
async def test_processes_that_start_at_once_spread_it_once():
    await drop_everywhere(CLUSTER, NAME)
    dsn = external_access(CLUSTER, NAME).owner_dsn
    await provision(CLUSTER, NAME, sign_in=False)
    await migrate(dsn, BRANCHES)
    try:
        assert await asyncio.gather(*(settle(CLUSTER, dsn, NAME) for _ in range(3))) == [True] * 3
        async with connected(dsn) as owner:
            assert await is_spread(owner)
    finally:
        await drop_everywhere(CLUSTER, NAME)
