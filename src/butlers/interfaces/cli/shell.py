"""The shell in which a command was typed: of this process, or of a client of the daemon."""

import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from butlers.host.butler import Butler
    from butlers.host.home import Home

Confirm = Callable[[str, Sequence[str]], Coroutine[Any, Any, bool]]


class NotServed(Exception):
    """The daemon cannot run this command; its client does."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """What a command that runs in the daemon uses of it."""

    home: "Home"
    butlers: Mapping[str, "Butler"]
    loop: "AbstractEventLoop"
    confirm: Confirm
    """Asks the person at the client's terminal."""

    def butler(self, name: str) -> "Butler":
        """Return a butler that works; NotServed if the daemon does not have it."""
        found = self.butlers.get(name)
        if found is None or not found.is_open or found.failures:
            raise NotServed(name)
        return found


@dataclass(frozen=True, slots=True)
class Shell:
    """The variables, directory, input and width of a shell."""

    environment: MutableMapping[str, str] = field(default_factory=lambda: os.environ)
    directory: str = ""
    """Where the command was typed; empty for the directory of this process."""
    columns: int = 0
    input: bytes | None = None
    daemon: Daemon | None = None

    def path(self, file: str | Path) -> Path:
        """Return a file as it was named in this shell."""
        return Path(os.path.abspath(os.path.join(self.directory, Path(file).expanduser())))

    def stdin(self) -> BinaryIO:
        """Return standard input."""
        return sys.stdin.buffer if self.daemon is None else BytesIO(self.input or b"")

    @property
    def width(self) -> int:
        """The width of the terminal."""
        return self.columns or shutil.get_terminal_size().columns


serving: ContextVar[Shell | None] = ContextVar("serving", default=None)
"""The shell of the client whose command the daemon runs."""


def current_shell() -> Shell:
    """Return the shell in which this command was typed."""
    return serving.get() or Shell()
