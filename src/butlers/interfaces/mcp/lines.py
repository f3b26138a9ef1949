"""What `butlers mcp` hands on to a home that is up: lines over a socket for its owner alone."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from butlers.auth.rights import Project
from butlers.forward import LONGEST_PATH
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.interfaces.mcp.server import ButlerMCP
from butlers.llm.envelopes import parse_object

log = structlog.get_logger(__name__)
_LONGEST_LINE = 64 * 1024 * 1024
_GREETING_SECONDS = 5.0
_FOR_ITS_OWNER = 0o177


@asynccontextmanager
async def served_lines(home: Home, butlers: Mapping[str, Butler]) -> AsyncIterator[None]:
    """Within this block every `butlers mcp` of the home is served here, by the butler it names.

    No token is asked for: whoever may use the socket may read the home.
    """
    path = home.mcp_socket
    if len(os.fsencode(path)) > LONGEST_PATH:
        log.warning("the home's path is too long for a socket: `butlers mcp` serves by itself")
        yield
        return
    door = _Door(butlers)
    path.unlink(missing_ok=True)  # left by a process that was killed
    server = await asyncio.start_unix_server(door.greet, sock=_bound(path), limit=_LONGEST_LINE)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        server.close()
        await door.close()


def _bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(_FOR_ITS_OWNER)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    return listener


class _Door:
    """Who is being served."""

    def __init__(self, butlers: Mapping[str, Butler]) -> None:
        self._servers = {name: ButlerMCP.of(butler) for name, butler in butlers.items()}
        self._serving: set[asyncio.Task[Any]] = set()

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it goes."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_GREETING_SECONDS):
            told = (await reader.readline()).decode("utf-8", "replace")
        greeting = parse_object(told) or {}
        server = self._servers.get(str(greeting.get("butler")))
        answers = _ResponseWriter(writer)
        if server is None:
            await answers.write(json.dumps({"error": "there is no such butler here"}) + "\n")
            return
        await answers.write(json.dumps({"welcome": True}) + "\n")
        await server.run_lines(
            _client_lines(reader),
            answers,
            Project.of(greeting.get("project")),
            low_trust=bool(greeting.get("low_trust")),
        )

    async def close(self) -> None:
        """Everybody is let go."""
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)


async def _client_lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """Each line that a client says."""
    with suppress(ValueError, OSError):  # a line without an end; a client that broke off
        while line := await reader.readline():
            yield line.decode("utf-8", "replace")


class _ResponseWriter:
    """What a client is told, as the protocol's own transport writes it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Say it; a client that has gone hears nothing."""
        self._writer.write(text.encode())
        with suppress(OSError):
            await self._writer.drain()

    async def flush(self) -> None:
        """Nothing is held back."""
