"""Commands at a terminal of their own: a pseudo terminal that the test types into."""

import os
import pty
import select
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from interfaces.daemons import ENVIRONMENT, PROGRAM, until


class Terminal:
    """A command that runs at a terminal, and what it has written there."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid, self._descriptor = pid, descriptor
        self.code: int | None = None
        self.screen, self._read_to = "", 0

    def wait_for(self, text: str, seconds: float = 60.0) -> str:
        """Read until a text appears after what was waited for before; return what came."""
        deadline = time.monotonic() + seconds
        while text not in self.screen[self._read_to :]:
            assert self._read() and time.monotonic() < deadline, self.screen
        begins, self._read_to = self._read_to, self.screen.index(text, self._read_to) + len(text)
        return self.screen[begins : self._read_to]

    def type(self, text: str) -> None:
        """Type; a line ends with a carriage return, as the key sends it."""
        os.write(self._descriptor, text.replace("\n", "\r").encode())

    def press(self, key: str) -> None:
        """Press a key once the command waits for single keys; earlier ones are discarded."""
        until(lambda: not termios.tcgetattr(self._descriptor)[3] & termios.ICANON)
        os.write(self._descriptor, key.encode())

    def answer(self) -> None:
        """Type the number that is asked for."""
        self.wait_for("Type ")
        self.type(self.wait_for(" ").strip() + "\n")

    def end(self) -> int:
        """Read to the end; return the exit code."""
        while self._read():
            assert len(self.screen) < 1_000_000
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], 60)
        assert ready, f"nothing more came: {self.screen}"
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:  # the command has closed its end
            return False
        self.screen += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)


@contextmanager
def at_terminal(*arguments: object, **variables: str) -> Iterator[Terminal]:
    """Run the real command at a terminal of 80 columns; ended at the end if need be."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execve(
            PROGRAM[0],
            [*PROGRAM, *map(str, arguments)],
            ENVIRONMENT | {"TERM": "dumb", "COLUMNS": "80"} | variables,
        )
    terminal = Terminal(pid, descriptor)
    try:
        yield terminal
    finally:
        if terminal.code is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(descriptor)
