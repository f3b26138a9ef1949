"""`butlers logs`: show the log of the daemon in readable form."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from butlers.errors import NotFound
from butlers.interfaces.cli.options import HomeOption, JsonOption, find_home
from butlers.interfaces.cli.output import show_line

_LOOK_AGAIN_SECONDS = 0.2
_COLOURS = {"warning": typer.colors.YELLOW, "error": typer.colors.RED, "critical": typer.colors.RED}
_SHOWN_FIRST = frozenset({"timestamp", "level", "butler", "event", "logger", "exception"})


def logs(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many past lines.")] = 50,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the log of the daemon, newest line last. Times are UTC.

    The log holds no tokens and no contents of memories: both are masked.
    """
    file = find_home(home).log_file
    try:
        newest = _open(file)
    except FileNotFoundError:
        raise NotFound(f"there is no log in {file.parent} yet; `butlers up` writes one") from None
    with newest:
        for line in _recent(file, newest, lines):
            _show(line, as_json)
        if follow:
            with suppress(KeyboardInterrupt):
                for line in _follow(file, newest):
                    _show(line, as_json)


def _open(file: Path) -> TextIO:
    return file.open(encoding="utf-8", errors="replace")


def _recent(file: Path, newest: TextIO, count: int) -> list[str]:
    """The last lines, read from older files too if the newest is too short."""
    lines = newest.readlines()
    for number in range(1, 1_000):
        older = file.with_name(f"{file.name}.{number}")
        if len(lines) >= count or not older.exists():
            break
        with _open(older) as stream:
            lines = stream.readlines() + lines
    return lines[len(lines) - count :] if count < len(lines) else lines


def _follow(file: Path, stream: TextIO) -> Iterator[str]:
    """Yield lines as they are written, across log rotation."""
    rest = ""
    while True:
        is_old = _is_rotated(file, stream)
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


def _is_rotated(file: Path, stream: TextIO) -> bool:
    try:
        return file.stat().st_ino != os.fstat(stream.fileno()).st_ino
    except FileNotFoundError:
        return False  # the new file is about to appear


def _show(line: str, as_json: bool) -> None:
    if as_json:
        typer.echo(line.rstrip("\n"))
        return
    fields = _fields(line)
    colour = _COLOURS.get(str(fields.get("level")))
    show_line(_sentence(fields), colour)
    for frame in str(fields.get("exception", "")).splitlines():
        show_line(frame, colour, indent=4)


def _fields(line: str) -> dict[str, Any]:
    """Parse a line; one that is not JSON becomes an event without a time."""
    fields = None
    with suppress(ValueError):
        fields = json.loads(line)
    return fields if isinstance(fields, dict) else {"event": line}


def _sentence(fields: dict[str, Any]) -> str:
    """Format a log line: time, level, butler, event, then the other fields."""
    when = str(fields.get("timestamp", ""))[:19].replace("T", " ")
    whose = f"{fields['butler']}:" if "butler" in fields else ""
    event = str(fields.get("event", ""))
    more = (f"{key}={value}" for key, value in fields.items() if key not in _SHOWN_FIRST)
    return " ".join([when, str(fields.get("level", "")), whose, event, *more])
