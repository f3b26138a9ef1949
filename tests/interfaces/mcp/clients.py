"""Real MCP clients of a real butler, and what its database holds."""

import json
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT, Daemon

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


@asynccontextmanager
async def over_http(
    daemon: Daemon, token: str, mode: str = "auto", query: str = ""
) -> AsyncIterator[Client]:
    """The SDK's client on streamable HTTP."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(daemon.mcp() + query, http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(
    home: Home, mode: str = "auto", *options: str, **callbacks: Any
) -> AsyncIterator[Client]:
    """The SDK's client on a `butlers mcp` of its own; what that said on stderr is in a file."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "butlers", "mcp", "general", "--home", str(home.root), *options],
        env=ENVIRONMENT,
    )
    with stderr_of(home).open("w") as told:
        transport = stdio_client(server, errlog=told)
        async with Client(transport, mode=mode, **callbacks) as client:
            yield client


def stderr_of(home: Home) -> Path:
    """Where `over_stdio` keeps what the server says on stderr."""
    return home.root.parent / "stdio.stderr"


class RawClient:
    """JSON-RPC over HTTP by hand, for what no well-behaved client would send."""

    def __init__(self, http: httpx2.AsyncClient, url: str, token: str) -> None:
        self._http, self._url = http, url
        self.headers = ACCEPT | {"Authorization": f"Bearer {token}"}

    async def open(self) -> "RawClient":
        answer = await self.post(request("initialize", INITIALIZE))
        assert answer.status_code == 200, answer.text
        self.headers["Mcp-Protocol-Version"] = INITIALIZE["protocolVersion"]
        await self.post('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return self

    async def post(self, body: str | bytes) -> httpx2.Response:
        return await self._http.post(self._url, content=body, headers=self.headers)

    async def call(self, tool: str, arguments: str) -> httpx2.Response:
        """Call a tool with arguments that are JSON text already."""
        name = json.dumps(tool)
        return await self.post(
            '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": '
            f'{name}, "arguments": {arguments}}}}}'
        )


@asynccontextmanager
async def raw_client(daemon: Daemon, token: str) -> AsyncIterator[RawClient]:
    """A session opened by hand."""
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        yield await RawClient(http, daemon.mcp(), token).open()


def request(method: str, params: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def told(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC answer in a response, be it JSON or an event stream."""
    for line in answer.text.splitlines():
        if line.startswith("data:") and line[5:].strip():
            return dict(json.loads(line[5:]))
    return dict(json.loads(answer.text))


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The structured result of a call that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal(client: Client, tool: str, /, **arguments: Any) -> str:
    """The words of a call that must fail."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return text_of(result)


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


async def connect(home: Home) -> asyncpg.Connection:
    """The database of the butler `general`, as its owner."""
    return await asyncpg.connect(DatabaseServer(home).running_url("general"))


async def snapshot(rows: asyncpg.Connection, tenant: str | None = None) -> dict[str, list[str]]:
    """Every row of every table that has tenants: of one tenant, or of all."""
    tables = await rows.fetch(
        "select table_name from information_schema.columns "
        "where table_schema = 'public' and column_name = 'tenant_id' order by 1"
    )
    assert len(tables) >= 8
    return {
        name: [
            row[0]
            for row in await rows.fetch(
                f"select to_jsonb(t)::text from {name} t "
                "where $1::text is null or tenant_id = $1 order by 1",
                tenant,
            )
        ]
        for (name,) in tables
    }


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of an answer with the key it stands under, and every object by its key."""
    yield key, value
    if isinstance(value, dict):
        for inner, held in value.items():
            yield from leaves(held, inner)
    elif isinstance(value, list):
        for held in value:
            yield from leaves(held, key)


def assert_serialised(answer: Any) -> None:
    """Ids are UUID texts, instants are ISO 8601 as Python writes it, and no vector is there."""
    for key, value in leaves(answer):
        assert key not in ("embedding", "search_vector")
        if value is None or isinstance(value, dict | list):
            continue
        if key.endswith("_at"):
            assert datetime.fromisoformat(value).isoformat() == value
            assert datetime.fromisoformat(value).utcoffset() is not None
        if key == "id" or (key.endswith("_id") and key not in ("tenant_id", "request_id")):
            assert str(uuid.UUID(value)) == value
