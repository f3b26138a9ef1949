"""Serve clients on this machine: `butlers mcp` on stdio, by itself or forwarded to the daemon.

While the daemon runs, `butlers mcp` forwards lines to it over a Unix socket that only the home's
owner can open; `unix_socket_served` is the daemon's end. Otherwise `serve_stdio` serves the client
in the process of `butlers mcp`.
"""

import asyncio
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from butlers.auth.rights import Project
from butlers.errors import ButlersError, Unavailable
from butlers.forward import LONGEST_PATH
from butlers.host.butler import Butler
from butlers.host.home import Home, butler_settings
from butlers.host.hosting import hosted
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.interfaces.mcp.light import LightMCP
from butlers.llm.envelopes import parse_object
from butlers.sessions.privacy import is_switched_off
from butlers.sessions.projects import identify

log = structlog.get_logger(__name__)
_LONGEST_LINE = 64 * 1024 * 1024
_GREETING_SECONDS = 5.0
_OWNER_ONLY = 0o177
_CHUNK = 65_536

Commands = Callable[
    [Mapping[str, Any], asyncio.StreamReader, asyncio.StreamWriter, Mapping[str, Butler]],
    Awaitable[None],
]
"""Runs a command for a client, given its request."""


async def serve_stdio(home: Home, name: str, *, low_trust: bool, light: bool) -> None:
    """Serve a butler on standard input and output; only calls wait until it has started."""
    settings = butler_settings(home, name)
    with input_ended_by_signals():
        async with hosted(home, [settings]) as (server, [butler]):
            start = _Start(butler)
            try:
                async with server.kept_alive():
                    mcp = (LightMCP if light else ButlerMCP).of(butler, ready=start.finished)
                    # The agent started this process in the directory of its project.
                    project = Project.of(identify(os.getcwd()))
                    off = is_switched_off()
                    await mcp.run_lines(project=project, low_trust=low_trust, switched_off=off)
            finally:
                await start.abandon()


class _Start:
    """A butler's start in the background; a failed start is tried again by the next call."""

    def __init__(self, butler: Butler) -> None:
        self._butler = butler
        self._attempt = self._try()

    async def finished(self) -> None:
        """Wait until the butler has started; Unavailable says why it could not."""
        if self._attempt.done() and self._attempt.exception() is not None:
            self._attempt = self._try()
        await asyncio.wait([self._attempt])
        failure = self._attempt.exception()
        if failure is not None:
            raise Unavailable(_explained(self._butler.name, failure)) from failure

    async def abandon(self) -> None:
        """End an attempt under way."""
        self._attempt.cancel()
        await asyncio.wait([self._attempt])

    def _try(self) -> "asyncio.Task[None]":
        attempt = asyncio.create_task(self._butler.start())
        attempt.add_done_callback(self._log_failure)
        return attempt

    def _log_failure(self, attempt: "asyncio.Task[None]") -> None:
        failure = None if attempt.cancelled() else attempt.exception()
        if failure is not None:
            log.error(_explained(self._butler.name, failure), exc_info=failure)


def _explained(name: str, failure: BaseException) -> str:
    known = isinstance(failure, ButlersError)
    return f"butler {name} cannot start: {failure if known else type(failure).__name__}"


@contextmanager
def input_ended_by_signals() -> Iterator[None]:
    """End standard input on SIGINT and SIGTERM, as if the client had closed it, for the block.

    A thread that blocks on input cannot be woken. So a daemon thread reads the input and passes it
    on through a socket, which a signal can shut.
    """
    source = os.dup(0)
    receiver, sender = socket.socketpair()
    os.dup2(receiver.fileno(), 0)
    threading.Thread(target=_copy_input, args=(source, sender), daemon=True).start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _shut, sender)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        receiver.close()


def _copy_input(source: int, sender: socket.socket) -> None:
    with suppress(OSError):  # the reader has gone
        while chunk := os.read(source, _CHUNK):
            sender.sendall(chunk)
    _shut(sender)


def _shut(sender: socket.socket) -> None:
    with suppress(OSError):  # shut already
        sender.shutdown(socket.SHUT_WR)


@asynccontextmanager
async def unix_socket_served(
    home: Home, butlers: Mapping[str, Butler], commands: Commands | None = None
) -> AsyncIterator[None]:
    """Serve every `butlers mcp` and command of the home over its Unix socket, for the block.

    No token is needed: only the owner of the home can open the socket.
    """
    path = home.mcp_socket
    if len(os.fsencode(path)) > LONGEST_PATH:
        log.warning("the home's path is too long for a socket: `butlers mcp` serves by itself")
        yield
        return
    clients = _SocketClients(butlers, commands)
    path.unlink(missing_ok=True)  # left by a process that was killed
    server = await asyncio.start_unix_server(clients.serve, sock=_bound(path), limit=_LONGEST_LINE)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        server.close()
        await clients.close()


def _bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(_OWNER_ONLY)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    return listener


class _SocketClients:
    """The clients connected to the Unix socket."""

    def __init__(self, butlers: Mapping[str, Butler], commands: Commands | None) -> None:
        self._butlers, self._commands = butlers, commands
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it leaves."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_GREETING_SECONDS):
            line = await reader.readline()
        greeting = parse_object(line.decode("utf-8", "replace")) or {}
        if "command" in greeting and self._commands is not None:
            await self._commands(greeting, reader, writer, self._butlers)
            return
        butler = self._butlers.get(str(greeting.get("butler")))
        responses = _ResponseWriter(writer)
        if butler is None:
            await responses.write(json.dumps({"error": "this home has no such butler"}) + "\n")
            return
        await responses.write(json.dumps({"welcome": True}) + "\n")
        how = {name: bool(greeting.get(name)) for name in ("low_trust", "switched_off")}
        project = Project.of(greeting.get("project"))
        server = (LightMCP if greeting.get("light") else ButlerMCP).of(butler)
        await server.run_lines(_client_lines(reader), responses, project=project, **how)

    async def close(self) -> None:
        """Disconnect every client."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _client_lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    with suppress(ValueError, OSError):  # a line without an end; a client that broke off
        while line := await reader.readline():
            yield line.decode("utf-8", "replace")


class _ResponseWriter:
    """Writes to a client, with the methods that the MCP transport expects of a file."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Send text; ignore a client that has left."""
        self._writer.write(text.encode())
        with suppress(OSError):
            await self._writer.drain()

    async def flush(self) -> None:
        """Do nothing: nothing is buffered."""
