"""Connecting to a server, or to whichever of several is the primary now."""

import socket
from typing import Any

import asyncpg

from butlers.db.address import hosts_of, is_address
from butlers.db.faults import brief

# A machine that was switched off refuses nobody: whoever knocks there would wait for minutes.
_ALONE_SECONDS, _EACH_SECONDS, _SILENCE_MS = 10.0, 3.0, 8_000
_TRY_THE_NEXT = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TargetServerAttributeNotMatched,
)


class PrimaryConnector:
    """Where connections are made: at the host that last was right, else at the next that is."""

    def __init__(self, url: str) -> None:
        self._url = url
        # What is no address the driver explains best.
        self._hosts = hosts_of(url) if is_address(url) else [("", 0)]

    async def __call__(self, *_: Any, **options: Any) -> asyncpg.Connection:
        """A new connection; what each host says against it, where none is to be had."""
        if len(self._hosts) == 1:
            return _watched(await asyncpg.connect(self._url, timeout=_ALONE_SECONDS, **options))
        refusals = []
        for place in list(self._hosts):
            host, port = place
            one = {"host": host, "port": port, "timeout": _EACH_SECONDS}
            try:
                connection = await asyncpg.connect(self._url, **one, **options)
            except _TRY_THE_NEXT as error:
                refusals.append(f"{host}:{port}: {_reason(error)}")
            else:
                self._begin_with(place)
                return _watched(connection)
        raise ConnectionError("; ".join(refusals))

    def _begin_with(self, place: tuple[str, int]) -> None:
        number = self._hosts.index(place)
        self._hosts = self._hosts[number:] + self._hosts[:number]


async def connect(url: str, **options: Any) -> asyncpg.Connection:
    """A connection of its own that leaves no named statements with a pooler."""
    return await PrimaryConnector(url)(statement_cache_size=0, **options)


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "it is not the primary"
    if isinstance(error, TimeoutError):
        return f"no answer in {_EACH_SECONDS:g} seconds"
    return "nobody listens" if isinstance(error, ConnectionRefusedError) else brief(error)


def _watched(connection: asyncpg.Connection) -> asyncpg.Connection:
    """A connection that ends when the other side is silent, not only when it says goodbye."""
    place = connection._transport.get_extra_info("socket")  # noqa: SLF001  the driver offers no other
    if place is not None and place.family != socket.AF_UNIX:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            place.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
    return connection
