"""One butler in this process, for an agent on stdio."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog

from butlers.auth.rights import Project
from butlers.errors import ButlersError, Unavailable
from butlers.host.butler import Butler
from butlers.host.home import Home, butler_settings
from butlers.host.hosting import hosted
from butlers.interfaces.mcp.server import ButlerMCP
from butlers.sessions.projects import identify

log = structlog.get_logger(__name__)


async def serve_stdio(home: Home, name: str, *, low_trust: bool = False) -> None:
    """Serve a butler's tools over standard input and output until the client goes.

    The client is answered at once; database and migrations start meanwhile, and the first tool
    call waits for them.
    """
    settings = butler_settings(home, name)
    with input_ended_by_signals():
        async with hosted(home, [settings]) as (server, [butler]):
            start = _Start(butler)
            try:
                async with server.kept_alive():
                    door = ButlerMCP.of(butler, ready=start.finished)
                    await door.run_lines(project=_project(), low_trust=low_trust)
            finally:
                await start.abandon()


def _project() -> Project:
    """What an agent that starts its server works in: the directory it starts it in."""
    found = identify(os.getcwd())
    return Project(tuple(found["keys"]), found["name"], found["place"])


class _Start:
    """A butler's start in the background, tried anew by whoever needs it after it failed."""

    def __init__(self, butler: Butler) -> None:
        self._butler = butler
        self._attempt = self._try()

    async def finished(self) -> None:
        """The butler has started; Unavailable says why it could not."""
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
        attempt.add_done_callback(self._tell)
        return attempt

    def _tell(self, attempt: "asyncio.Task[None]") -> None:
        failure = None if attempt.cancelled() else attempt.exception()
        if failure is not None:
            log.error(_explained(self._butler.name, failure), exc_info=failure)


def _explained(name: str, failure: BaseException) -> str:
    known = isinstance(failure, ButlersError)
    return f"butler {name} cannot start: {failure if known else type(failure).__name__}"


_CHUNK = 65_536


@contextmanager
def input_ended_by_signals() -> Iterator[None]:
    """Within this block SIGINT and SIGTERM end standard input, as if its writer had gone.

    A thread that waits for input cannot be woken. So one that nobody waits for does the waiting,
    and hands on what comes through a socket that we can shut.
    """
    source = os.dup(0)
    receiver, sender = socket.socketpair()
    os.dup2(receiver.fileno(), 0)
    threading.Thread(target=_hand_on, args=(source, sender), daemon=True).start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _shut, sender)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        receiver.close()


def _hand_on(source: int, sender: socket.socket) -> None:
    with suppress(OSError):  # a reader that has gone
        while chunk := os.read(source, _CHUNK):
            sender.sendall(chunk)
    _shut(sender)


def _shut(sender: socket.socket) -> None:
    with suppress(OSError):  # shut already
        sender.shutdown(socket.SHUT_WR)
