"""`butlers mcp` while its home is up: hands an agent's messages on to the process that serves it.

An agent starts one for every session, so that it imports nothing but a little of the standard
library: the model, the database and the tools are in the one process that has them anyway.
"""

import json
import os
import signal
import socket
import sys
import threading
from typing import Any

from butlers.hook import LOW_TRUST
from butlers.sessions.projects import identify

SOCKET_NAME = "mcp.sock"
LONGEST_PATH = 100
"""In bytes; systems allow a socket little more."""

_CHUNK = 65_536
_GREETING_SECONDS = 5.0
_LAST_WORDS_SECONDS = 5.0
_UNAVAILABLE = -32_000


def forward(arguments: list[str]) -> bool:
    """Serve a client until it goes; false where that is not ours to do, and nothing was read."""
    told = _arguments_of(arguments)
    if told is None:
        return False
    line = StdioBridge(*told)
    if not line.connect():
        return False
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    line.serve()
    return True


def _arguments_of(arguments: list[str]) -> tuple[str, str, bool] | None:
    """The butler, its home, and whether what is said counts for less; None where more is asked."""
    home, rest = os.environ.get("BUTLERS_HOME") or "~/.butlers", list(arguments)
    names: list[str] = []
    low_trust = False
    while rest:
        word = rest.pop(0)
        if word == LOW_TRUST:
            low_trust = True
        elif word == "--home" and rest:
            home = rest.pop(0)
        elif word.startswith("--home="):
            home = word.removeprefix("--home=")
        elif word.startswith("-") or names:
            return None
        else:
            names.append(word)
    place = os.path.abspath(os.path.expanduser(home))
    return (names[0] if names else "general"), place, low_trust


class StdioBridge:
    """An agent on standard input and output, and the butler it talks to.

    A butler that is started anew is greeted anew; what it had not answered is told to have failed,
    because nobody knows whether it was done.
    """

    def __init__(self, butler: str, home: str, low_trust: bool = False) -> None:
        self._butler = butler
        self._home = home
        self._low_trust = low_trust
        self._socket: socket.socket | None = None
        self._reading: threading.Thread | None = None
        self._lock = threading.Lock()
        self._waiting: dict[str | float, None] = {}
        # What a client says once, and a butler that was started anew has not heard.
        self._first: list[bytes] = []

    def connect(self) -> bool:
        """Whether the butler is there, and has been told what the last one was."""
        path = os.path.join(self._home, SOCKET_NAME)
        if len(os.fsencode(path)) > LONGEST_PATH:
            return False
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            found.settimeout(_GREETING_SECONDS)
            found.connect(path)
            about = {"project": identify(os.getcwd()), "low_trust": self._low_trust}
            found.sendall(_line({"butler": self._butler, **about}))
            with found.makefile("rb") as answers:
                welcome = json.loads(answers.readline() or b"{}")
            if not welcome.get("welcome"):
                raise ConnectionError(welcome.get("error"))
            found.settimeout(None)
            found.sendall(b"".join(self._first))
        except (OSError, ValueError):
            found.close()
            return False
        self._socket = found
        self._reading = threading.Thread(target=self._hand_back, args=(found,), daemon=True)
        self._reading.start()
        return True

    def serve(self) -> None:
        """Hand on what the client says until it goes, then wait a moment for the last answers."""
        rest = b""
        while chunk := os.read(0, _CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._hand_on(line + b"\n")
        if rest:
            self._hand_on(rest + b"\n")
        if self._socket is not None and self._reading is not None:
            self._socket.shutdown(socket.SHUT_WR)
            self._reading.join(_LAST_WORDS_SECONDS)

    def _hand_on(self, line: bytes) -> None:
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
                self._first.append(line)
            return
        self._refuse(f"the butlers of {self._home} are not up; start them with `butlers up`")

    def _hand_back(self, found: socket.socket) -> None:
        """Give the client what the butler says, until the butler goes."""
        # The answer to a greeting that the client gave before, and had answered then.
        repeated = {_number(_message(line)) for line in self._first}
        try:
            with found.makefile("rb") as answers:
                for line in answers:
                    message = _message(line)
                    number = None if "method" in message else _number(message)
                    if number is not None and number in repeated:
                        repeated.discard(number)
                        continue
                    self._end(number)
                    self._write(line)
        except OSError:
            pass
        if self._socket is found:
            self._socket = None
        self._refuse("the butlers stopped before they answered, and may or may not have done it")

    def _end(self, number: str | float | None) -> None:
        with self._lock:
            self._waiting.pop(number, None)  # type: ignore[arg-type]

    def _refuse(self, why: str) -> None:
        """Answer everything that waits with an error."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), {}
        for number in waiting:
            error = {"code": _UNAVAILABLE, "message": why}
            self._write(_line({"jsonrpc": "2.0", "id": number, "error": error}))

    def _write(self, line: bytes) -> None:
        with self._lock:
            try:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            except OSError:
                os._exit(0)  # the client has gone


def _number(message: dict[str, Any]) -> str | float | None:
    """What a message asks or answers under; None where it does neither."""
    number = message.get("id")
    return number if isinstance(number, str | int | float) else None


def _message(line: bytes) -> dict[str, Any]:
    """What a line says; nothing where it is no message, which the butler then complains of."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
