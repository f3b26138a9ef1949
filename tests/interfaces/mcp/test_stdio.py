"""`butlers mcp`: answers at once whatever its start does, and says nothing but the protocol."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest

from butlers.db.embedded.liveness import processes_over
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, temporary_home
from interfaces.furnished import furnished_home
from interfaces.mcp.clients import INITIALIZE, call, over_stdio, refusal, request, stderr_of

CANARY = "quincunx canary of remembered text"
CLOSED = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """A home that nothing serves."""
    with furnished_home("general") as home:
        assert butlers("new", "general", "--home", home.root).returncode == 0
        yield home


@contextmanager
def setting(home: Home, line: str) -> Iterator[None]:
    """A home whose butler has other settings for a while."""
    file = home.butler_file("general")
    kept = file.read_text()
    file.write_text(f'[butler]\nname = "general"\n{line}\n')
    try:
        yield
    finally:
        file.write_text(kept)


@contextmanager
def process(home: Home) -> Iterator["subprocess.Popen[str]"]:
    """A `butlers mcp` to talk to by hand."""
    command = [sys.executable, "-m", "butlers", "mcp", "general", "--home", str(home.root)]
    with subprocess.Popen(
        command,
        env=ENVIRONMENT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def say(running: "subprocess.Popen[str]", message: str) -> dict[str, Any]:
    assert running.stdin is not None and running.stdout is not None
    running.stdin.write(message + "\n")
    running.stdin.flush()
    return dict(json.loads(running.stdout.readline()))


async def test_it_answers_while_a_migration_is_held_up(
    daemon: Daemon, rows: asyncpg.Connection
) -> None:
    # Out of sight, so that it is not handed on to the daemon but starts by itself.
    daemon.home.mcp_socket.rename(daemon.home.root / "aside")
    migrating = rows.transaction()
    await migrating.start()
    await rows.execute("lock table alembic_version in access exclusive mode")
    try:
        async with over_stdio(daemon.home) as client:
            assert len((await client.list_tools()).tools) == 19
            counting = asyncio.create_task(call(client, "memory_stats"))
            await waited_for(rows)
            assert len((await client.list_tools(cache_mode="bypass")).tools) == 19
            assert not counting.done(), "a call waits for the database"
            await migrating.commit()
            assert set(await counting) == {"episodes", "facts", "rules", "inbox"}
    finally:
        if rows.is_in_transaction():
            await migrating.rollback()
        (daemon.home.root / "aside").rename(daemon.home.mcp_socket)


async def waited_for(rows: asyncpg.Connection) -> None:
    """Somebody waits for our lock."""
    waiting = "select count(*) from pg_locks where locktype = 'relation' and not granted"
    async with asyncio.timeout(30):
        while not await rows.fetchval(waiting):
            await asyncio.sleep(0.05)


async def test_a_start_that_fails_is_told_by_every_call_and_tried_again(home: Home) -> None:
    with setting(home, f'[database]\nurl = "{CLOSED}"'):
        async with over_stdio(home, "legacy") as client:
            assert len((await client.list_tools()).tools) == 19
            for _ in range(2):
                said = await refusal(client, "memory_stats")
                assert said.startswith("butler general cannot start: the database does not answer")
                assert "Traceback" not in said
            assert len((await client.list_tools()).tools) == 19
    assert "cannot start" in stderr_of(home).read_text()


async def test_a_start_that_becomes_possible_succeeds() -> None:
    with temporary_home() as other:
        assert butlers("new", "general", "--home", other.root).returncode == 0
        in_the_way = other.database_directory
        in_the_way.write_text("not a directory")
        async with over_stdio(other) as client:
            said = await refusal(client, "memory_stats")
            assert said.startswith("butler general cannot start: ")
            in_the_way.unlink()
            rule = await call(client, "memory_store_rule", content="Try again")
            assert set(rule) == {"id"}


@pytest.mark.parametrize(
    ("broken", "named"),
    [('[butler]\nnmae = "x"\n', "butler.nmae"), ("[butler\n", "butler.toml")],
    ids=["unknown key", "not TOML"],
)
def test_broken_settings_end_it_with_a_line_for_each_fault(
    home: Home, broken: str, named: str
) -> None:
    file = home.butler_file("general")
    kept = file.read_text()
    file.write_text(broken)
    try:
        told = butlers("mcp", "general", "--home", home.root, stdin=subprocess.DEVNULL)
    finally:
        file.write_text(kept)
    assert told.returncode == 1
    assert told.stdout == ""
    assert len(told.stderr.splitlines()) == 1
    assert named in told.stderr


def test_a_butler_that_is_not_there_is_named(home: Home) -> None:
    told = butlers("mcp", "nobody", "--home", home.root, stdin=subprocess.DEVNULL)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("butlers: there is no butler 'nobody'")


def test_stdout_carries_the_protocol_alone_and_stderr_no_memory(home: Home) -> None:
    with process(home) as running:
        answers = [say(running, request("initialize", INITIALIZE))]
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        for tool, arguments in [
            ("memory_store_rule", {"content": CANARY}),
            ("memory_search", {"query": CANARY}),
            ("memory_store_rule", {"content": CANARY, "unknown": CANARY}),
            ("memory_get", {"memory_type": CANARY, "memory_id": CANARY}),
        ]:
            params = {"name": tool, "arguments": arguments}
            answers.append(say(running, request("tools/call", params)))
        running.stdin.close()
        rest, told = running.stdout.read(), (running.stderr or running.stdout).read()
        assert running.wait(timeout=20) == 0
    assert rest == ""
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert CANARY in json.dumps(answers[2])
    assert [answer["result"].get("isError", False) for answer in answers[1:]] == [
        False,
        False,
        True,
        True,
    ]
    assert CANARY not in told
    assert told == ""


def test_a_line_that_is_no_message_does_not_end_it(home: Home) -> None:
    with process(home) as running:
        say(running, request("initialize", INITIALIZE))
        assert running.stdin is not None and running.stdout is not None
        for nonsense in ("", "{", "null", '{"a": "\\ud800"}', "[" * 5000):
            running.stdin.write(nonsense + "\n")
        running.stdin.write('{"jsonrpc": "2.0", "id": 77, "method": "tools/list"}\n')
        running.stdin.flush()
        while True:
            answer = json.loads(running.stdout.readline())
            if answer.get("id") == 77:
                break
        assert len(answer["result"]["tools"]) == 19


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_lets_go_of_the_database(home: Home, number: int) -> None:
    data = EmbeddedPostgres(home.database_directory).data_directory
    with process(home) as running:
        say(running, request("initialize", INITIALIZE))
        say(running, request("tools/call", {"name": "memory_stats", "arguments": {}}))
        assert processes_over(data)
        began = time.monotonic()
        os.kill(running.pid, number)
        assert running.wait(timeout=20) == 0
        assert time.monotonic() - began < 10
    assert not processes_over(data)
