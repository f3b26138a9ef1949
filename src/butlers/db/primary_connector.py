"""Connect to a server, or to whichever of several hosts is the primary now."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from butlers.db.address import hosts_of, is_address
from butlers.db.driver_errors import brief, translated_errors

# A machine that is switched off refuses nothing: without limits we would wait for minutes.
_ALONE_SECONDS, _EACH_SECONDS, _SILENCE_MS = 10.0, 3.0, 8_000
_TRY_THE_NEXT = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TargetServerAttributeNotMatched,
)


class PrimaryConnector:
    """Connects to the host that was the primary last time, else to the next that is."""

    def __init__(self, url: str) -> None:
        self._url = url
        # The driver explains best what is wrong with an invalid address.
        self._hosts = hosts_of(url) if is_address(url) else [("", 0)]

    async def __call__(self, *_: Any, **options: Any) -> asyncpg.Connection:
        """Connect; ConnectionError lists what each host answered where none is the primary."""
        if len(self._hosts) == 1:
            return _watched(await asyncpg.connect(self._url, timeout=_ALONE_SECONDS, **options))
        refusals = []
        for host, port in list(self._hosts):
            target = {"host": host, "port": port, "timeout": _EACH_SECONDS}
            try:
                connection = await asyncpg.connect(self._url, **target, **options)
            except _TRY_THE_NEXT as error:
                refusals.append(f"{host}:{port}: {_reason(error)}")
            else:
                first = self._hosts.index((host, port))
                self._hosts = self._hosts[first:] + self._hosts[:first]
                return _watched(connection)
        raise ConnectionError("; ".join(refusals))


async def connect(url: str, **options: Any) -> asyncpg.Connection:
    """Connect outside a pool, without prepared statements, which a pooler could not serve."""
    return await PrimaryConnector(url)(statement_cache_size=0, **options)


@asynccontextmanager
async def connected(dsn: str, **options: str | int) -> AsyncIterator[asyncpg.Connection]:
    """Connect outside a pool for this block; Unavailable where that fails."""
    with translated_errors():
        connection = await connect(dsn, **options)
    try:
        yield connection
    finally:
        await connection.close()


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "it is not the primary"
    if isinstance(error, TimeoutError):
        return f"no answer in {_EACH_SECONDS:g} seconds"
    return "nobody listens" if isinstance(error, ConnectionRefusedError) else brief(error)


def _watched(connection: asyncpg.Connection) -> asyncpg.Connection:
    """Make a connection end when the other side is silent, not only when it closes."""
    sock = connection._transport.get_extra_info("socket")  # noqa: SLF001  the driver offers no other
    if sock is not None and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
    return connection
