"""`butlers up`: every butler of a home in one process, until a signal says stop."""

import asyncio
import fcntl
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass

import structlog

from butlers.errors import ButlersError, Conflict
from butlers.host.butler import Butler
from butlers.host.database_server import DatabaseServer
from butlers.host.home import Home
from butlers.host.server import Server, build_app, listen
from butlers.host.settings_files import HouseSettings
from butlers.host.tokens import TokenStore

log = structlog.get_logger(__name__)
_WATCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Running:
    """How to reach a home that is up; this is what `run.json` says."""

    url: str
    pid: int
    butlers: dict[str, dict[str, str]]


async def run(home: Home, house: HouseSettings, on_ready: Callable[[Running], None]) -> None:
    """Serve every butler of a home; returns after a clean stop."""
    async with AsyncExitStack() as stack:
        stack.enter_context(_alone(home))
        listener = stack.enter_context(listen(house.server.host, house.server.port))
        butlers = await stack.enter_async_context(started_butlers(home, house))
        http = Server(build_app(butlers, TokenStore(home.tokens_file), house.server))
        stop_on_signals(http)
        serving = asyncio.create_task(http.serve(sockets=[listener]))
        await _until_started(http, serving)
        running = _describe(house.server.host, listener.getsockname()[1], list(butlers))
        stack.enter_context(_announced(home, running))
        on_ready(running)
        await serving
        log.info("stopping")


@asynccontextmanager
async def started_butlers(home: Home, house: HouseSettings) -> AsyncIterator[dict[str, Butler]]:
    """Every butler of the house, started; all are stopped at the end, whatever happens."""
    server = DatabaseServer(home)
    butlers = {name: Butler(settings, server) for name, settings in house.butlers.items()}
    watching: asyncio.Task[None] | None = None
    try:
        # One at a time: a failure then names one butler, and migrations would queue anyway.
        for butler in butlers.values():
            await butler.start()
        watching = asyncio.create_task(_watch(server))
        yield butlers
    finally:
        if watching:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        for butler in reversed(butlers.values()):
            await butler.stop()
        await server.release()


def stop_on_signals(http: Server) -> None:
    """SIGINT and SIGTERM ask for a clean stop; a second one does not wait for clients."""

    def stop() -> None:
        http.force_exit = http.should_exit
        http.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


async def _watch(server: DatabaseServer) -> None:
    """A database server that dies is started again while its butlers are up."""
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        try:
            await server.revive()
        except ButlersError as error:
            log.error("database server is down", error=str(error))


async def _until_started(http: Server, serving: "asyncio.Task[None]") -> None:
    while not http.started:
        if serving.done():
            serving.result()
            raise RuntimeError("the HTTP server ended before it started")
        await asyncio.sleep(0.01)


def _describe(host: str, port: int, names: list[str]) -> Running:
    address = f"[{host}]" if ":" in host else host
    url = f"http://{address}:{port}"
    return Running(url, os.getpid(), {n: {"mcp": f"{url}/butlers/{n}/mcp"} for n in names})


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Only one process serves a home; the lock goes with the process, however it ends."""
    with home.lock_file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                f"the butlers of {home.root} are already up; {home.run_file} says where. "
                "Stop that process first, or use another home with --home DIR"
            ) from error
        yield


@contextmanager
def _announced(home: Home, running: Running) -> Iterator[None]:
    """`run.json` says where to find us, from ready until stopped."""
    draft = home.run_file.with_suffix(".new")
    draft.write_text(json.dumps(asdict(running), indent=2) + "\n", encoding="utf-8")
    draft.replace(home.run_file)
    try:
        yield
    finally:
        home.run_file.unlink(missing_ok=True)
