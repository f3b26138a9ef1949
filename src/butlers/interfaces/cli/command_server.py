"""The daemon's end of commands: runs one for a client, and sends what it prints."""

import asyncio
import contextvars
import io
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from butlers.errors import PresenceRequired
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.interfaces.cli.shell import Daemon, NotServed, Shell, serving

_FAILED = "butlers: this failed unexpectedly; `butlers logs` says more\n"
_streams: ContextVar[Mapping[str, io.TextIOWrapper] | None] = ContextVar("streams", default=None)


class _Routed:
    """Standard output or error: of the client whose command runs, else of the daemon."""

    def __init__(self, name: str) -> None:
        self._name, self._own = name, getattr(sys, name)

    def __getattr__(self, name: str) -> Any:
        streams = _streams.get()
        return getattr(self._own if streams is None else streams[self._name], name)


class _Sender(io.RawIOBase):
    """A stream that sends what is written to the client."""

    def __init__(self, client: "_Client", name: str, *, is_terminal: bool) -> None:
        self._client, self._name, self._is_terminal = client, name, is_terminal

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, data: Any) -> int:
        text = bytes(data).decode("utf-8", "surrogateescape")
        self._client.send({self._name: text})
        return len(data)


class CommandServer:
    """Runs the commands of clients on this machine, each in a thread over the daemon's butlers."""

    def __init__(self, home: Home, run_command: Callable[[list[str]], int]) -> None:
        self._home, self._run_command = home, run_command

    async def serve(
        self,
        request: Mapping[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        butlers: Mapping[str, Butler],
    ) -> None:
        """Run the command of a client to its end."""
        for name in ("stdout", "stderr"):
            if not isinstance(getattr(sys, name), _Routed):
                setattr(sys, name, _Routed(name))
        loop = asyncio.get_running_loop()
        client = _Client(reader, writer, self._run_command)
        client.send({"welcome": True})
        shell = Shell(
            dict(request["environment"]),
            str(request.get("directory", "")),
            int(request["columns"]),
            str(request.get("input", "")).encode("utf-8", "surrogateescape"),
            Daemon(self._home, butlers, loop, client.confirm),
        )
        await client.run(shell, list(map(str, request["command"])), request["terminals"])


class _Client:
    """The client of one command."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        run_command: Callable[[list[str]], int],
    ) -> None:
        self._reader, self._writer, self._run_command = reader, writer, run_command
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message, from any thread."""
        self._loop.call_soon_threadsafe(self._writer.write, json.dumps(message).encode() + b"\n")

    async def confirm(self, what: str, about: Sequence[str]) -> bool:
        """Ask the person at the client's terminal; PresenceRequired if there is none."""
        self.send({"prove": [what, list(about)]})
        answer = json.loads(await self._reader.readline() or b"{}")
        if "is_present" not in answer:
            raise PresenceRequired(what, str(answer.get("refused", "")))
        return answer["is_present"] is True

    async def run(self, shell: Shell, words: list[str], terminals: Mapping[str, bool]) -> None:
        """Run a command in a thread of its own; return when everything was sent."""
        context = contextvars.copy_context()
        context.run(serving.set, shell)
        context.run(_streams.set, {name: self._stream(name, terminals) for name in terminals})
        run = threading.Thread(target=context.run, args=(self._run, words), daemon=True)
        run.start()
        await self._ended.wait()
        await self._writer.drain()

    def _run(self, words: list[str]) -> None:
        end: dict[str, Any] = {"stderr": _FAILED, "exit": 1}
        try:
            end = {"exit": self._run_command(words)}
        except NotServed:
            end = {"exit": None}
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            self.send(end)
            self._loop.call_soon_threadsafe(self._ended.set)

    def _stream(self, name: str, terminals: Mapping[str, bool]) -> io.TextIOWrapper:
        raw = _Sender(self, name, is_terminal=terminals[name])
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", write_through=True)
