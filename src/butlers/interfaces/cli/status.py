"""`butlers status`, `stop`, `open` and `doctor`: how a home is, and the process that serves it."""

import os
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.options import HomeOption, JsonOption, located
from butlers.interfaces.cli.tables import Column, show_fields, show_json, show_line, show_table

if TYPE_CHECKING:
    from butlers.doctor.finding import Finding
    from butlers.host.home import Home
    from butlers.host.status import Running

NOT_UP = 3
_EXIT_CODES = {"ok": 0, "down": NOT_UP}
_LOOK_AGAIN_SECONDS = 0.05
_SECOND_SIGNAL_SECONDS = 0.3
_LAST_SECONDS = 10.0
_COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "problem": typer.colors.RED}


def status(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Tell whether the home is up, and how each butler is.

    Exits 0 when all is well, 3 when the home is not up, and 1 when a butler is unwell, nobody
    answers, or the home is just starting or stopping.
    """
    place = located(home)
    told = _home_status(place)
    if as_json:
        show_json(told)
    else:
        _show(place, told)
    raise typer.Exit(_EXIT_CODES.get(told["status"], 1))


def stop(
    now: Annotated[bool, typer.Option("--now", help="Do not wait for clients.")] = False,
    wait: Annotated[float, typer.Option(min=0, help="How many seconds to wait for it.")] = 30.0,
    home: HomeOption = None,
) -> None:
    """Stop the process that serves the home, or all of them where several do.

    Whoever is being answered is given a few seconds. It is said when the home is down; one that
    was not up is no error.
    """
    from butlers.errors import Unavailable
    from butlers.host.status import homes_served, process_of

    place = located(home)
    left = [(one, pid) for one in homes_served(place) if (pid := process_of(one)) is not None]
    if not left:
        show_line(f"the butlers of {place.root} are not up")
        return
    # A second signal waits for nobody.
    for seconds in (_SECOND_SIGNAL_SECONDS if now else wait, min(wait, _LAST_SECONDS)):
        left = _not_stopped(left, seconds)
    for _, pid in left:
        raise Unavailable(
            f"process {pid} does not stop; `butlers logs` may say why. To end it: kill -9 {pid}"
        )
    show_line(f"the butlers of {place.root} are down")


def open_pages(
    browser: Annotated[bool, typer.Option("--browser", help="Show it in your browser.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a link that signs you in to the dashboard.

    It stands alone on the last line, and works once, for ten minutes. Only the user who runs the
    butlers can make one.
    """
    place = located(home)
    link = _new_link(place)
    if as_json:
        show_json({"url": link})
    else:
        show_line("See what they remember (works once, for ten minutes):")
        typer.echo(link)
    if browser:
        _browse(place, link)


def doctor(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Check everything that could be wrong and say what to do; exits 1 on a problem."""
    import asyncio

    from butlers.doctor.checks import examine
    from butlers.doctor.finding import Severity

    findings = asyncio.run(examine(located(home)))
    if as_json:
        show_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            _show_finding(finding)
    if any(finding.verdict is Severity.PROBLEM for finding in findings):
        raise typer.Exit(1)


def _show_finding(finding: "Finding") -> None:
    verdict = typer.style(f"{finding.verdict:8}", fg=_COLOURS[finding.verdict])
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    typer.echo(f"{verdict} {finding.check}: {finding.message}{remedy}")


def _home_status(home: "Home") -> dict[str, Any]:
    """What there is to know of a home in a moment."""
    from butlers.host import status

    fields: dict[str, Any] = {"home": str(home.root), "sessions": _sessions(home)}
    places = status.homes_served(home)
    if not places:
        return {"status": "down", **fields}
    found = [running for one in places if (running := status.running(one)) is not None]
    if not found:
        return {"status": "starting or stopping", **fields}
    known, *others = map(_described, found)
    words = [known["status"], *(one["status"] for one in others)]
    word = next((word for word in words if word != "ok"), "ok")
    return {**fields, **known, "status": word, "others": others}


def _described(running: "Running") -> dict[str, Any]:
    """A process that serves the home, and how the butlers are as it tells."""
    from butlers.host import status

    word, butlers = status.health(running)
    known = asdict(running)
    for name in [*known["butlers"], *butlers]:
        known["butlers"].setdefault(name, {}).update(butlers.get(name, {"status": word}))
    return {"status": word, **known}


def _sessions(home: "Home") -> list[dict[str, Any]]:
    """What there is to tell of sessions: that they wait, were set aside or went without memory."""
    from butlers.clock import utc_now
    from butlers.sessions.session_alerts import shortfalls

    return [asdict(one) for one in shortfalls(home.root, utc_now())]


def _show(home: "Home", told: dict[str, Any]) -> None:
    _show_presence(home, told)
    for one in told["sessions"]:
        show_line(f"sessions {one['what']}: {one['words']}; {one['remedy']}")


def _show_presence(home: "Home", told: dict[str, Any]) -> None:
    if told["status"] == "down":
        show_line(f"the butlers of {home.root} are not up; `butlers up` starts them")
    elif "url" not in told:
        show_line(f"the butlers of {home.root} are {told['status']}; ask again in a moment")
    else:
        show_fields(
            [
                ("status", told["status"]),
                ("address", told["url"]),
                ("home", told["home"]),
                ("process", f"{told['pid']}, version {told['version'] or 'not known'}"),
                ("since", _since(told["started_at"]) if told["started_at"] else "not known"),
            ]
        )
        rows = [[name, _health(one)] for name, one in told["butlers"].items()]
        show_table([Column("butler"), Column("health", wraps=True)], rows)
        for one in told["others"]:
            version = one["version"] or "not known"
            show_line(f"also served at {one['url']}, process {one['pid']}, version {version}")


def _since(started_at: str) -> str:
    from butlers.clock import utc_now

    instant = datetime.fromisoformat(started_at)
    span = _span(int((utc_now() - instant).total_seconds()))
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC, for {span}"


def _span(seconds: int) -> str:
    """A length of time in its two largest units."""
    sizes = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for unit, size in sizes:
        count, seconds = divmod(seconds, size)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def _health(butler: dict[str, Any]) -> str:
    """A butler in a word, why, by which of its modules, and what else to look at."""
    from butlers.host.status import reasons

    word = ": ".join([butler["status"], *filter(None, ["; ".join(reasons(butler))])])
    notes = butler.get("notes", [])
    return f"{word}; {'; '.join(notes)} (`butlers jobs` says more)" if notes else word


def _not_stopped(up: list[tuple["Home", int]], seconds: float) -> list[tuple["Home", int]]:
    """Ask processes to stop; those that did not let go of the home in this time."""
    from butlers.host.status import ask_to_stop, process_of

    left = [(home, pid) for home, pid in up if ask_to_stop(home, pid)]
    deadline = time.monotonic() + seconds
    while left := [(home, pid) for home, pid in left if process_of(home) == pid]:
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_AGAIN_SECONDS)
    return left


def _new_link(home: "Home") -> str:
    from butlers.errors import Unavailable
    from butlers.host.invitations import Invitations
    from butlers.host.status import homes_served, served

    found = served(home)
    if found is None:
        raise Unavailable(f"the butlers of {home.root} are not up; start them with `butlers up`")
    files = (one.run_file for one in homes_served(home))
    owner = next(file.stat().st_uid for file in files if file.exists())
    if owner != os.geteuid():
        raise Unavailable(f"the butlers of {home.root} are run by user {owner}; ask as that user")
    return found.url + Invitations(home).create()


def _browse(home: "Home", link: str) -> None:
    """Show a link in the browser by way of a private file: arguments of programs are public."""
    import html
    import tempfile
    import webbrowser

    from butlers.errors import Unavailable

    handle, name = tempfile.mkstemp(suffix=".html", dir=home.invitations_directory)
    with open(handle, "w", encoding="utf-8") as page:
        page.write(f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">\n')
    if not webbrowser.open(Path(name).as_uri()):
        raise Unavailable("there is no browser to show it in; open the link yourself")
