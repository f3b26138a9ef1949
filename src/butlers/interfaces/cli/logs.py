"""`butlers logs`: what the process that serves a home tells, readable."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from butlers.interfaces.cli.options import HomeOption, located
from butlers.interfaces.cli.tables import show_line

if TYPE_CHECKING:
    from butlers.host.home import Home

_LOOK_AGAIN_SECONDS = 0.2
_COLOURS = {"warning": typer.colors.YELLOW, "error": typer.colors.RED, "critical": typer.colors.RED}
_SAID_FIRST = frozenset({"timestamp", "level", "butler", "event", "logger", "exception"})


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many at first.")] = 50,
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As they are kept, for scripts.")] = False,
) -> None:
    """Show the log of the home, the newest line last. Times are UTC.

    Neither tokens nor what memories say are in it: both are masked before a line is written.
    """
    place = located(home)
    with _opened(place) as newest:
        for line in _recent(place.log_file, newest, lines):
            _show(line, as_json)
        if follow:
            with suppress(KeyboardInterrupt):
                for line in _coming(place.log_file, newest):
                    _show(line, as_json)


def _opened(home: "Home") -> TextIO:
    from butlers.errors import NotFound

    try:
        return _open(home.log_file)
    except FileNotFoundError:
        raise NotFound(
            f"there is no log in {home.logs_directory} yet; `butlers up` writes one"
        ) from None


def _open(file: Path) -> TextIO:
    return file.open(encoding="utf-8", errors="replace")


def _recent(file: Path, newest: TextIO, count: int) -> list[str]:
    """The last lines, from older files too if the newest does not have as many."""
    found = newest.readlines()
    for number in range(1, 1_000):
        older = file.with_name(f"{file.name}.{number}")
        if len(found) >= count or not older.exists():
            break
        with _open(older) as stream:
            found = stream.readlines() + found
    return found[len(found) - count :] if count < len(found) else found


def _coming(file: Path, stream: TextIO) -> Iterator[str]:
    """Lines as they are written, also after the file was put aside for a new one."""
    rest = ""
    while True:
        is_old = _is_put_aside(file, stream)
        for part in stream:
            rest += part
            if rest.endswith("\n"):
                yield rest
                rest = ""
        if is_old:
            stream.close()
            stream = _open(file)
        else:
            time.sleep(_LOOK_AGAIN_SECONDS)


def _is_put_aside(file: Path, stream: TextIO) -> bool:
    try:
        return file.stat().st_ino != os.fstat(stream.fileno()).st_ino
    except FileNotFoundError:
        return False  # the new one is about to be there


def _show(line: str, as_json: bool) -> None:
    if as_json:
        typer.echo(line.rstrip("\n"))
        return
    told = _fields(line)
    colour = _COLOURS.get(str(told.get("level")))
    show_line(_sentence(told), colour)
    for frame in str(told.get("exception", "")).splitlines():
        show_line(frame, colour, indent=4)


def _fields(line: str) -> dict[str, Any]:
    """What a line says; one that is not ours is an event without a time."""
    try:
        told = json.loads(line)
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {"event": line}


def _sentence(told: dict[str, Any]) -> str:
    """When, how grave, whose, what, and whatever else is known."""
    when = str(told.get("timestamp", ""))[:19].replace("T", " ")
    whose = f"{told['butler']}:" if "butler" in told else ""
    more = (f"{key}={value}" for key, value in told.items() if key not in _SAID_FIRST)
    return " ".join([when, str(told.get("level", "")), whose, str(told.get("event", "")), *more])
