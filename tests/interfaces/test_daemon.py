"""`butlers up` as a real process: started, told to stop, killed, and started again."""

import asyncio
import fcntl
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from butlers.auth.token_store import TokenStore
from butlers.db.embedded.liveness import processes_over, read_pid_file
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.interfaces import daemon
from butlers.interfaces.daemon import started_butlers
from butlers.interfaces.http.app_state import Stage, StartStage
from butlers.settings.files import load_house
from interfaces.daemons import ENVIRONMENT, PROGRAM, Daemon, butlers, temporary_home, until, up
from interfaces.test_server import bearer

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests here: each leaves it stopped and usable."""
    with temporary_home() as home:
        yield home


def data(home: Home) -> Path:
    return EmbeddedPostgres(home.database_directory).data_directory


def is_down(home: Home) -> bool:
    return not processes_over(data(home))


def url(home: Home) -> str:
    return DatabaseServer(home).running_url("general")


async def test_a_ready_daemon_does_not_look_through_what_it_loaded_again_and_again():
    """A collection of all that was imported would hold every caller for a fifth of a second."""
    progress = StartStage()
    try:
        await daemon._warm_up({}, progress)
        assert progress.stage is Stage.READY
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        gc.unfreeze()


async def fetch(home: Home, statement: str) -> object:
    connection = await asyncpg.connect(url(home))
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def refusal(home: Home, *arguments: object) -> str:
    """The one line a start is refused with."""
    told = butlers("up", "--home", home.root, *arguments)
    assert told.returncode == 1
    assert told.stdout == ""
    lines = told.stderr.splitlines()
    assert len(lines) == 1, told.stderr
    return lines[0]


def test_the_first_start_furnishes_the_home_and_tells_how_to_connect(home: Home) -> None:
    with up(home, program=PROGRAM) as daemon:
        assert daemon.health() == 200
        running = daemon.running
        assert running["pid"] == daemon.process.pid
        assert running["url"].startswith("http://127.0.0.1:")
        assert running["butlers"] == {"general": {"mcp": f"{running['url']}/butlers/general/mcp"}}
        assert running["butlers"]["general"]["mcp"] in daemon.stdout
        assert "connect claude-code" in daemon.stdout and "token new" in daemon.stdout
        token = daemon.first_token
        assert daemon.stdout.count(token) == 1
        assert home.tokens_file.stat().st_mode & 0o777 == 0o600
        assert token not in home.tokens_file.read_text()
        assert daemon.stop() == 0
    assert not home.run_file.exists()
    assert is_down(home)
    for text in (daemon.stderr, daemon.log):
        assert token not in text
        assert all(json.loads(line)["event"] for line in text.splitlines())


def test_a_later_start_shows_no_token(home: Home) -> None:
    kept = home.tokens_file.read_text()
    with up(home) as daemon:
        assert "btl_" not in daemon.stdout
        assert "butlers token new" in daemon.stdout
    assert home.tokens_file.read_text() == kept


def test_what_keeps_a_home_from_starting_is_told_apart(home: Home) -> None:
    with up(home) as daemon:
        assert "is already running" in refusal(home, "--port", 0)
        assert daemon.health() == 200
        assert daemon.running["pid"] == daemon.process.pid
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} on 127.0.0.1 is in use" in refusal(home, "--port", port)
    assert "command line: host" in refusal(home, "--host", "0.0.0.0")
    assert "command line: port" in refusal(home, "--port", 99999)
    assert "not an address of this machine" in refusal(
        home, "--host", "192.0.2.7", "--allow-remote", "--port", 0
    )
    assert is_down(home)


def test_every_fault_of_the_settings_is_one_line(home: Home) -> None:
    file = home.butler_file("general")
    kept = file.read_text()
    file.write_text('[butler]\nnmae = "x"\n[server]\nport = "many"\n')
    try:
        told = butlers("up", "--home", home.root)
    finally:
        file.write_text(kept)
    assert told.returncode == 1
    assert "Traceback" not in told.stderr
    lines = told.stderr.splitlines()
    assert len(lines) == 2
    assert any("butler.nmae" in line for line in lines)
    assert any("server.port" in line for line in lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_open_stream_does_not_hold_up_a_stop(home: Home, number: int) -> None:
    _, token = TokenStore(home.tokens_file).create("general", "default")
    with up(home) as daemon:
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
            headers = bearer(token) | {"Accept": "text/event-stream"}
            async with client.stream("GET", daemon.mcp(), headers=headers) as stream:
                assert stream.status_code == 200
                began = time.monotonic()
                assert await asyncio.to_thread(daemon.stop, number) == 0
                assert time.monotonic() - began < 10
    assert not home.run_file.exists()
    assert {json.loads(line)["level"] for line in daemon.stderr.splitlines()} == {"info"}
    assert is_down(home)


def test_a_stop_during_the_start_leaves_nothing_behind(home: Home) -> None:
    daemon = Daemon(home)
    until(lambda: not is_down(home) or daemon.process.poll() is not None)
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.stderr
    assert not home.run_file.exists()
    assert is_down(home)


async def test_a_killed_daemon_is_replaced_on_the_same_port(home: Home) -> None:
    with up(home) as first:
        port = first.url.rsplit(":", 1)[1]
        await fetch(home, "create table kept as select 7 as id")
        first.kill()
    stale = json.loads(home.run_file.read_text())
    with up(home, "--port", port) as second:
        assert second.running["pid"] != stale["pid"]
        assert second.health() == 200
        assert await fetch(home, "select id from kept") == 7
        assert second.stop() == 0
    assert not home.run_file.exists()
    assert is_down(home)


def test_a_database_server_that_dies_is_started_again(home: Home) -> None:
    with up(home) as daemon:
        listed = read_pid_file(data(home))
        assert listed is not None
        with (home.database_directory / "turn").open() as turn:
            # While we hold this lock nobody starts the server, so that its absence can be seen.
            fcntl.flock(turn, fcntl.LOCK_EX)
            os.kill(listed.pid, signal.SIGKILL)
            until(lambda: daemon.health() == 503)
        until(lambda: daemon.health() == 200, seconds=30)
        until(lambda: "had died and was started again" in daemon.log)
        assert daemon.stop() == 0
    assert is_down(home)


async def test_four_writers_lose_nothing_when_the_daemon_is_killed(
    home: Home, tmp_path: Path
) -> None:
    """The writers use the daemon's database; daemon and database server are both killed."""
    acknowledged = tmp_path / "acknowledged"
    with up(home) as daemon:
        await fetch(home, "create table written (id bigint primary key)")
        command = [sys.executable, str(HERE / "database_writers.py"), url(home), str(acknowledged)]
        writers = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        until(lambda: acknowledged.exists() and acknowledged.stat().st_size > 1000)
        listed = read_pid_file(data(home))
        assert listed is not None
        daemon.kill()
        os.kill(listed.pid, signal.SIGKILL)
        writers.wait(timeout=30)
    ids = {int(line) for line in acknowledged.read_text().split()}
    with up(home):
        rows = await fetch(home, "select array_agg(id) from written")
    assert isinstance(rows, list)
    assert ids <= set(rows)


@pytest.mark.contract("P8")
@pytest.mark.parametrize("first", ["daemon", "other"])
async def test_two_processes_share_a_home_and_either_may_end_first(home: Home, first: str) -> None:
    house = load_house(home.settings_file, home.butler_files())
    with up(home) as daemon:
        async with started_butlers(home, house) as here:
            if first == "daemon":
                assert daemon.stop() == 0
            health = await here["general"].health()
            assert health["memory"].ok
            assert not is_down(home)
        assert is_down(home) == (first == "daemon")
        if first == "other":
            assert daemon.health() == 200
    assert is_down(home)
