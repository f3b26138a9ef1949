"""One home that is up, with two butlers, for all tests of the MCP surface."""

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from interfaces.daemons import Daemon, butlers, up
from interfaces.furnished import furnished_home
from interfaces.mcp.clients import connect


@pytest.fixture(scope="session")
def served_home() -> Iterator[Home]:
    with furnished_home("general", "kitchen") as home:
        assert butlers("new", "general", "--home", home.root).returncode == 0
        assert butlers("new", "kitchen", "--home", home.root).returncode == 0
        yield home


@pytest.fixture(scope="session")
def daemon(served_home: Home) -> Iterator[Daemon]:
    with up(served_home) as running:
        yield running


@pytest.fixture(scope="session")
def tokens(served_home: Home) -> TokenStore:
    return TokenStore(served_home.tokens_file)


@pytest.fixture
async def rows(daemon: Daemon) -> AsyncIterator[asyncpg.Connection]:
    """The database of the butler `general`, as its owner sees it."""
    connection = await connect(daemon.home)
    yield connection
    await connection.close()
