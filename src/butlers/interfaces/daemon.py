"""`butlers up`: serve every butler of a home in one process until a signal stops it."""

import asyncio
import gc
import logging
import os
import resource
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

import structlog

from butlers import __version__
from butlers.backup.directory import Backups
from butlers.clock import utc_now
from butlers.db.lease import beside
from butlers.errors import ButlersError, Unavailable
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.host.home_tokens import served_tokens
from butlers.host.hosting import hosted, start_side_by_side, started
from butlers.host.spool_worker import SpoolWorker
from butlers.host.status import Running, announced
from butlers.interfaces.http.app_state import AppState, Stage, StartStage
from butlers.interfaces.http_server import (
    FINISH_BEHIND_BALANCER_SECONDS,
    FINISH_SECONDS,
    HttpServer,
    Pages,
    build_app,
    listen,
)
from butlers.interfaces.mcp.local_clients import Commands, unix_socket_served
from butlers.settings.files import HouseSettings
from butlers.worker_process import worker_process

log = structlog.get_logger(__name__)
_MOST_FILES = 65_536
_AGAIN_SECONDS = 60.0
"""How long until a failed start is tried again."""


OnReady = Callable[[Running], Awaitable[None]]


async def run(
    home: Home,
    house: HouseSettings,
    on_ready: OnReady,
    pages: Pages | None = None,
    commands: Commands | None = None,
) -> None:
    """Serve every butler of a home; return after a clean stop, even during the start.

    `pages` builds the web pages, `commands` runs the commands of clients on this machine.
    """
    stop = _Stop(house.server.drain_seconds)
    for line in house.removed:
        log.warning("a settings file has a key that is no longer a setting", key=line)
    _allow_connections()
    serving = asyncio.create_task(_serve(home, house, on_ready, stop, pages, commands))
    with stop.on_signals(serving):
        try:
            await serving
        except asyncio.CancelledError:
            if not stop.asked:
                raise
    log.info("butlers stopped")


def _allow_connections() -> None:
    """Raise the limit of open files: a thousand slow clients use up the default."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if most == resource.RLIM_INFINITY else min(most, _MOST_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def _serve(
    home: Home,
    house: HouseSettings,
    on_ready: OnReady,
    stop: "_Stop",
    pages: Pages | None,
    commands: Commands | None,
) -> None:
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(listen(house.server.host, house.server.port))
        stack.enter_context(worker_process())
        butlers = await stack.enter_async_context(started_butlers(home, house))
        tokens = served_tokens(home, butlers)
        await tokens.adopt()
        key = secrets.token_urlsafe(32)
        app_state = AppState(home, butlers, tokens, house.fleet, _failed(house), key, house.backup)
        finish = FINISH_BEHIND_BALANCER_SECONDS if house.server.drain_seconds else FINISH_SECONDS
        http = HttpServer(build_app(app_state, house.server, pages), finish_seconds=finish)
        serving = await stack.enter_async_context(_serving(http, listener))
        port = listener.getsockname()[1]
        await _prepare_sessions(butlers, house.server.host, port)
        await stack.enter_async_context(_on_schedule(butlers))
        if home.process == 1:
            await stack.enter_async_context(_single_daemon_work(app_state, house, commands))
        stop.server, stop.progress = http, app_state.progress
        url = _address(house.server.host, port)
        served = {name: {"mcp": f"{url}/butlers/{name}/mcp"} for name in butlers}
        started_at = utc_now().isoformat(timespec="seconds")
        running = Running(url, os.getpid(), served, __version__, started_at, key)
        stack.enter_context(announced(home, running))
        await on_ready(running)
        log.info("butlers are up", url=running.url, butlers=list(butlers))
        await stack.enter_async_context(beside(_warm_up(butlers, app_state.progress)))
        await serving


@asynccontextmanager
async def _single_daemon_work(
    app_state: AppState, house: HouseSettings, commands: Commands | None
) -> AsyncIterator[None]:
    """Within this block run what only one daemon of a home may run."""
    home, butlers = app_state.home, app_state.butlers
    spool_worker = SpoolWorker(home, butlers, app_state.tokens, house.sessions)
    backups = Backups(home, house.backup)
    clients = unix_socket_served(home, butlers, commands)
    async with spool_worker.kept(), backups.kept(butlers), clients:
        yield


def _failed(house: HouseSettings) -> dict[str, str]:
    """Return why butlers with wrong settings failed, and what to do about it."""
    failed = {}
    for name, error in house.failed.items():
        failed[name] = f"{'; '.join(error.faults)}; fix the file and restart the daemon"
        log.error("butler failed to start", butler=name, error=failed[name])
    return failed


async def _warm_up(butlers: Mapping[str, Butler], progress: StartStage) -> None:
    """Load what the first callers would have to wait for; then report ready."""
    for butler in butlers.values():
        for module in butler.modules:
            try:
                await module.warm_up()
            except ButlersError as error:
                # Callers that need it get the error; everything else works.
                log.warning("not ready", butler=butler.name, module=module.name, error=str(error))
    gc.freeze()  # what is loaded stays: to look through it takes a fifth of a second each time
    if progress.stage is Stage.STARTING:
        progress.stage = Stage.READY


@asynccontextmanager
async def started_butlers(home: Home, house: HouseSettings) -> AsyncIterator[dict[str, Butler]]:
    """Start every butler, and stop them all at the end of the block."""
    async with hosted(home, house.butlers.values()) as (server, butlers):
        failures = await start_side_by_side(butlers)
        if failures and len(failures) == len(butlers):
            raise failures[0]
        async with server.kept_alive():
            yield {butler.name: butler for butler in butlers}


@asynccontextmanager
async def _on_schedule(butlers: Mapping[str, Butler]) -> AsyncIterator[None]:
    """Within this block run every butler's jobs on schedule."""
    stop, running = asyncio.Event(), list[asyncio.Task[None]]()
    try:
        for name, butler in butlers.items():
            with structlog.contextvars.bound_contextvars(butler=name):
                running.append(asyncio.create_task(_run_jobs(butler, stop)))
        yield
    finally:
        stop.set()
        await asyncio.gather(*running)


async def _prepare_sessions(butlers: Mapping[str, Butler], host: str, port: int) -> None:
    """Tell sessions where their tools are; end those that a dead process left open."""
    for name, butler in butlers.items():
        butler.session_tokens.url = f"{_address(host, port)}/butlers/{name}/mcp"
        try:
            await butler.session_log.end_interrupted(butler.settings.butler.tenant)
        except ButlersError as error:
            log.warning("sessions cannot be read", butler=name, error=str(error))


async def _run_jobs(butler: Butler, stop: asyncio.Event) -> None:
    """Run the jobs of the started modules; restart with more when a failed one recovers."""
    while not stop.is_set():
        restart = asyncio.Event()
        jobs = asyncio.create_task(butler.schedule().keep(restart)) if butler.is_open else None
        await _recovered(butler, stop)
        restart.set()
        if jobs is not None:
            await jobs


async def _recovered(butler: Butler, stop: asyncio.Event) -> None:
    """Wait until a failed module recovers, or for the stop."""
    failed = len(butler.failures)
    while not stop.is_set() and len(butler.failures) >= failed:
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _AGAIN_SECONDS if failed else None)
        if not stop.is_set():
            await started(butler)


class _Stop:
    """Handles SIGINT and SIGTERM: cancels a start, or drains and finishes; twice waits for none."""

    def __init__(self, drain_seconds: float = 0.0) -> None:
        self.server: HttpServer | None = None
        self.progress = StartStage()
        self.asked = False
        self._drain_seconds = drain_seconds

    @contextmanager
    def on_signals(self, serving: "asyncio.Task[None]") -> Iterator[None]:
        """Within this block signals stop the task instead of killing the process."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ask, serving)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _ask(self, serving: "asyncio.Task[None]") -> None:
        self.progress.stage = Stage.STOPPING
        if self.server is None:
            if not self.asked:
                # Once only: a second cancellation would interrupt the cleanup.
                serving.cancel()
        elif self.asked or not self._drain_seconds:
            self._finish(self.server)
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(self._drain_seconds, self._drained, self.server)
        self.asked = True

    def _drained(self, server: HttpServer) -> None:
        if not server.should_exit:
            self._finish(server)

    def _finish(self, server: HttpServer) -> None:
        server.force_exit = server.should_exit
        # Not only a flag: open event streams end on it as well, which is then no error.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        server.handle_exit(signal.SIGTERM, None)


@asynccontextmanager
async def _serving(
    http: HttpServer, listener: socket.socket
) -> AsyncIterator["asyncio.Task[None]"]:
    """Within this block serve requests, until the task ends."""
    serving = asyncio.create_task(http.serve(sockets=[listener]))
    try:
        while not http.started:
            if serving.done():
                raise Unavailable("the HTTP server ended before it was ready; its log says why")
            await asyncio.sleep(0.01)
        yield serving
    finally:
        http.should_exit = True
        await serving


def _address(host: str, port: int) -> str:
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
