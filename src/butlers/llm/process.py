"""Run a program once: text in, text out, and no process left behind."""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from butlers.llm.completion import CompletionFailed, NotReached, Usage

MAX_OUTPUT_BYTES = 4 * 1024 * 1024
TERMINATION_SECONDS = 2.0
# How long output may still arrive after its program has ended.
DRAIN_SECONDS = 1.0

_STDIN, _STDOUT, _STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Invocation:
    """A program to run, and the name that errors call it."""

    name: str
    argv: Sequence[str]
    stdin: bytes
    directory: Path
    environment: Mapping[str, str]
    timeout_seconds: float
    late: NotReached
    """Raised when the time is up."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended and what it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def ending(self) -> str:
        """Describe how it ended."""
        if self.exit_code < 0:
            return f"was ended by signal {-self.exit_code}"
        return f"ended with exit code {self.exit_code}"

    @property
    def complaint(self) -> str:
        """Return standard error, or standard output if that is empty."""
        return (self.stderr.strip() or self.stdout).decode("utf-8", "replace")


def find_program(program: str) -> str:
    """Return the absolute path of a program; NotReached where it is missing."""
    path = os.path.expanduser(program)
    located = shutil.which(path)
    if located is not None:
        # The process works in a directory of its own, where a relative path means something else.
        return os.path.abspath(located)
    if os.path.dirname(path) and os.path.exists(path):
        raise NotReached(
            f"{program} may not be executed: make it executable or set runtime.command"
        )
    raise NotReached(
        f"the program {program!r} was not found: install it or set runtime.command to its path"
    )


async def run(invocation: Invocation) -> ProgramResult:
    """Run a program to its end; its whole process group is ended in any case."""
    transport, output = await _start(invocation)
    try:
        return await _finished(transport, output, invocation)
    except (asyncio.CancelledError, CompletionFailed):
        _signal_group(transport, signal.SIGTERM)
        await asyncio.wait({output.exited}, timeout=TERMINATION_SECONDS)
        raise
    finally:
        # Also after a good end: what the program started and left running goes too.
        _signal_group(transport, signal.SIGKILL)
        try:
            await asyncio.wait({output.exited}, timeout=TERMINATION_SECONDS)
        finally:
            _close(transport)


def read_answer(name: str, path: Path, usage: Usage | None = None) -> str:
    """Read an answer from a plain UTF-8 file of limited size; CompletionFailed otherwise."""
    answer = b""
    try:
        # Anything but a plain file, a pipe for one, could keep its reader waiting.
        if path.is_file():
            with path.open("rb") as file:
                answer = file.read(MAX_OUTPUT_BYTES + 1)
    except OSError as error:
        raise CompletionFailed(f"the answer of {name} cannot be read: {error.strerror}") from None
    if len(answer) > MAX_OUTPUT_BYTES:
        limit = MAX_OUTPUT_BYTES // 1024**2
        raise CompletionFailed(f"{name} answered with more than {limit} MB", usage)
    return decode_answer(name, answer, usage)


def decode_answer(name: str, answer: bytes, usage: Usage | None = None) -> str:
    """Decode an answer; CompletionFailed where it is not UTF-8."""
    try:
        return answer.decode("utf-8")
    except UnicodeDecodeError:
        raise CompletionFailed(f"the answer of {name} is not UTF-8 text", usage) from None


class _Output(asyncio.SubprocessProtocol):
    """Collects what a process writes, up to a limit, and notices when it ends."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.written = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.overflowed: asyncio.Future[None] = loop.create_future()
        self._open = {_STDOUT, _STDERR}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        written = self.written[fd]
        written += data[: MAX_OUTPUT_BYTES + 1 - len(written)]
        if len(written) > MAX_OUTPUT_BYTES:
            _set_done(self.overflowed)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            _set_done(self.closed)

    def process_exited(self) -> None:
        _set_done(self.exited)


def _set_done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _start(invocation: Invocation) -> tuple[asyncio.SubprocessTransport, _Output]:
    loop = asyncio.get_running_loop()
    try:
        transport, output = await loop.subprocess_exec(
            _Output,
            *invocation.argv,
            cwd=invocation.directory,
            env=invocation.environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        program = invocation.argv[0]
        raise NotReached(
            f"{invocation.name} could not be started: {program}: {reason}; "
            "check [runtime] in butler.toml"
        ) from None
    stdin = _stdin(transport)
    stdin.write(invocation.stdin)
    stdin.write_eof()
    return transport, output


async def _finished(
    transport: asyncio.SubprocessTransport, output: _Output, invocation: Invocation
) -> ProgramResult:
    wait_for_first = partial(asyncio.wait, return_when=asyncio.FIRST_COMPLETED)
    await wait_for_first({output.exited, output.overflowed}, timeout=invocation.timeout_seconds)
    if output.exited.done():
        await wait_for_first({output.closed, output.overflowed}, timeout=DRAIN_SECONDS)
    if output.overflowed.done():
        raise CompletionFailed(
            f"{invocation.name} wrote more than {MAX_OUTPUT_BYTES // 1024**2} MB and was stopped"
        )
    if not output.exited.done():
        raise invocation.late
    written = (bytes(output.written[fd]) for fd in (_STDOUT, _STDERR))
    return ProgramResult(cast(int, transport.get_returncode()), *written)


def _signal_group(transport: asyncio.SubprocessTransport, number: signal.Signals) -> None:
    # The process leads a session of its own, so its id is that of the group.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(transport.get_pid(), number)


def _stdin(transport: asyncio.SubprocessTransport) -> asyncio.WriteTransport:
    return cast(asyncio.WriteTransport, cast(Any, transport.get_pipe_transport(_STDIN)))


def _close(transport: asyncio.SubprocessTransport) -> None:
    stdin = _stdin(transport)
    # What nobody read would keep the pipe open.
    if stdin.get_write_buffer_size() > 0:
        stdin.abort()
    transport.close()
