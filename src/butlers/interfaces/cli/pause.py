"""`butlers pause` and `butlers resume`: store nothing for a while."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from butlers.errors import InvalidInput, NotFound
from butlers.interfaces.cli.options import HomeOption, JsonOption, find_home
from butlers.interfaces.cli.output import show_json, show_line, to_the_second
from butlers.interfaces.cli.shell import current_shell

_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(?:\d{1,4}[mhdw])+")
ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", help="Only the project of this directory; . is the current one."),
]


def pause(
    project: ProjectOption = None,
    for_: Annotated[
        str | None,
        typer.Option("--for", help="How long, e.g. 90m, 2h or 1d [default: until resumed]."),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause memory: nothing said from now on is stored, not even later, and agents get no context.

    Storing by tools and commands is refused meanwhile; reading is not. `butlers resume` ends it.
    """
    from butlers.clock import utc_now
    from butlers.sessions.pauses import add_pause
    from butlers.sessions.spool import drop_all_links

    seconds = None if for_ is None else duration_seconds(for_)
    located = str(find_home(home).checked().root)
    add_pause(located, _project(project), seconds and utc_now().timestamp() + seconds)
    drop_all_links(located)
    _show(located, as_json)


def resume(
    project: ProjectOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """End every pause, or the one of a project; what was said during it stays unstored."""
    from butlers.sessions.pauses import end_pauses

    located = str(find_home(home).checked().root)
    if not end_pauses(located, _project(project)) and project is not None:
        raise NotFound(f"{project} is not paused by itself; `butlers resume` ends every pause")
    _show(located, as_json)


def duration_seconds(text: str) -> int:
    """Return the seconds of a duration such as 1h30m; InvalidInput if it is none."""
    seconds = 0
    if _DURATION.fullmatch(text):
        seconds = sum(int(part[:-1]) * _SECONDS[part[-1]] for part in re.findall(r"\d+.", text))
    if not seconds:
        raise InvalidInput(
            f"--for: found {text!r:.40}; valid is a duration as 90m, 2h, 1h30m or 1d"
        )
    return seconds


def pauses_now(home: str) -> dict[str, Any]:
    """Return the pauses that hold now under `paused`, each with its project; {} without one."""
    from butlers.clock import utc_now
    from butlers.sessions.pauses import read_pauses

    now = utc_now().timestamp()
    paused = [
        {"project": row["name"], **{end: _time_text(row[end]) for end in ("since", "until")}}
        for row in read_pauses(home)
        if row["until"] is None or row["until"] > now
    ]
    return {"paused": paused} if paused else {}


def show_pauses(paused: Iterable[dict[str, Any]]) -> None:
    """Print each pause in a sentence."""
    for pause in paused:
        what = f"project {pause['project']}" if pause["project"] else "memory"
        until = f" until {pause['until']} UTC" if pause["until"] else ""
        show_line(f"{what} is paused{until}: nothing is stored; `butlers resume` ends it")


def _project(directory: Path | None) -> dict[str, Any] | None:
    from butlers.sessions.projects import identify

    if directory is None:
        return None
    path = current_shell().path(directory)
    if not path.is_dir():
        raise InvalidInput(f"--project: found {directory}; valid is a directory that exists")
    return identify(str(path))


def _show(home: str, as_json: bool) -> None:
    report = {"paused": [], **pauses_now(home)}
    if as_json:
        show_json(report)
        return
    show_pauses(report["paused"])
    if not report["paused"]:
        show_line("memory is not paused")


def _time_text(instant: float | None) -> str | None:
    return None if instant is None else to_the_second(datetime.fromtimestamp(instant, UTC))
