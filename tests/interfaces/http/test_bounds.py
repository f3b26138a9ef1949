"""What one caller may take at the doors, and that nobody else is made to pay for it."""

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import httpx2
import pytest

from butlers.host.home import Home
from butlers.kernel.json_values import TOO_DEEP
from interfaces.daemons import Daemon, butlers, up
from interfaces.forked import with_defaults
from interfaces.furnished import furnished_home
from interfaces.http.callers import ApiCaller, calling, token_store
from interfaces.http.hostile_bodies import Request, hostile_requests
from interfaces.mcp.clients import connect

HOSTILE = int(os.environ.get("HOSTILE_REQUESTS", "500"))
"""How many hostile requests are sent; HOSTILE_REQUESTS=10000 takes some minutes."""
SEND_SECONDS = 4.0
PER_MINUTE = 100_000
LIMITER = "butlers.interfaces.http.request_limits:RequestLimiter.__init__"
FACT = {"subject": "Ann", "predicate": "likes", "content": "tea"}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with furnished_home("general") as home:
        home.create_butler("general")
        bounds = with_defaults(
            {
                "butlers.interfaces.http_server:HttpServer.__init__": {
                    "send_seconds": SEND_SECONDS
                },
                "butlers.interfaces.http.request_limits:RequestLimiter.__init__": {
                    "per_minute": PER_MINUTE
                },
                "butlers.db.pool:PoolLimits.__init__": {"lock_timeout": 1.0},
            }
        )
        with up(home, environment=bounds) as running:
            yield running


@pytest.fixture
async def rows(daemon: Daemon) -> AsyncIterator[asyncpg.Connection]:
    connection = await connect(daemon.home)
    yield connection
    await connection.close()


async def test_hostile_requests_are_refused_in_words(daemon: Daemon, caller: ApiCaller) -> None:
    spec = (await caller.send("GET", "/api/openapi.json")).json()
    answers: Counter[int] = Counter()
    waiting = hostile_requests(spec, HOSTILE)

    async def send() -> None:
        for one in waiting:
            answer = await _sent(caller, one)
            answers[answer.status_code] += 1
            assert answer.status_code < 500, (one, answer.text)
            assert answer.is_success or answer.json()["error"]["message"]

    await asyncio.gather(*(send() for _ in range(4)))
    print(f"{HOSTILE} hostile requests: {dict(sorted(answers.items()))}")
    assert answers[200] and answers[400] and answers[422]
    for path in ("/facts", "/rules", "/episodes", "/entities", "/activity", "/glance"):
        await caller.get(path)
    await caller.get("/search", query="tea")
    assert "Traceback" not in daemon.log and daemon.health() == 200


async def _sent(caller: ApiCaller, one: Request) -> httpx2.Response:
    headers = {"Content-Type": one.kind}
    return await caller.send(
        one.method, one.path, params=one.query, content=one.body, headers=headers
    )


async def test_a_row_that_cannot_be_shown_does_not_fail_its_neighbours(
    caller: ApiCaller, rows: asyncpg.Connection
) -> None:
    deep: Any = 1
    for _ in range(33):
        deep = [deep]
    status, error = await caller.refused("POST", "/facts", json={**FACT, "metadata": {"a": deep}})
    assert status == 400 and "more than 32 deep" in error["message"]
    ids = [(await caller.post("/facts", {**FACT, "subject": name}))["id"] for name in "abc"]
    for place, depth in enumerate((253, 3_000)):
        bad = '{"a":' * depth + "1" + "}" * depth
        await rows.execute("update facts set metadata = $2::text::jsonb where id = $1",
                           ids[place], bad)  # fmt: skip
    found = await caller.get("/search", query="tea", detail="full")
    assert {one["id"] for one in found["items"]} == set(ids)
    listed = (await caller.get("/facts"))["items"]
    assert len(listed) == 3
    assert TOO_DEEP in str(await caller.get(f"/facts/{ids[0]}"))
    assert TOO_DEEP in str(await caller.get(f"/facts/{ids[1]}"))
    assert len(await caller.post("/recall", {"topic": "tea"})) == 3


async def test_half_sent_requests_are_let_go_while_others_are_served(
    daemon: Daemon, caller: ApiCaller
) -> None:
    host, _, port = daemon.url.removeprefix("http://").partition(":")
    head = f"POST /api/butlers/general/memory/facts HTTP/1.1\r\nHost: {host}:{port}\r\n"
    body = f"{head}Content-Length: 100\r\n\r\n{{"
    slow = [socket.create_connection((host, int(port)), timeout=20) for _ in range(300)]
    try:
        for number, one in enumerate(slow):
            one.sendall((head, body, "")[number % 3].encode())
        assert (await caller.send("GET", "/health")).status_code == 200
        await asyncio.to_thread(_wait_until_closed, slow)
    finally:
        for one in slow:
            one.close()
    assert "Traceback" not in daemon.stderr


def _wait_until_closed(slow: list[socket.socket]) -> None:
    began = time.monotonic()
    for one in slow:
        try:
            while one.recv(4096):
                pass
        except ConnectionResetError:
            pass
    assert time.monotonic() - began < SEND_SECONDS + 10


async def test_writers_of_a_locked_key_keep_no_reader_waiting(
    daemon: Daemon, caller: ApiCaller, stranger: ApiCaller, rows: asyncpg.Connection
) -> None:
    await caller.post("/facts", FACT)
    async with rows.transaction():
        await rows.execute(
            "select 1 from facts where tenant_id = (select tenant_id from facts "
            "order by created_at desc limit 1) for update"
        )
        path = "/api/butlers/general/memory/facts"
        writing = [asyncio.create_task(caller.send("POST", path, json=FACT)) for _ in range(12)]
        await asyncio.sleep(0.2)
        began = time.monotonic()
        await caller.get("/facts")
        await stranger.post("/facts", FACT)
        took = time.monotonic() - began
        first = await next(iter(asyncio.as_completed(writing)))
    answers = [(await one).status_code for one in writing]
    assert took < 1.0, took
    assert first.status_code == 409
    assert "somebody else is changing the same" in first.json()["error"]["message"]
    assert set(answers) <= {201, 409}


async def test_a_token_that_asks_too_much_is_told_when_to_come_back() -> None:
    with furnished_home("general") as home:
        home.create_butler("general")
        with up(home, environment=with_defaults({LIMITER: {"per_minute": 30}})) as daemon:
            async with calling(daemon, "eager") as eager, calling(daemon, "other") as other:
                sent = [await eager.send("GET", "/api/butlers") for _ in range(40)]
                refused = [one for one in sent if one.status_code == 429]
                assert refused and 1 <= int(refused[0].headers["retry-after"]) <= 2
                assert (await other.send("GET", "/api/butlers")).status_code == 200
            _health_says_little_to_strangers(daemon, home)


def _health_says_little_to_strangers(daemon: Daemon, home: Home) -> None:
    with httpx2.Client(trust_env=False) as http:
        assert http.get(f"{daemon.url}/health").json() == {"status": "ok"}
        _, token = token_store(home).create("general", "default")
        known = http.get(f"{daemon.url}/health", headers={"Authorization": f"Bearer {token}"})
    assert known.json()["butlers"]["general"]["status"] == "ok"
    assert home.run_file.stat().st_mode & 0o777 == 0o600
    assert "general" in butlers("status", "--home", home.root).stdout


@pytest.mark.contract("L41")
async def test_reading_goes_on_where_nothing_can_be_written(
    daemon: Daemon, caller: ApiCaller, rows: asyncpg.Connection
) -> None:
    await caller.post("/facts", FACT)
    database = await rows.fetchval("select current_database()")
    setting = f'alter database "{database}" set default_transaction_read_only'
    await rows.execute(f"{setting} = on")
    try:
        await _reconnected(rows)
        assert (await caller.get("/search", query="tea"))["items"]
        assert await caller.post("/recall", {"topic": "tea"})
        assert "tea" in (await caller.post("/context", {"trigger_prompt": "tea"}))["text"]
        hook = {"json": {"session_id": "s-1", "cwd": "/tea"}}
        told = await caller.send("POST", "/butlers/general/hooks/SessionStart", **hook)
        assert told.status_code == 200 and "tea" in told.json()["context"]
        assert (await caller.refused("POST", "/facts", json=FACT))[0] == 503
        await asyncio.sleep(5)  # how long a write that worked is believed
        health = await caller.send("GET", "/health")
        assert health.status_code == 503
        assert "nothing can be written" in health.json()["butlers"]["general"]["error"]
    finally:
        await rows.execute("set default_transaction_read_only = off")
        await rows.execute(f"{setting} = off")
        await _reconnected(rows)
    await caller.post("/facts", FACT)


async def _reconnected(rows: asyncpg.Connection) -> None:
    """Those who are served ask for new connections, to which a setting applies."""
    await rows.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'butlers'"
    )
    await asyncio.sleep(0.3)
