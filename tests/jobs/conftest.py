"""A database that has what every butler has, and no module's tables."""

import os
from collections.abc import AsyncIterator

import asyncpg
import pytest

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.login import login_of
from butlers.db.migrate import migrate
from butlers.db.postgres import Access, Database
from butlers.db.provision import provision
from butlers.host.registry import CORE
from db.databases import connected

EMPTY = (
    "truncate job_runs, job_schedules, language_model_spend, clock_believed, clock_boots, "
    "session_log, injections, tokens, sign_ins"
)


@pytest.fixture(scope="session")
async def core_access(postgres: EmbeddedPostgres) -> AsyncIterator[Access]:
    """How to reach this worker's own."""
    name = f"core_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    await provision(postgres.dsn(), name, sign_in=True)
    await migrate(postgres.dsn(name), [CORE])
    yield Access(postgres.dsn(name), postgres.dsn(name, login_of(name)))
    async with connected(postgres.dsn()) as connection:
        await connection.execute(f'drop database "{name}" with (force)')


@pytest.fixture(scope="session")
async def open_core(core_access: Access) -> AsyncIterator[Database]:
    database = await Database.open(core_access)
    yield database
    await database.close()


@pytest.fixture
async def core_owner(core_access: Access) -> AsyncIterator[asyncpg.Connection]:
    """The database as its owner sees it, every table empty."""
    async with connected(core_access.owner_dsn) as connection:
        await connection.execute(EMPTY)
        yield connection


@pytest.fixture
async def core(open_core: Database, core_owner: asyncpg.Connection) -> Database:
    """The database as the runtime role sees it, every table empty."""
    return open_core
