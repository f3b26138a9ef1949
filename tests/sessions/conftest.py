"""A database that has the tables of memory and those that every butler has, as sessions use it."""

import os
import uuid
from collections.abc import AsyncIterator, Callable

import asyncpg
import pytest

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.login import login_of
from butlers.db.migrate import migrate
from butlers.db.postgres import Access, Database
from butlers.db.provision import provision
from butlers.host.registry import CORE
from butlers.memory.handle import Memory
from butlers.memory.module import MemoryModule
from conftest import TABLES, ToyEmbedder, WalkingClock
from db.databases import connected, emptied


@pytest.fixture(scope="session")
async def worker_access(postgres: EmbeddedPostgres) -> AsyncIterator[Access]:
    """How to reach this worker's own."""
    name = f"sessions_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    await provision(postgres.dsn(), name, sign_in=True)
    await migrate(postgres.dsn(name), [CORE, MemoryModule.migrations])
    yield Access(postgres.dsn(name), postgres.dsn(name, login_of(name)))
    async with connected(postgres.dsn()) as connection:
        await connection.execute(f'drop database "{name}" with (force)')


@pytest.fixture(scope="session")
async def open_session_database(worker_access: Access) -> AsyncIterator[Database]:
    database = await Database.open(worker_access)
    yield database
    await database.close()


@pytest.fixture
async def owner(worker_access: Access) -> AsyncIterator[asyncpg.Connection]:
    """The database as its owner sees it, every table empty."""
    async with connected(worker_access.owner_dsn) as connection:
        await emptied(connection, f"{TABLES}, session_log, injections")
        yield connection


@pytest.fixture
async def database(open_session_database: Database, owner: asyncpg.Connection) -> Database:
    """The database as the runtime role sees it, every table empty."""
    return open_session_database


@pytest.fixture
async def memory(
    database: Database, clock: WalkingClock, new_id: Callable[[], uuid.UUID]
) -> AsyncIterator[Memory]:
    """A memory over it, with a clock to walk and a toy embedder."""
    toy = ToyEmbedder()
    memory = Memory(database, lambda: toy, "general", now=clock, new_id=new_id)
    yield memory
    await memory.uses.settle_all()
