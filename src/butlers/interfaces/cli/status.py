"""`butlers status`, `stop`, `open` and `doctor`: the daemon and the health of a home."""

import os
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.errors import PresenceRequired, Unavailable
from butlers.interfaces.cli.options import HomeOption, JsonOption, find_home, run
from butlers.interfaces.cli.output import (
    show_fields,
    show_json,
    show_line,
    show_table,
    to_the_second,
)
from butlers.interfaces.cli.pause import pauses_now, show_pauses
from butlers.interfaces.cli.presence import is_confirmed
from butlers.interfaces.cli.shell import current_shell

if TYPE_CHECKING:
    from butlers.host.home import Home
    from butlers.host.status import Running

NOT_UP = 3
_DOWN = "the daemon of {} is not running; start it with `butlers up`"
_EXIT_CODES = {"ok": 0, "down": NOT_UP}
_LOOK_AGAIN_SECONDS = 0.1
_SECOND_SIGNAL_SECONDS = 0.3
_LAST_SECONDS = 10.0
_COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "problem": typer.colors.RED}


def status(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show whether the daemon is running and the health of each butler.

    Exits 0 if all is well, 3 if the daemon is not running, and 1 if a butler is unwell, the daemon
    does not answer, or it is starting or stopping.
    """
    located = find_home(home)
    report = _home_status(located)
    if as_json:
        show_json(report)
    else:
        _show_daemon(located, report)
        show_pauses(report.get("paused", ()))
        for alert in report["sessions"]:
            show_line(f"sessions {alert['what']}: {alert['words']}; {alert['remedy']}")
    raise typer.Exit(_EXIT_CODES.get(report["status"], 1))


def stop(
    now: Annotated[bool, typer.Option("--now", help="Do not wait for requests to finish.")] = False,
    wait: Annotated[float, typer.Option(min=0, help="How many seconds to wait.")] = 30.0,
    home: HomeOption = None,
) -> None:
    """Stop the daemon, or all of them if several serve the home.

    Running requests get a few seconds to finish. Stopping a home that is not running is no error.
    """
    from butlers.host.status import homes_served, process_of

    located = find_home(home)
    left = [(each, pid) for each in homes_served(located) if (pid := process_of(each)) is not None]
    if not left:
        show_line(f"the daemon of {located.root} is not running")
        return
    # A second signal waits for nobody.
    for seconds in (_SECOND_SIGNAL_SECONDS if now else wait, min(wait, _LAST_SECONDS)):
        left = _not_stopped(left, seconds)
    for _, pid in left:
        raise Unavailable(
            f"process {pid} does not stop; see `butlers logs`. To end it: kill -9 {pid}"
        )
    show_line(f"stopped the daemon of {located.root}")


def open_pages(
    browser: Annotated[bool, typer.Option("--browser", help="Open it in your browser.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a link that signs you in to the dashboard.

    The link is the last line. It works once, for ten minutes. Only the user who runs the daemon
    can make one. At a terminal it asks for a number; without it, the link cannot decide what waits.
    """
    from butlers.auth.sign_in import CANNOT_DECIDE, SignInLinks

    located = find_home(home)
    daemon = _own_daemon(located)
    may_decide = _is_present()
    link = daemon.url + SignInLinks(located.invitations_directory).create(may_decide=may_decide)
    if as_json:
        show_json({"url": link, "may_decide": may_decide})
    else:
        show_line("Open the dashboard (the link works once, for ten minutes):")
        if not may_decide:
            show_line(CANNOT_DECIDE)
        typer.echo(link)
    if browser:
        _browse(located, link)


def doctor(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Check the home for problems and say how to fix them; exits 1 if there is a problem."""
    import asyncio

    from butlers.doctor import Severity
    from butlers.doctor.checks import examine

    findings = asyncio.run(examine(find_home(home)))
    if as_json:
        show_json([asdict(finding) for finding in findings])
    for finding in findings if not as_json else ():
        verdict = typer.style(f"{finding.verdict:8}", fg=_COLOURS[finding.verdict])
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        typer.echo(f"{verdict} {finding.check}: {finding.message}{remedy}")
    if any(finding.verdict is Severity.PROBLEM for finding in findings):
        raise typer.Exit(1)


def _home_status(home: "Home") -> dict[str, Any]:
    """Collect the state of the daemons, the butlers and the sessions."""
    from butlers.clock import utc_now
    from butlers.host import status
    from butlers.sessions.session_alerts import shortfalls

    alerts = [asdict(alert) for alert in shortfalls(home.root, utc_now())]
    fields: dict[str, Any] = {"home": str(home.root), "sessions": alerts}
    fields |= pauses_now(str(home.root))
    served = status.homes_served(home)
    daemons = [_described(daemon) for daemon in map(status.running, served) if daemon is not None]
    if not daemons:
        return {"status": "starting or stopping" if served else "down", **fields}
    word = next((each["status"] for each in daemons if each["status"] != "ok"), "ok")
    return {**fields, **daemons[0], "status": word, "others": daemons[1:]}


def _described(running: "Running") -> dict[str, Any]:
    """Describe a daemon and the health of its butlers."""
    from butlers.host import status

    word, butlers = status.health(running)
    known = asdict(running)
    for name in [*known["butlers"], *butlers]:
        known["butlers"].setdefault(name, {}).update(butlers.get(name, {"status": word}))
    return {"status": word, **known}


def _show_daemon(home: "Home", report: dict[str, Any]) -> None:
    if report["status"] == "down":
        show_line(_DOWN.format(home.root))
        return
    if "url" not in report:
        show_line(f"the daemon of {home.root} is {report['status']}; try again in a moment")
        return
    show_fields(
        ("status", report["status"]),
        ("address", report["url"]),
        ("home", report["home"]),
        ("process", f"{report['pid']}, version {report['version'] or 'unknown'}"),
        ("since", _since(report["started_at"]) if report["started_at"] else "unknown"),
    )
    rows = [[name, _health(butler)] for name, butler in report["butlers"].items()]
    show_table(("butler", "health"), rows, wraps=("health",))
    for other in report["others"]:
        version = other["version"] or "unknown"
        show_line(f"also served at {other['url']}, process {other['pid']}, version {version}")


def _since(started_at: str) -> str:
    from butlers.clock import utc_now

    instant = datetime.fromisoformat(started_at)
    span = _span(int((utc_now() - instant).total_seconds()))
    return f"{to_the_second(instant)} UTC, for {span}"


def _span(seconds: int) -> str:
    """Format a duration in its two largest units."""
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def _health(butler: dict[str, Any]) -> str:
    """Describe a butler's health: the verdict, the reasons by module, and notes."""
    from butlers.host.status import reasons

    word = ": ".join([butler["status"], *filter(None, ["; ".join(reasons(butler))])])
    notes = butler.get("notes", [])
    return f"{word}; {'; '.join(notes)} (see `butlers jobs`)" if notes else word


def _not_stopped(up: list[tuple["Home", int]], seconds: float) -> list[tuple["Home", int]]:
    """Ask processes to stop; return those still running after this time."""
    from butlers.host.status import ask_to_stop, process_of

    left = [(home, pid) for home, pid in up if ask_to_stop(home, pid)]
    deadline = time.monotonic() + seconds
    while left := [(home, pid) for home, pid in left if process_of(home) == pid]:
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_AGAIN_SECONDS)
    return left


def _is_present() -> bool:
    what, about = "decide in the dashboard", ["a link that signs in to the dashboard"]
    daemon = current_shell().daemon
    with suppress(PresenceRequired):
        return run(daemon.confirm(what, about)) if daemon else is_confirmed(what, about)
    return False


def _own_daemon(home: "Home") -> "Running":
    """Return the daemon of the home; Unavailable if it is down, or another user's."""
    from butlers.host.status import homes_served, served

    daemon = served(home)
    if daemon is None:
        raise Unavailable(_DOWN.format(home.root))
    files = (each.run_file for each in homes_served(home))
    owner = next(file.stat().st_uid for file in files if file.exists())
    if owner != os.geteuid():
        raise Unavailable(
            f"the daemon of {home.root} is run by user {owner}; run this as that user"
        )
    return daemon


def _browse(home: "Home", link: str) -> None:
    """Open a link by way of a private file, because other users can see program arguments."""
    import html
    import tempfile
    import webbrowser

    handle, name = tempfile.mkstemp(suffix=".html", dir=home.invitations_directory)
    with open(handle, "w", encoding="utf-8") as page:
        page.write(f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">\n')
    if not webbrowser.open(Path(name).as_uri()):
        raise Unavailable("no browser found; open the link yourself")
