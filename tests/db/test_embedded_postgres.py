"""The embedded server with real processes: started, shared and killed."""

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from butlers.db.embedded import liveness
from butlers.db.embedded.account import account_for
from butlers.db.embedded.configuration import buffers_mb
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.errors import Unavailable
from db.embedded_servers import (
    ENVIRONMENT,
    HERE,
    Holder,
    copied,
    fetch,
    holding,
    initialised_cluster,
    is_down,
    new_directory,
    passable_directory,
    postmaster,
    until,
)

new = pytest.fixture(new_directory)
template = pytest.fixture(scope="module")(initialised_cluster)


@pytest.fixture
def home(new: Path, template: Path) -> Path:
    return copied(template, new)


@pytest.fixture(scope="module")
def server(template: Path) -> Iterator[EmbeddedPostgres]:
    with (
        passable_directory() as directory,
        EmbeddedPostgres(copied(template, directory / "shared")) as running,
    ):
        yield running


# --- starting and stopping


async def test_a_cold_start_makes_a_cluster_and_a_warm_start_finds_it(new: Path) -> None:
    with EmbeddedPostgres(new) as first:
        await fetch(first.dsn(), "create table kept as select 7 as id")
    assert is_down(new)
    with EmbeddedPostgres(new) as second:
        assert await fetch(second.dsn(), "select id from kept") == 7
    assert is_down(new)


def test_stopping_twice_or_without_a_start_does_nothing(new: Path) -> None:
    never_started = EmbeddedPostgres(new)
    never_started.stop()
    never_started.stop()
    assert not new.exists()
    with pytest.raises(Unavailable, match="start"):
        never_started.dsn()


async def test_it_listens_on_a_private_socket_alone(server: EmbeddedPostgres) -> None:
    assert await fetch(server.dsn(), "show listen_addresses") == ""
    assert await fetch(server.dsn(), "show fsync") == "on"
    assert server.socket_directory.stat().st_mode & 0o777 == 0o700
    assert server.data_directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("memory_gb", "megabytes"), [(0.5, 128), (4, 512), (64, 4096)])
def test_it_keeps_an_eighth_of_the_memory_within_bounds(memory_gb: float, megabytes: int) -> None:
    assert buffers_mb(int(memory_gb * 2**30)) == megabytes


async def test_it_is_told_how_much_it_may_keep(server: EmbeddedPostgres) -> None:
    told = await fetch(server.dsn(), "select pg_size_bytes(current_setting('shared_buffers'))")
    assert 128 * 2**20 <= told <= 2**32


@pytest.mark.parametrize("name", ["uuid-ossp", "vector", "pg_trgm", "pg_stat_statements"])
async def test_the_extensions_are_there(server: EmbeddedPostgres, name: str) -> None:
    await fetch(server.dsn(), f'create extension "{name}"')
    found = await fetch(server.dsn(), f"select count(*) from pg_extension where extname = '{name}'")
    assert found == 1


async def test_uuid_functions_agree_with_the_standard_library(server: EmbeddedPostgres) -> None:
    connection = await asyncpg.connect(server.dsn())
    try:
        await connection.execute('create extension if not exists "uuid-ossp"')
        row = await connection.fetchrow(
            "select uuid_generate_v4() v4, uuid_nil() nil, uuid_ns_dns() dns, uuid_ns_url() url, "
            "uuid_ns_oid() oid, uuid_ns_x500() x500, "
            "uuid_generate_v3(uuid_ns_url(), 'größe') named"
        )
    finally:
        await connection.close()
    assert row["v4"].version == 4
    assert row["nil"].int == 0
    assert row["dns"] == uuid.NAMESPACE_DNS
    assert row["url"] == uuid.NAMESPACE_URL
    assert row["oid"] == uuid.NAMESPACE_OID
    assert row["x500"] == uuid.NAMESPACE_X500
    assert row["named"] == uuid.uuid3(uuid.NAMESPACE_URL, "größe")


def test_the_module_is_light_to_import() -> None:
    code = "import sys, butlers.db.embedded.shared_server; print('asyncpg' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert told.stdout.strip() == "False"


# --- sharing


@pytest.mark.parametrize("first_out", [0, 1])
async def test_whoever_ends_first_leaves_the_server_to_the_other(
    home: Path, first_out: int
) -> None:
    holders = [Holder(home), Holder(home)]
    dsn = [holder.says() for holder in holders][0].removeprefix("ready ")
    holders[first_out].let_go()
    assert await fetch(dsn, "select 1") == 1
    holders[1 - first_out].let_go()
    assert is_down(home)


async def test_two_objects_of_one_process_share_a_server(home: Path) -> None:
    first, second = EmbeddedPostgres(home), EmbeddedPostgres(home)
    first.start()
    second.start()
    first.stop()
    assert await fetch(second.dsn(), "select 1") == 1
    second.stop()
    assert is_down(home)


def test_processes_that_start_together_get_one_server(new: Path) -> None:
    holders = [Holder(new) for _ in range(4)]
    assert len({holder.says() for holder in holders}) == 1
    for holder in holders:
        holder.let_go()
    assert is_down(new)


async def test_a_killed_holder_does_not_stop_the_server_for_others(home: Path) -> None:
    killed = Holder(home)
    killed.says()
    with EmbeddedPostgres(home) as other:
        killed.kill()
        assert await fetch(other.dsn(), "select 1") == 1
    assert is_down(home)


def test_a_server_left_by_a_killed_holder_is_stopped_by_the_next_last_one(home: Path) -> None:
    killed = Holder(home)
    killed.says()
    killed.kill()
    left = postmaster(home)
    with EmbeddedPostgres(home):
        assert postmaster(home) == left
    assert is_down(home)


async def test_an_interrupt_from_the_terminal_does_not_reach_the_server(home: Path) -> None:
    with holding(home) as holder:
        dsn, before = holder.says().removeprefix("ready "), postmaster(home)
        os.killpg(holder.process.pid, signal.SIGINT)
        assert holder.says() == "interrupted"
        assert await fetch(dsn, "select 1") == 1
        assert postmaster(home) == before
    assert is_down(home)


def test_an_interrupt_from_the_terminal_does_not_reach_the_set_up(new: Path) -> None:
    with holding(new) as holder:
        until(lambda: list(new.glob("initdb-*/global/pg_control")))
        os.killpg(holder.process.pid, signal.SIGINT)
        assert holder.says() == "interrupted"
        assert holder.says().startswith("ready")
    assert is_down(new)


# --- kills


async def test_a_holder_brings_a_killed_server_back(home: Path) -> None:
    with EmbeddedPostgres(home) as held:
        os.kill(postmaster(home), signal.SIGKILL)
        held.start()
        assert await fetch(held.dsn(), "select 1") == 1
    assert is_down(home)


async def test_acknowledged_rows_survive_when_writers_and_server_are_killed(home: Path) -> None:
    acknowledged = home.parent / "acknowledged"
    writers = subprocess.Popen(
        [sys.executable, HERE / "postgres_writers.py", home, acknowledged],
        env=ENVIRONMENT,
    )
    until(lambda: acknowledged.exists() and acknowledged.stat().st_size > 2000)
    os.kill(postmaster(home), signal.SIGKILL)
    writers.kill()
    writers.wait()
    promised = {int(line) for line in acknowledged.read_text().splitlines()}
    with EmbeddedPostgres(home) as recovered:
        kept = await fetch(recovered.dsn(), "select array_agg(id) from written")
    assert len(promised) > 100
    assert promised <= set(kept)


async def test_a_pid_file_whose_pid_was_reused_does_not_hinder_the_start(home: Path) -> None:
    account = account_for(home / "data")
    stranger = subprocess.Popen(["sleep", "60"], **account._identity())
    try:
        with EmbeddedPostgres(home):
            lines = (home / "data/postmaster.pid").read_text().splitlines()
            os.kill(postmaster(home), signal.SIGKILL)
        until(lambda: is_down(home))
        for lock in (home / "data/postmaster.pid", home / "run/.s.PGSQL.5432.lock"):
            lock.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
            account.give(lock)
        with EmbeddedPostgres(home) as server:
            assert await fetch(server.dsn(), "select 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_an_empty_pid_file_does_not_hinder_the_start(home: Path) -> None:
    (home / "data/postmaster.pid").touch()
    account_for(home / "data").give(home / "data/postmaster.pid")
    with EmbeddedPostgres(home) as server:
        assert await fetch(server.dsn(), "select 1") == 1


def test_a_killed_set_up_leaves_no_half_cluster(new: Path) -> None:
    killed = Holder(new)
    until(lambda: list(new.glob("initdb-*/base")))
    killed.kill()
    assert not (new / "data").exists()
    with EmbeddedPostgres(new):
        assert list(new.glob("initdb-*")) == []
    assert is_down(new)


@pytest.mark.skipif(
    shutil.which("lsof") is None or not Path("/proc").is_dir(), reason="needs lsof and /proc"
)
def test_both_ways_of_listing_processes_agree(server: EmbeddedPostgres) -> None:
    data = server.data_directory
    found = liveness._from_lsof(data) & liveness._from_proc(data)
    assert postmaster(data.parent) in found
