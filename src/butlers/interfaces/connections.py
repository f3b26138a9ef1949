"""Connections over which requests come: whoever takes too long to send one is let go.

The server waits for ever for the rest of a request, and each that waits holds a connection. Here a
request has to be whole in time, and of those that are not, only the newest are waited for.
"""

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_UNFINISHED = 200


class PatientProtocol(H11Protocol):
    """uvicorn's own protocol, with an end to its patience."""

    seconds: ClassVar[float]
    unfinished: ClassVar[dict["PatientProtocol", asyncio.TimerHandle]]
    """Connections whose request is not whole, the longest known first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody may ask something."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Some of a request came."""
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody asks any more."""
        self._forget()
        super().connection_lost(exc)

    def _look(self) -> None:
        """What waits for the rest of a request has a deadline, which more of it does not move."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
        elif self not in self.unfinished and not self.transport.is_closing():
            self.unfinished[self] = self.loop.call_later(self.seconds, self._let_go)
            if len(self.unfinished) > MOST_UNFINISHED:
                next(iter(self.unfinished))._let_go()

    def _let_go(self) -> None:
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        timer = self.unfinished.pop(self, None)
        if timer is not None:
            timer.cancel()


def patient(seconds: float) -> Any:
    """The protocol of a server that waits so long for a request."""
    return type("Patient", (PatientProtocol,), {"seconds": seconds, "unfinished": {}})
