"""The HTTP door of a running home: who is let in, and what it says of its health."""

import asyncio
import socket
from collections.abc import Iterator

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from butlers.interfaces.http_server import listen
from interfaces.daemons import Daemon, butlers, up
from interfaces.furnished import furnished_home

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with furnished_home() as home:
        assert butlers("new", "kitchen", "--home", home.root).returncode == 0
        assert butlers("new", "office", "--home", home.root).returncode == 0
        with up(home) as running:
            yield running


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False, timeout=30) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return ACCEPT | {"Authorization": f"Bearer {token}"}


def test_health_names_every_butler_and_its_modules(daemon: Daemon, client: httpx2.Client) -> None:
    assert client.get(f"{daemon.url}/health").json() == {"status": "ok"}
    answer = client.get(f"{daemon.url}/health", headers=bearer(daemon.first_token))
    assert answer.status_code == 200
    report = answer.json()
    assert report["status"] == "ok"
    assert set(report["butlers"]) == {"kitchen", "office"}
    assert report["butlers"]["kitchen"]["modules"]["memory"]["status"] == "ok"


def test_metrics_say_which_butlers_are_well(daemon: Daemon, client: httpx2.Client) -> None:
    answer = client.get(f"{daemon.url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'butlers_butler_up{butler="office"} 1.0' in answer.text


def test_metrics_count_the_runs_of_jobs(daemon: Daemon, client: httpx2.Client) -> None:
    _, operator = TokenStore(daemon.home.tokens_file).create(
        "kitchen", "default", rights=Right.OPERATE
    )
    headers = bearer(operator)
    path = f"{daemon.url}/api/butlers/kitchen/memory/jobs/decay_sweep/run"
    assert client.post(path, headers=headers).json()["run"]["outcome"] == "ok"
    counted = 'butlers_job_runs_total{butler="kitchen",job="decay_sweep",outcome="ok"} 1.0'
    assert counted in client.get(f"{daemon.url}/metrics").text


@pytest.mark.contract("N9.3")
async def test_a_client_with_the_token_of_its_butler_is_served(daemon: Daemon) -> None:
    async with (
        httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {daemon.first_token}"}, trust_env=False
        ) as http,
        Client(streamable_http_client(daemon.mcp("kitchen"), http_client=http)) as session,
    ):
        await session.list_tools()


@pytest.mark.contract("N9.3")
@pytest.mark.parametrize(
    "headers",
    [ACCEPT, bearer("btl_wrong"), ACCEPT | {"Authorization": "Basic Zm9vOmJhcg=="}],
    ids=["none", "wrong", "basic"],
)
def test_without_a_valid_token_nobody_is_served(
    daemon: Daemon, client: httpx2.Client, headers: dict[str, str]
) -> None:
    assert client.post(daemon.mcp("kitchen"), json=INITIALIZE, headers=headers).status_code == 401


@pytest.mark.contract("N9.3")
def test_the_token_of_another_butler_is_refused(daemon: Daemon, client: httpx2.Client) -> None:
    headers = bearer(daemon.first_token)
    assert client.post(daemon.mcp("kitchen"), json=INITIALIZE, headers=headers).status_code == 200
    assert client.post(daemon.mcp("office"), json=INITIALIZE, headers=headers).status_code == 401


def test_a_token_works_from_its_making_to_its_revocation(
    daemon: Daemon, client: httpx2.Client
) -> None:
    store = TokenStore(daemon.home.tokens_file)
    record, token = store.create("office", "acme")
    ask = {"url": daemon.mcp("office"), "json": INITIALIZE, "headers": bearer(token)}
    assert client.post(**ask).status_code == 200
    store.revoke(record.id)
    assert client.post(**ask).status_code == 401


@pytest.mark.parametrize("path", ["/health", "/metrics", "/butlers/kitchen/mcp"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8900", "127.0.0.1.evil.example"])
def test_a_strange_host_is_refused_everywhere(
    daemon: Daemon, client: httpx2.Client, path: str, host: str
) -> None:
    headers = bearer(daemon.first_token) | {"Host": host}
    assert client.get(daemon.url + path, headers=headers).status_code in (400, 421)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example"]
)
def test_a_strange_origin_is_refused(daemon: Daemon, client: httpx2.Client, origin: str) -> None:
    headers = bearer(daemon.first_token) | {"Origin": origin}
    answer = client.post(daemon.mcp("kitchen"), json=INITIALIZE, headers=headers)
    assert answer.status_code == 403


def test_a_page_of_this_machine_may_call(daemon: Daemon, client: httpx2.Client) -> None:
    headers = bearer(daemon.first_token) | {"Origin": "http://localhost:3000"}
    answer = client.post(daemon.mcp("kitchen"), json=INITIALIZE, headers=headers)
    assert answer.status_code == 200


def test_a_body_of_more_than_four_mebibytes_is_refused(
    daemon: Daemon, client: httpx2.Client
) -> None:
    headers = bearer(daemon.first_token) | {"Content-Type": "application/json"}
    body = b"[" + b" " * (4 * 2**20) + b"]"
    answer = client.post(daemon.mcp("kitchen"), content=body, headers=headers)
    assert answer.status_code == 413
    assert client.get(f"{daemon.url}/health").status_code == 200


def test_there_is_nothing_behind_other_paths(daemon: Daemon, client: httpx2.Client) -> None:
    for path in ("/butlers/nobody/mcp", "/butlers/kitchen/x", "/butlers/..%2fkitchen/mcp"):
        headers = bearer(daemon.first_token)
        assert client.post(daemon.url + path, headers=headers).status_code == 404


def test_a_damaged_list_of_tokens_opens_no_door(daemon: Daemon, client: httpx2.Client) -> None:
    file = daemon.home.tokens_file
    kept, token = file.read_text(), daemon.first_token
    file.write_text(kept[: len(kept) // 2])
    try:
        answer = client.post(daemon.mcp("kitchen"), json=INITIALIZE, headers=bearer(token))
        assert answer.status_code == 401
        assert "is damaged" in daemon.log
    finally:
        file.write_text(kept)
    answer = client.post(daemon.mcp("kitchen"), json=INITIALIZE, headers=bearer(token))
    assert answer.status_code == 200


def test_no_token_is_ever_logged(daemon: Daemon, client: httpx2.Client) -> None:
    secret = "btl_somebody_elses_secret"
    client.post(daemon.mcp("kitchen"), json=INITIALIZE, headers=bearer(secret))
    client.get(f"{daemon.url}/health", headers=bearer(daemon.first_token))
    for text in (daemon.log, daemon.stderr):
        assert daemon.first_token not in text
        assert secret not in text


async def test_answers_are_sent_at_once_on_a_connection_that_is_kept() -> None:
    waits: list[int] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        waits.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listen("127.0.0.1", 0) as listener:
        async with await asyncio.start_server(answer, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
    assert waits == [1]
