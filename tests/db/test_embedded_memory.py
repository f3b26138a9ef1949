"""How much memory the embedded server has: by the machine, or as somebody wants it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from butlers.db.embedded import configuration
from butlers.db.embedded.configuration import buffers_mb, initdb_options
from butlers.errors import Unavailable
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from interfaces.furnished import furnished_home


@pytest.fixture
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        yield home


@pytest.fixture
async def servers(home: Home) -> AsyncIterator[list[DatabaseServer]]:
    """Processes of a home, one after the other, as it were."""
    opened: list[DatabaseServer] = []
    yield opened
    for server in opened:
        await server.release()


async def shown(server: DatabaseServer, name: str) -> str:
    connection = await asyncpg.connect(server.embedded_dsn())
    try:
        return str(await connection.fetchval(f"show {name}"))
    finally:
        await connection.close()


async def test_what_is_wanted_reaches_the_server_at_its_next_start(
    home: Home, servers: list[DatabaseServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wanted(memory: str) -> DatabaseServer:
        home.settings_file.write_text(f'[database]\nmemory = "{memory}"\n')
        servers.append(DatabaseServer(home))
        return servers[-1]

    with pytest.raises(Unavailable, match="three quarters of what this machine or container has"):
        await wanted("900GB").hold()
    monkeypatch.setattr(configuration, "_SHM", Path("/nowhere"))
    first = wanted("160MB")
    await first.hold()
    assert await shown(first, "shared_buffers") == "160MB"
    assert await shown(first, "dynamic_shared_memory_type") == "mmap"
    with capture_logs() as said:
        await wanted("1GB").hold()
    assert [(line["now"], line["wanted"]) for line in said] == [("160MB", "1GB")]
    assert await shown(first, "shared_buffers") == "160MB"
    await asyncio.gather(*(server.release() for server in servers))
    with capture_logs() as said:
        await wanted("1GB").hold()
    assert said == []
    assert await shown(servers[-1], "shared_buffers") == "1GB"
    assert await shown(servers[-1], "maintenance_work_mem") == "256MB"


@pytest.mark.parametrize("memory", ["127MB", "7GB"])
def test_what_cannot_be_given_is_refused(memory: str) -> None:
    assert buffers_mb(8 * 2**30, "6GB") == 6144
    with pytest.raises(Unavailable, match="valid is from 128MB to 6144MB"):
        buffers_mb(8 * 2**30, memory)


def test_a_container_has_what_its_group_or_any_above_it_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, groups = tmp_path / "cgroup", tmp_path / "groups"
    monkeypatch.setattr(configuration, "_OWN_CGROUPS", ours)
    monkeypatch.setattr(configuration, "_CGROUPS", groups)
    everything = configuration.memory_bytes()
    (groups / "a" / "b").mkdir(parents=True)
    ours.write_text("0::/a/b\n")
    (groups / "a" / "b" / "memory.max").write_text("max\n")
    assert configuration.memory_bytes() == everything
    (groups / "a" / "memory.max").write_text(f"{2**29}\n")
    assert configuration.memory_bytes() == 2**29
    (groups / "memory").mkdir()
    (groups / "memory" / "memory.limit_in_bytes").write_text(f"{2**28}\n")
    assert configuration.memory_bytes() == 2**28


def test_a_new_cluster_is_made_without_shared_files_where_they_have_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(configuration.sys, "platform", "linux")
    monkeypatch.setattr(configuration, "_ENOUGH_SHARED_BYTES", 2**62)
    assert "--set=dynamic_shared_memory_type=mmap" in initdb_options("linux")
    monkeypatch.setattr(configuration, "_ENOUGH_SHARED_BYTES", 0)
    assert not [one for one in initdb_options("linux") if one.startswith("--set")]
