"""`butlers mcp` of a home that is up: a small process that hands on, and survives a restart."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, temporary_home, up
from interfaces.furnished import furnished_home
from interfaces.mcp.clients import INITIALIZE, call, over_stdio, refusal, request, stderr_of

MOST_CPU_SECONDS = 0.150
MOST_RESIDENT_KB = 40 * 1024


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general", "kitchen") as home:
        home.create_butler("general")
        home.create_butler("kitchen")
        chosen = home.butler_file("kitchen")
        chosen.write_text(chosen.read_text().replace("#consolidate = false", "consolidate = true"))
        yield home


@pytest.fixture(scope="module")
def daemon(home: Home) -> Iterator[Daemon]:
    with up(home) as daemon:
        yield daemon


@contextmanager
def forwarding(home: Home, butler: str = "general") -> Iterator["subprocess.Popen[str]"]:
    """A `butlers mcp` to talk to by hand."""
    command = [sys.executable, "-m", "butlers", "mcp", butler, "--home", str(home.root)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes) as running:  # type: ignore[call-overload]
        try:
            yield running
        finally:
            running.kill()


def say(running: "subprocess.Popen[str]", message: str) -> dict[str, Any]:
    assert running.stdin is not None and running.stdout is not None
    running.stdin.write(message + "\n")
    running.stdin.flush()
    return dict(json.loads(running.stdout.readline()))


def spent(pid: int) -> float:
    """Seconds of processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_it_is_ready_with_little_time_and_memory(daemon: Daemon) -> None:
    with forwarding(daemon.home) as running:
        answer = say(running, request("initialize", INITIALIZE))
        assert answer["result"]["serverInfo"]["name"] == "butlers-general"
        used, held = spent(running.pid), resident_kb(running.pid)
        print(f"forwarding: {used:.2f} s of CPU, {held / 1024:.1f} MB")
        assert used < MOST_CPU_SECONDS
        assert held < MOST_RESIDENT_KB


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_clients_own_transport_is_served_as_the_butlers_own_tenant(
    daemon: Daemon, mode: str
) -> None:
    async with over_stdio(daemon.home, mode) as client:
        assert len((await client.list_tools()).tools) == 19
        kept = await call(client, "memory_store_fact", subject=mode, predicate="is", content="kept")
        asked = {"memory_type": "fact", "memory_id": kept["id"], "detail": "full"}
        found = await call(client, "memory_get", **asked)
        assert found["result"]["tenant_id"] == "default"
        assert "no such argument" in await refusal(client, "memory_stats", nonsense=1)
        many = [call(client, "memory_search", query=f"{number} {mode}") for number in range(20)]
        assert all(answer["result"] for answer in await asyncio.gather(*many))
    assert stderr_of(daemon.home).read_text() == ""


async def test_each_butler_answers_for_itself(daemon: Daemon) -> None:
    with forwarding(daemon.home, "kitchen") as running:
        answer = await asyncio.to_thread(say, running, request("initialize", INITIALIZE))
        assert answer["result"]["serverInfo"]["name"] == "butlers-kitchen"


def test_what_a_butler_is_set_to_offer_is_offered_here_too(daemon: Daemon) -> None:
    with forwarding(daemon.home, "kitchen") as running:
        say(running, request("initialize", INITIALIZE))
        listed = say(running, request("tools/list", {}))["result"]["tools"]
        prompts = say(running, request("prompts/list", {}))["result"]["prompts"]
    names = {tool["name"] for tool in listed}
    assert {"memory_claim_episodes", "memory_submit_consolidation"} < names
    assert {prompt["name"] for prompt in prompts} == {"about", "consolidate"}


def test_an_agent_is_told_of_its_calls_from_the_level_it_sets(daemon: Daemon) -> None:
    counting = request("tools/call", {"name": "memory_stats", "arguments": {}})
    with forwarding(daemon.home) as running:
        capabilities = say(running, request("initialize", INITIALIZE))["result"]["capabilities"]
        assert {"logging", "completions", "resources", "prompts", "tools"} <= capabilities.keys()
        for level in ("warning", "info"):
            assert say(running, request("logging/setLevel", {"level": level}))["result"] == {}
            first = say(running, counting)
            assert ("result" in first) == (level == "warning")
        assert (first["params"]["level"], first["params"]["data"]["tool"]) == (
            "info",
            "memory_stats",
        )
        assert "result" in json.loads((running.stdout or running.stdin).readline())  # type: ignore[union-attr]


def test_the_socket_is_for_its_owner_and_goes_with_the_daemon(home: Home, daemon: Daemon) -> None:
    assert home.mcp_socket.stat().st_mode & 0o777 == 0o600
    told = butlers("mcp", "nobody", "--home", home.root, stdin=subprocess.DEVNULL)
    assert told.stderr.startswith("butlers: there is no butler 'nobody'")


@pytest.mark.parametrize("nonsense", ["", "null", "[]", '{"butler": 1}', '"x' * 100, "{" * 9])
def test_whoever_speaks_otherwise_is_let_go(daemon: Daemon, nonsense: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(daemon.home.mcp_socket))
        client.sendall(nonsense.encode() + b"\n")
        assert b"error" in client.recv(4096)
        assert client.recv(4096) == b""
    assert daemon.health() == 200


def test_a_line_that_is_no_message_does_not_end_it(daemon: Daemon) -> None:
    with forwarding(daemon.home) as running:
        say(running, request("initialize", INITIALIZE))
        assert running.stdin is not None and running.stdout is not None
        for nonsense in ("", "{", "null", '{"id": {}}', '{"a": "\\ud800"}', "[" * 5000):
            running.stdin.write(nonsense + "\n")
        running.stdin.write('{"jsonrpc": "2.0", "id": 77, "method": "tools/list"}\n')
        running.stdin.flush()
        while (answer := json.loads(running.stdout.readline())).get("id") != 77:
            pass
        assert len(answer["result"]["tools"]) == 19


def test_it_ends_with_its_client_and_leaves_nothing_at_the_daemon(daemon: Daemon) -> None:
    for ending in (None, signal.SIGTERM, signal.SIGINT):
        with forwarding(daemon.home) as running:
            say(running, request("initialize", INITIALIZE))
            assert running.stdin is not None
            running.stdin.close() if ending is None else running.send_signal(ending)
            assert running.wait(timeout=20) == 0
    assert daemon.health() == 200
    assert "Traceback" not in daemon.stderr


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_restart_is_told_and_survived(mode: str) -> None:
    with furnished_home("general") as home:
        home.create_butler("general")
        with up(home) as first:
            async with over_stdio(home, mode) as client:
                await call(client, "memory_store_rule", content="kept")
                await asyncio.to_thread(first.kill)
                with pytest.raises(MCPError, match="not running; start it with `butlers up`"):
                    await client.call_tool("memory_stats", {})
                with up(home) as second:
                    assert (await call(client, "memory_stats"))["rules"]["candidate"] == 1
                    await asyncio.to_thread(second.stop)
                    with pytest.raises(MCPError, match="not running"):
                        await client.call_tool("memory_stats", {})


def test_what_was_not_answered_when_the_butlers_stopped_is_told() -> None:
    """The other end is played: a real one answers before it can be stopped."""
    with temporary_home() as home, socket.socket(socket.AF_UNIX) as listener:
        home.create()
        listener.bind(str(home.mcp_socket))
        listener.listen()

        def stop_before_answering() -> None:
            found, _ = listener.accept()
            with found, found.makefile("rb") as said:
                said.readline()
                found.sendall(b'{"welcome": true}\n')
                said.readline()

        playing = threading.Thread(target=stop_before_answering)
        playing.start()
        with forwarding(home) as running:
            answer = say(running, request("tools/call", {"name": "memory_stats"}))
        playing.join(timeout=10)
    assert answer["id"] == 1
    assert "the call may have been done" in answer["error"]["message"]


def test_without_a_daemon_it_serves_by_itself(daemon: Daemon) -> None:
    with furnished_home("general") as home:
        home.create_butler("general")
        began = time.monotonic()
        with forwarding(home) as running:
            assert "result" in say(running, request("initialize", INITIALIZE))
            stats = say(running, request("tools/call", {"name": "memory_stats", "arguments": {}}))
            assert not stats["result"].get("isError", False)
            running.terminate()
            running.wait(timeout=20)
        assert time.monotonic() - began < 60
