"""Tokens that processes share through a database: who is asked, for how long, and about what."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from butlers.auth import token_store
from butlers.auth.token_database import SignIn, TokenDatabase
from butlers.auth.token_grant import TokenGrant
from butlers.auth.token_store import TokenStore
from butlers.auth.tokens import TokenRecord, new_token
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.login import login_of
from butlers.db.migrate import migrate
from butlers.db.postgres import Access, Database
from butlers.db.provision import provision
from butlers.errors import Unavailable
from butlers.host.registry import CORE
from butlers.memory.module import MemoryModule
from conftest import WalkingClock
from db.databases import connected, fresh_database

KEEP = "insert into tokens (digest, id, record) values ($1, $2, $3)"


@pytest.fixture(scope="module")
async def shared(postgres: EmbeddedPostgres, template: str) -> AsyncIterator[Database]:
    """The database of a butler that several processes serve."""
    async with fresh_database(postgres, template) as name:
        await provision(postgres.dsn(), name, sign_in=True)
        await migrate(postgres.dsn(name), [CORE, MemoryModule.migrations])
        access = Access(postgres.dsn(name), postgres.dsn(name, login_of(name)))
        database = await Database.open(access)
        async with connected(access.owner_dsn) as owner:
            database.owner = owner  # type: ignore[attr-defined]
            yield database
        await database.close()


@pytest.fixture
def owner(shared: Database) -> asyncpg.Connection:
    return shared.owner  # type: ignore[attr-defined]


def serving(home: Path, database: Database | None, clock: WalkingClock) -> TokenStore:
    """The tokens of a process that serves `general`; without a database it is away."""
    general = TokenDatabase("general", "postgresql://there", lambda: database)
    return TokenStore(home / "tokens.json", clock, [general])


async def kept(owner: asyncpg.Connection, clock: WalkingClock, butler: str) -> tuple[Any, str]:
    record, token = new_token(butler, TokenGrant("acme"), clock())
    await owner.execute(KEEP, record.digest, record.id, record.model_dump_json())
    return record, token


async def test_a_database_vouches_for_its_own_butler_alone(
    shared: Database, owner: asyncpg.Connection, tmp_path: Path, clock: WalkingClock
) -> None:
    tokens = serving(tmp_path, shared, clock)
    (_, good), (_, planted) = await kept(owner, clock, "general"), await kept(owner, clock, "other")
    for token in (good, planted, "btl_unknown", ""):
        await tokens.refresh(token)
    assert tokens.verify(good, "general") is not None
    assert tokens.verify(planted) is None and tokens.verify("btl_unknown") is None
    assert await owner.fetchval("select count(*) from tokens where used_at is not null") == 1


async def test_many_who_come_at_once_ask_once_and_again_after_a_second(
    shared: Database,
    owner: asyncpg.Connection,
    tmp_path: Path,
    clock: WalkingClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens, asked, find = serving(tmp_path, shared, clock), [], TokenDatabase.find

    async def counted(database: TokenDatabase, digest: str) -> TokenRecord | None:
        asked.append(digest)
        return await find(database, digest)

    monkeypatch.setattr(TokenDatabase, "find", counted)
    record, token = await kept(owner, clock, "general")
    await asyncio.gather(*(tokens.refresh(token) for _ in range(20)))
    await tokens.refresh(token)
    assert asked == [record.digest] and tokens.verify(token) == record
    await owner.execute("delete from tokens where id = $1", record.id)
    monkeypatch.setattr(token_store, "FRESH_SECONDS", 0.0)
    await tokens.refresh(token)
    assert tokens.verify(token) is None


async def test_while_a_database_is_away_nobody_is_called_unknown(
    tmp_path: Path, clock: WalkingClock
) -> None:
    tokens = serving(tmp_path, None, clock)
    with pytest.raises(Unavailable, match="its tokens cannot be checked"):
        await tokens.refresh("btl_whatever")
    _, own = tokens.create("general", "acme")
    await tokens.refresh(own)
    assert tokens.verify(own, "general") is not None


async def test_sign_ins_end_with_their_time_their_token_and_beyond_a_hundred(
    shared: Database, owner: asyncpg.Connection, tmp_path: Path, clock: WalkingClock
) -> None:
    tokens = serving(tmp_path, shared, clock)
    record, _ = await kept(owner, clock, "general")
    ends = clock() + timedelta(hours=12)
    for number in range(105):
        later = ends + timedelta(seconds=number)
        assert await tokens.begin_sign_in(f"d{number}", SignIn(record, "secret", later))
    found = await tokens.find_sign_in("d104")
    assert found is not None and (found.record, found.csrf) == (record, "secret")
    assert await tokens.find_sign_in("d3") is None
    assert await owner.fetchval("select count(*) from sign_ins") == 100
    await tokens.end_sign_in("d104")
    assert await tokens.find_sign_in("d104") is None
    await owner.execute("delete from tokens where id = $1", record.id)
    assert await owner.fetchval("select count(*) from sign_ins") == 0
