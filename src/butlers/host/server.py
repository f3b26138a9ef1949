"""The HTTP door of a process: every butler's MCP endpoint, health and metrics."""

import contextlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from butlers import __version__
from butlers.errors import Unavailable
from butlers.host import metrics
from butlers.host.butler import Butler
from butlers.host.mcp_server import ButlerMCP
from butlers.host.settings import ServerSection
from butlers.host.tokens import TokenStore

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def build_app(
    butlers: Mapping[str, Butler], tokens: TokenStore, settings: ServerSection
) -> Starlette:
    """The whole HTTP surface over butlers that have started."""
    servers = {name: _mcp_for(butler, tokens) for name, butler in butlers.items()}
    guard = _guard(settings)
    mounts = [
        Mount(
            f"/butlers/{name}",
            server.streamable_http_app(streamable_http_path="/mcp", transport_security=guard),
        )
        for name, server in servers.items()
    ]

    async def health(_: Request) -> Response:
        report = await _health(butlers)
        return JSONResponse(report, status_code=200 if report["status"] == "ok" else 503)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for server in servers.values():
                await stack.enter_async_context(server.session_manager.run())
            yield

    # The MCP guard covers its own routes only; this one covers the rest.
    names = [*_LOCAL_NAMES, settings.host, *settings.allowed_hosts]
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    routes = [Route("/health", health), Route("/metrics", _metrics), *mounts]
    return Starlette(routes=routes, middleware=[trusted], lifespan=lifespan)


def listen(host: str, port: int) -> socket.socket:
    """A socket bound before anything else starts, so that a taken port is known at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise Unavailable(
            f"port {port} on {host} is taken or not allowed ({error.strerror}); "
            "choose another with --port N, or --port 0 for any free one"
        ) from error
    return listener


class Server(uvicorn.Server):
    """uvicorn, with signals left to the daemon so that it can stop in its own order."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=3,
                server_header=False,
                proxy_headers=False,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        """The daemon has its own handlers."""
        yield


def _mcp_for(butler: Butler, tokens: TokenStore) -> ButlerMCP:
    tools = [tool for module in butler.modules for tool in module.tools()]
    return ButlerMCP(butler.name, tools, tokens)


def _guard(settings: ServerSection) -> TransportSecuritySettings:
    names: Sequence[str] = [*_LOCAL_NAMES, settings.host, *settings.allowed_hosts]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[pattern for name in names for pattern in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{name}{port}"
            for name in names
            for scheme in ("http", "https")
            for port in ("", ":*")
        ],
    )


async def _health(butlers: Mapping[str, Butler]) -> dict[str, object]:
    report, well = {}, True
    for name, butler in butlers.items():
        modules = await butler.health()
        ok = all(module.ok for module in modules.values())
        metrics.UP.labels(name).set(ok)
        well = well and ok
        report[name] = {
            "status": "ok" if ok else "unwell",
            "modules": {
                key: {"status": "ok" if module.ok else "unwell", **module.details}
                for key, module in modules.items()
            },
        }
    return {"status": "ok" if well else "unwell", "version": __version__, "butlers": report}


async def _metrics(_: Request) -> Response:
    return Response(metrics.exposition(), media_type=metrics.CONTENT_TYPE)
