"""The HTTP server of the daemon: MCP endpoints, hooks, health, metrics, and the web pages."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Lifespan

from butlers import __version__, metrics
from butlers.errors import Unavailable
from butlers.host.butler import Butler
from butlers.interfaces.http.app_state import AppState, Stage
from butlers.interfaces.http.hooks import hook_routes
from butlers.interfaces.http.request_limits import READY, PatientProtocol, RequestLimiter, bearer
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.settings.sections import ServerSection

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
_REMEDIES = {
    errno.EADDRINUSE: "port {port} on {host} is in use by another program; choose another with "
    "--port N, or --port 0 for any free one",
    errno.EACCES: "you may not listen on port {port}; choose one above 1023 with --port N",
    errno.EADDRNOTAVAIL: "{host} is not an address of this machine; choose another with --host",
}
_BACKLOG = 1024
FINISH_SECONDS, FINISH_BEHIND_BALANCER_SECONDS = 3, 30
"""How long a stop waits for running requests; behind a balancer none may be lost."""
Pages: TypeAlias = Callable[[AppState], Starlette]
"""Makes the application for every path that is not handled here."""


def build_app(app_state: AppState, settings: ServerSection, pages: Pages | None) -> Starlette:
    """Build the HTTP application over started butlers."""
    butlers, tokens = app_state.butlers, app_state.tokens
    servers = {name: ButlerMCP.of(butler, tokens) for name, butler in butlers.items()}
    names = _host_names(settings)
    guard = _guard(names)
    shown = pages(app_state) if pages is not None else None
    # The MCP guard covers its own routes only; this one covers the rest.
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    app = Starlette(
        routes=[
            *_status_routes(app_state),
            *hook_routes(butlers, tokens),
            *(_mcp_route(name, server, guard) for name, server in servers.items()),
            *(route for name in app_state.failed for route in _failed_routes(name, app_state)),
        ],
        middleware=[trusted, Middleware(RequestLimiter, tokens=tokens)],
        lifespan=_lifespan(list(servers.values()), shown),
    )
    if shown is not None:
        # Not mounted at the root: a mount passes over a path that holds a line break.
        app.router.default = shown
    return app


def _mcp_route(name: str, server: ButlerMCP, guard: TransportSecuritySettings) -> Route:
    """Route exactly one path, without state: the next request may come to another process."""
    path = f"/butlers/{name}/mcp"
    app = server.streamable_http_app(
        streamable_http_path=path, transport_security=guard, stateless_http=True
    )
    return Route(path, app)


def _failed_routes(name: str, app_state: AppState) -> list[Route]:
    """Refuse agents and hooks of a butler that failed to start, with the reason."""

    async def refuse(request: Request) -> Response:
        if app_state.tokens.verify(bearer(request.headers), name) is None:
            return JSONResponse({"error": "a token of this butler is needed"}, status_code=401)
        words = f"butler {name} failed to start: {app_state.failed[name]}"
        return JSONResponse({"error": words}, status_code=503)

    paths = (f"/butlers/{name}/mcp", f"/butlers/{name}/hooks/{{event}}")
    return [Route(path, refuse, methods=["POST", "GET", "DELETE"]) for path in paths]


def _status_routes(app_state: AppState) -> list[Route]:
    async def health(request: Request) -> Response:
        report = await _health(app_state)
        status = 200 if report["status"] == "ok" else 503
        token = bearer(request.headers)
        if not token or not app_state.knows(token):
            report = {"status": report["status"]}
        return JSONResponse(report, status_code=status)

    async def numbers(_: Request) -> Response:
        await _health(app_state)
        return Response(metrics.exposition(), media_type=metrics.CONTENT_TYPE)

    async def ready(_: Request) -> Response:
        stage = app_state.progress.stage
        return JSONResponse({"status": stage}, 200 if stage is Stage.READY else 503)

    return [Route(READY, ready), Route("/health", health), Route("/metrics", numbers)]


def _lifespan(servers: Sequence[ButlerMCP], pages: Starlette | None) -> Lifespan[Starlette]:
    @contextlib.asynccontextmanager
    async def sessions(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server.session_manager.run())
            if pages is not None:
                # Starlette does not start the lifespan of this application by itself.
                await stack.enter_async_context(pages.router.lifespan_context(pages))
            yield

    return sessions


def listen(host: str, port: int) -> socket.socket:
    """Bind the socket before anything else starts, so that a taken port is noticed at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named; without it answers are 40 ms late.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        words = _REMEDIES.get(error.errno or 0, "cannot listen on {host}, port {port}: {reason}")
        raise Unavailable(words.format(host=host, port=port, reason=error.strerror)) from error
    return listener


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the daemon stops it in its own order."""

    def __init__(
        self, app: Starlette, send_seconds: float = 20.0, finish_seconds: int = FINISH_SECONDS
    ) -> None:
        waiting: dict[str, Any] = {"seconds": send_seconds, "unfinished": {}}
        super().__init__(
            uvicorn.Config(
                app,
                http=type("Patient", (PatientProtocol,), waiting),
                ws="none",
                # Longer than clients keep an idle connection: they must not find it just closed.
                timeout_keep_alive=15,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=finish_seconds,
                server_header=False,
                proxy_headers=False,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers; the daemon has its own."""
        yield


def _host_names(settings: ServerSection) -> list[str]:
    """Every host name that a Host header may carry."""
    own = f"[{settings.host}]" if ":" in settings.host else settings.host
    return [*_LOCAL_NAMES, own, *settings.allowed_hosts]


def _guard(names: Sequence[str]) -> TransportSecuritySettings:
    hosts = [host for name in names for host in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")],
    )


async def _health(app_state: AppState) -> dict[str, object]:
    """Report the health of every butler, and update the metrics."""
    butlers = app_state.butlers
    reports = await asyncio.gather(*(_health_of(butler) for butler in butlers.values()))
    failed = {
        name: {"status": "failed", "error": why, "modules": {}}
        for name, why in app_state.failed.items()
    }
    by_name = dict(zip(butlers, reports, strict=True)) | failed
    for name, report in by_name.items():
        metrics.UP.labels(name).set(report["status"] == "ok")
    well = all(report["status"] == "ok" for report in by_name.values())
    return {"status": _word(well), "version": __version__, "butlers": by_name}


async def _health_of(butler: Butler) -> dict[str, object]:
    health = await butler.health()
    well = all(module.ok for module in health.values())
    trouble = await butler.storage.trouble() if well and butler.is_open else ""
    modules = {
        name: {**module.details, "status": _word(module.ok)} for name, module in health.items()
    }
    for name in butler.failures.keys() & modules.keys():
        modules[name]["status"] = "failed"
    word = _word(well and not trouble) if butler.is_open else "failed"
    notes = await butler.notes() if butler.is_open else []
    report: dict[str, object] = {"status": word, "modules": modules, "notes": notes}
    return report | {"error": trouble} if trouble else report


def _word(well: bool) -> str:
    return "ok" if well else "unwell"
