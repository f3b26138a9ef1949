"""`butlers mcp` while the daemon runs: forward an agent's messages to it over a Unix socket.

Agents start one such process per session. It therefore imports only a little of the standard
library; the model, the database and the tools are in the daemon.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from butlers.hook import LIGHT, LOW_TRUST, parse_arguments
from butlers.sessions.privacy import is_switched_off
from butlers.sessions.projects import identify

SOCKET_NAME = "mcp.sock"
LONGEST_PATH = 100
"""The longest path of a socket, in bytes; systems allow little more."""

_CHUNK = 65_536
_GREETING_SECONDS = 5.0
_LAST_ANSWERS_SECONDS = 5.0
_UNAVAILABLE = -32_000


def forward(arguments: list[str]) -> bool:
    """Forward a client until it leaves; False, with nothing read, if the daemon is not there."""
    butler, home, options = parse_arguments(arguments)
    bridge = StdioBridge(butler, os.path.abspath(home), options)
    if not set(options) <= {LOW_TRUST, LIGHT} or not bridge.connect():
        return False
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    bridge.serve()
    return True


class StdioBridge:
    """Connects an agent on standard input and output with the daemon.

    After a restart of the daemon it connects again. Requests that were not answered get an error,
    because nobody knows whether they were done.
    """

    def __init__(self, butler: str, home: str, options: Collection[str] = ()) -> None:
        self._butler = butler
        self._home = home
        self._how = {"low_trust": LOW_TRUST in options, "light": LIGHT in options}
        self._socket: socket.socket | None = None
        self._reading: threading.Thread | None = None
        self._lock = threading.Lock()
        self._waiting: dict[str | float, None] = {}
        # The handshake of the client, repeated to a restarted daemon.
        self._handshake: list[bytes] = []

    def connect(self) -> bool:
        """Connect to the daemon and repeat the handshake; return whether it worked."""
        path = os.path.join(self._home, SOCKET_NAME)
        if len(os.fsencode(path)) > LONGEST_PATH:
            return False
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_GREETING_SECONDS)
            connection.connect(path)
            about = {"project": identify(os.getcwd()), "switched_off": is_switched_off()}
            connection.sendall(_line({"butler": self._butler, **about, **self._how}))
            with connection.makefile("rb") as answers:
                welcome = json.loads(answers.readline() or b"{}")
            if not welcome.get("welcome"):
                raise ConnectionError(welcome.get("error"))
            connection.settimeout(None)
            connection.sendall(b"".join(self._handshake))
        except (OSError, ValueError):
            connection.close()
            return False
        self._socket = connection
        self._reading = threading.Thread(target=self._receive, args=(connection,), daemon=True)
        self._reading.start()
        return True

    def serve(self) -> None:
        """Forward the client's messages until it leaves, then wait briefly for the last answers."""
        rest = b""
        while chunk := os.read(0, _CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._send(line + b"\n")
        if rest:
            self._send(rest + b"\n")
        if self._socket is not None and self._reading is not None:
            self._socket.shutdown(socket.SHUT_WR)
            self._reading.join(_LAST_ANSWERS_SECONDS)

    def _send(self, line: bytes) -> None:
        message = _message(line)
        method, number = message.get("method"), _number(message)
        if method is not None and number is not None:
            with self._lock:
                self._waiting[number] = None
        for _ in range(2):
            if self._socket is None and not self.connect():
                break
            try:
                self._socket.sendall(line)  # type: ignore[union-attr]
            except OSError:
                self._socket = None
                continue
            if method in ("initialize", "notifications/initialized"):
                self._handshake.append(line)
            return
        self._refuse(f"the daemon of {self._home} is not running; start it with `butlers up`")

    def _receive(self, connection: socket.socket) -> None:
        """Forward the daemon's messages to the client until the daemon leaves."""
        # Answers to a repeated handshake, which the client has already.
        repeated = {_number(_message(line)) for line in self._handshake}
        with suppress(OSError), connection.makefile("rb") as answers:
            for line in answers:
                message = _message(line)
                number = None if "method" in message else _number(message)
                if number is not None and number in repeated:
                    repeated.discard(number)
                    continue
                with self._lock:
                    self._waiting.pop(number, None)  # type: ignore[arg-type]
                self._write(line)
        if self._socket is connection:
            self._socket = None
        self._refuse(
            "the daemon stopped before it answered; the call may have been done, so check first"
        )

    def _refuse(self, reason: str) -> None:
        """Answer every open request with an error."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), {}
        for number in waiting:
            error = {"code": _UNAVAILABLE, "message": reason}
            self._write(_line({"jsonrpc": "2.0", "id": number, "error": error}))

    def _write(self, line: bytes) -> None:
        with self._lock:
            try:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            except OSError:
                os._exit(0)  # the client has gone


def _number(message: dict[str, Any]) -> str | float | None:
    """The id of a request or response; None for any other message."""
    number = message.get("id")
    return number if isinstance(number, str | int | float) else None


def _message(line: bytes) -> dict[str, Any]:
    """Parse a line; empty if it is no message, which the daemon then refuses."""
    with suppress(ValueError, RecursionError):
        message = json.loads(line)
        return message if isinstance(message, dict) else {}
    return {}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
