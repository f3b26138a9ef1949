"""Run a command in the daemon while it is up, so that nothing need be loaded here.

It imports only a little of the standard library. The daemon sends what to print and how to end; a
command that it does not run, and any without a daemon, is run in this process.
"""

import json
import os
import shutil
import socket
import sys
from contextlib import suppress
from typing import Any

from butlers.forward import LONGEST_PATH, SOCKET_NAME
from butlers.hook import parse_arguments

_RUN_BY_DAEMON = (
    "remember recall today review inbox why correct forget undo pause resume status list "
    "token sessions worth cost check doctor open logs backup verify export import memory store "
    "context entity conflicts proposals quarantine decisions project notes jobs consolidation "
    "models audit"
)
# Long work that this process does, or that waits for keys.
_RUN_HERE = frozenset(
    {("jobs", "run"), ("models", "reembed"), ("memory", "reembed"), ("project", "write")}
)
_RUN_HERE_WITH = frozenset({"-f", "--follow", "--browser", "--deep", "--passphrase"})
_GREETING_SECONDS = 1.0
_INTERRUPTED = 130


def run_in_daemon(arguments: list[str]) -> int | None:
    """Run a command in the daemon and return its exit code; None if it must be run here."""
    home = os.path.abspath(parse_arguments(arguments)[1])
    if not _is_for_daemon(arguments) or (connection := _connect(home)) is None:
        return None
    with connection, connection.makefile("rwb") as stream:
        try:
            return _follow(stream) if _is_accepted(connection, stream, arguments) else None
        except KeyboardInterrupt:
            return _INTERRUPTED
        except BrokenPipeError:  # the reader of the output has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 1


def _is_for_daemon(arguments: list[str]) -> bool:
    words = [word for word in _without_home(arguments) if not word.startswith("-")]
    if not words or words[0] not in _RUN_BY_DAEMON.split() or tuple(words[:2]) in _RUN_HERE:
        return False
    is_at_keys = words[0] == "review" and sys.stdin.isatty() and sys.stdout.isatty()
    return not is_at_keys and _RUN_HERE_WITH.isdisjoint(arguments)


def _without_home(arguments: list[str]) -> list[str]:
    """Return the arguments without a home that is named before the command."""
    while arguments and arguments[0].startswith("--home"):
        arguments = arguments[1 if "=" in arguments[0] else 2 :]
    return arguments


def _connect(home: str) -> socket.socket | None:
    path = os.path.join(home, SOCKET_NAME)
    if len(os.fsencode(path)) > LONGEST_PATH or sys.stdout.encoding.lower() != "utf-8":
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_GREETING_SECONDS)
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def _is_accepted(connection: socket.socket, stream: Any, arguments: list[str]) -> bool:
    """Say what to run; return whether the daemon takes it."""
    with suppress(OSError, ValueError):
        _send(stream, _request(arguments))
        is_accepted = "welcome" in json.loads(stream.readline() or b"{}")
        connection.settimeout(None)
        return is_accepted
    return False


def _follow(stream: Any) -> int | None:
    """Do what the daemon says until the command has ended; return its exit code."""
    for line in stream:
        message = json.loads(line)
        for name in message.keys() & {"stdout", "stderr"}:
            _print(getattr(sys, name), message[name])
        if "prove" in message:
            _send(stream, _prove(*message["prove"]))
        if "exit" in message:
            code: int | None = message["exit"]
            return code
    _print(sys.stderr, "butlers: the daemon stopped; the command may have been done\n")
    return 1


def _request(arguments: list[str]) -> dict[str, Any]:
    request: dict[str, Any] = {"command": arguments, "environment": dict(os.environ)}
    with suppress(OSError):  # a directory that is gone
        request["directory"] = os.getcwd()
    request["columns"] = shutil.get_terminal_size().columns
    request["terminals"] = {name: getattr(sys, name).isatty() for name in ("stdout", "stderr")}
    if "-" in arguments:
        request["input"] = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    return request


def _prove(what: str, about: list[str]) -> dict[str, Any]:
    """Ask at the terminal whether a person is present, as the command itself would."""
    from butlers.errors import PresenceRequired
    from butlers.interfaces.cli.presence import is_confirmed

    try:
        return {"is_present": is_confirmed(what, about)}
    except PresenceRequired as error:
        return {"refused": error.why}


def _send(stream: Any, message: dict[str, Any]) -> None:
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


def _print(stream: Any, text: str) -> None:
    stream.buffer.write(text.encode("utf-8", "surrogateescape"))
    stream.buffer.flush()
