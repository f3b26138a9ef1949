"""What every test may ask for: a real PostgreSQL, a clock to walk, a memory over both.

One embedded server serves all workers of a run. A template database is migrated once; each
worker copies it, and every test starts from empty tables.
"""

import gc
import hashlib
import itertools
import os
import random
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import asyncpg
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.login import login_of
from butlers.db.migrate import migrate
from butlers.db.postgres import Access, Database
from butlers.db.provision import provision
from butlers.memory import limits
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.module import MemoryModule
from db.databases import connected, emptied
from db.distributed import distributed_database
from runs import clear_up, run_directory

# How quick examples are made says something of the machine alone.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
# Collecting thousands of tests makes objects that stay.
gc.set_threshold(100_000, 50)

TEMPLATE = "butler_template"
BRANCHES = [MemoryModule.migrations]
TABLES = (
    "episodes, facts, rules, entities, memory_links, memory_events, memory_event_chain, "
    "rule_applications, embedding_versions, memory_tenants, index_memories, index_words, "
    "index_vectors, index_names, binned_episodes, memory_proposals, memory_claims, "
    "memory_conflicts, memory_predicates, projects"
)
# Where the tests of memory run over a database whose tenants are spread.
CLUSTER = os.environ.get("BUTLERS_TEST_CLUSTER")
NEEDS_CLUSTER = pytest.mark.skipif(
    not CLUSTER, reason="no cluster: CITUS names a directory that has one"
)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def set_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make fixed limits of the memory small, by the names they have in `memory/limits.py`."""

    def set_limits(**values: int) -> None:
        for name, value in values.items():
            monkeypatch.setattr(limits, name, value)

    return set_limits


class WalkingClock:
    """A clock that stands still until a test walks it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **span: float) -> None:
        self.now += timedelta(**span)


@cache
def _numbers(word: str, dimensions: int) -> tuple[int, ...]:
    """The eight dimensions of a word, by its hash."""
    chance = random.Random(int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big"))
    return tuple(chance.randrange(dimensions) for _ in range(8))


class ToyEmbedder:
    """Deterministic vectors in which texts that share words are near: a bag of hashed words."""

    model, version, dimensions = "toy", "1", 384

    def embed(self, text: str | None) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in re.findall(r"\w+", (text or " ").lower()) or [" "]:
            for place, number in enumerate(_numbers(word, self.dimensions)):
                vector[number] += 1.0 - place / 16
        length = sum(value * value for value in vector) ** 0.5
        return [value / length for value in vector]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        return [self.embed(text) for text in texts]

    async def embed_async(self, text: str | None) -> list[float]:
        return self.embed(text)

    async def embed_batch_async(self, texts: Sequence[str | None]) -> list[list[float]]:
        return self.embed_batch(texts)


@pytest.fixture
def clock() -> WalkingClock:
    return WalkingClock()


@pytest.fixture
def new_id() -> Callable[[], uuid.UUID]:
    """Ids that grow, so that a test can know which came first."""
    numbers = itertools.count(1)
    return lambda: uuid.UUID(int=(0x4000 << 64) | (0x8 << 60) | next(numbers))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The controlling process outlives the workers, so it clears up after the server."""
    clear_up()


@pytest.fixture(scope="session")
def shared_directory() -> Path:
    """A directory that all workers of a run share."""
    return run_directory()


@pytest.fixture(scope="session")
def postgres(shared_directory: Path) -> Iterator[EmbeddedPostgres]:
    """The server of this run."""
    with EmbeddedPostgres(shared_directory / "pg") as server:
        yield server


@pytest.fixture(scope="session")
async def template(postgres: EmbeddedPostgres, shared_directory: Path) -> str:
    """The name of a migrated database to copy."""
    with FileLock(shared_directory / "template.lock"):
        done = shared_directory / "template.done"
        if not done.exists():
            await _leave_writing_to_the_system(postgres)
            await provision(postgres.dsn(), TEMPLATE, sign_in=True)
            await migrate(postgres.dsn(TEMPLATE), BRANCHES)
            done.touch()
    return TEMPLATE


async def _leave_writing_to_the_system(postgres: EmbeddedPostgres) -> None:
    """No test pulls the plug, so that nobody need wait for the disk."""
    async with connected(postgres.dsn()) as connection:
        await connection.execute("alter system set fsync = off")
        await connection.execute("alter system set full_page_writes = off")
        await connection.execute("select pg_reload_conf()")


@pytest.fixture
def migrated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which databases were migrated from nothing."""
    from butlers.db import upgrade

    databases: list[str] = []
    really = upgrade.upgrade

    def noted(dsn: str, *how: object) -> None:
        databases.append(dsn.split("@/")[1].split("?")[0])
        really(dsn, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(upgrade, "upgrade", noted)
    return databases


@pytest.fixture(scope="session")
async def worker_access(postgres: EmbeddedPostgres, template: str) -> Access:
    """This worker's own copy of the template."""
    name = f"test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    if CLUSTER:
        return await distributed_database(CLUSTER, name)
    connection = await asyncpg.connect(postgres.dsn())
    try:
        await connection.execute(f'drop database if exists "{name}" with (force)')
        await connection.execute(f'create database "{name}" template "{template}"')
    finally:
        await connection.close()
    await provision(postgres.dsn(), name, sign_in=True)
    return Access(postgres.dsn(name), postgres.dsn(name, login_of(name)))


@pytest.fixture(scope="session")
async def owner_session(worker_access: Access) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(worker_access.owner_dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def owner(owner_session: asyncpg.Connection) -> asyncpg.Connection:
    """The database as its owner sees it, every table empty."""
    await emptied(owner_session, TABLES)
    return owner_session


@pytest.fixture(scope="session")
async def open_database(worker_access: Access) -> AsyncIterator[Database]:
    database = await Database.open(worker_access, lock_timeout=60 if CLUSTER else 5)
    yield database
    await database.close()


@pytest.fixture
async def database(open_database: Database, owner: asyncpg.Connection) -> Database:
    """The database as the runtime role sees it, every table empty."""
    return open_database


@pytest.fixture
async def memory(
    database: Database, clock: WalkingClock, new_id: Callable[[], uuid.UUID]
) -> AsyncIterator[Memory]:
    """A memory over a real database, with a clock to walk and a toy embedder."""
    toy = ToyEmbedder()
    memory = Memory(database, lambda: toy, "general", now=clock, new_id=new_id)
    yield memory
    await memory.uses.settle_all()


@pytest.fixture
def lineage() -> Lineage:
    """The caller most tests are."""
    return Lineage("acme", "tester", "request-1")


@pytest.fixture
def stranger() -> Lineage:
    """A caller of another tenant."""
    return Lineage("rival", "spy", "request-2")
