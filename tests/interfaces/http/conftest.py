"""One home that is up, with two butlers, for all tests of API and pages."""

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from conftest import CLUSTER
from interfaces.daemons import Daemon, butlers, up
from interfaces.furnished import furnished_home, spread_home
from interfaces.http.callers import ApiCaller, calling


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    with (spread_home if CLUSTER else furnished_home)("general", "kitchen") as home:
        assert butlers("new", "general", "--home", home.root).returncode == 0
        assert butlers("new", "kitchen", "--home", home.root).returncode == 0
        home.butler_file("general").write_text("[modules.notebook]\nenabled = true\n")
        with up(home) as running:
            yield running


@pytest.fixture
def tenant() -> str:
    """A tenant that no other test is."""
    return f"tenant-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def caller(daemon: Daemon, tenant: str) -> AsyncIterator[ApiCaller]:
    """A tenant of its own at the butler `general`."""
    async with calling(daemon, tenant) as one:
        yield one


@pytest.fixture
async def stranger(daemon: Daemon) -> AsyncIterator[ApiCaller]:
    """Another tenant at the same butler."""
    async with calling(daemon, f"stranger-{uuid.uuid4().hex[:12]}") as one:
        yield one
