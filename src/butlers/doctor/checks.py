"""`butlers doctor`: run every check of a home. No check changes anything or prints a secret."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from butlers.atomic_files import PRIVATE
from butlers.auth.tokens import TokenUsage
from butlers.backup.directory import Backups
from butlers.clock import utc_now
from butlers.db import sqlite
from butlers.doctor import Finding, ok, problem, warning
from butlers.doctor.database import databases
from butlers.errors import ButlersError, SettingsError
from butlers.host import status
from butlers.host.home import Home
from butlers.host.home_tokens import home_tokens
from butlers.interfaces.http_server import listen
from butlers.kernel.sections import Check
from butlers.modules import ModulesSection
from butlers.notebook.manager import FILE
from butlers.notebook.module import NotebookModule
from butlers.sessions.ignore_file import read_rules
from butlers.sessions.pauses import current_pause
from butlers.sessions.session_alerts import shortfalls
from butlers.settings.files import HouseSettings, load_house, override_server
from butlers.settings.sections import RuntimeSection, ServerSection

_OLDEST_PYTHON = (3, 11)
_SOON, _LONG_UNUSED = timedelta(days=14), timedelta(days=30)
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 2**30, 100 * 2**20


async def examine(home: Home) -> list[Finding]:
    """Run every check, in the order in which problems are best fixed."""
    findings = _guarded("python", _python)
    for check, look in {
        "home": _home,
        "disk": _disk,
        "sessions": _sessions,
        "privacy": _privacy,
    }.items():
        findings += _guarded(check, partial(look, home))
    house, faults = _settings(home)
    findings += faults
    if house is not None:
        findings += await asyncio.to_thread(_house_findings, home, house)
        try:
            findings += await databases(home, house)
        except Exception as error:  # noqa: BLE001  one broken check must not hide the others
            findings.append(_failed("database", error))
    return findings


def _house_findings(home: Home, house: HouseSettings) -> list[Finding]:
    findings = [
        *_guarded("server", lambda: _server(home, house.server)),
        *_guarded("tokens", lambda: _tokens(home, list(house.butlers))),
        *_guarded("backup", lambda: _backups(Backups(home, house.backup))),
    ]
    # Without butlers, the default modules are checked.
    modules = [butler.modules for butler in house.butlers.values()] or [ModulesSection()]
    checks = {check for each in modules for section in each.each() for check in section.checks()}
    for check in sorted(checks, key=lambda check: (check.name, check.about)):
        findings += _guarded(check.name, partial(_module_check, check))
    for name, settings in house.butlers.items():
        if settings.is_enabled(NotebookModule.name):
            file = home.butler_directory(name) / FILE
            findings += _guarded(f"notebook of {name}", partial(_notebook, name, file))
    for name, settings in house.butlers.items():
        findings += _guarded("runtime", partial(_runtime, f"runtime of {name}", settings.runtime))
    return findings


def _guarded(check: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(look())
    except Exception as error:  # noqa: BLE001  one broken check must not hide the others
        return [_failed(check, error)]


def _failed(check: str, error: Exception) -> Finding:
    if isinstance(error, ButlersError):
        return problem(check, str(error))
    if isinstance(error, OSError):
        return problem(check, f"{error.filename or 'the system'}: {error.strerror or error}")
    return problem(
        check, f"the check itself failed ({type(error).__name__})", "report this as a bug"
    )


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _OLDEST_PYTHON:
        yield problem("python", f"Python {version}", "install Python 3.11 or newer")
    else:
        yield ok("python", f"Python {version}")


def _home(home: Home) -> Iterator[Finding]:
    if not home.root.exists():
        yield warning("home", f"{home.root} does not exist yet", "`butlers up` creates it")
        return
    if home.restoring_directory.exists():
        yield problem("home", f"{home.root} is half restored", "run `butlers restore FILE` again")
        return
    try:
        tempfile.TemporaryFile(dir=home.root).close()
    except OSError as error:
        remedy = "make it writable, or choose another with --home or BUTLERS_HOME"
        yield problem("home", f"{home.root} cannot be written to ({error.strerror})", remedy)
        return
    # Execute permission is harmless, and the account that runs root's database needs it.
    if home.root.stat().st_mode & 0o066:
        yield warning("home", f"other users can read {home.root}", f"run: chmod go-rw {home.root}")
    else:
        yield ok("home", f"{home.root} is writable and private")


def _disk(home: Home) -> Iterator[Finding]:
    existing = next(path for path in (home.root, *home.root.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    message = f"{free / 2**30:.1f} GiB free"
    if free < _TOO_LITTLE_BYTES:
        yield problem("disk", message, "free some space: the database needs it to work")
    elif free < _LITTLE_BYTES:
        yield warning("disk", message, "free some space soon")
    else:
        yield ok("disk", message)


def _sessions(home: Home) -> Iterator[Finding]:
    """Check that no session waits to be stored, and that none started without memory."""
    alerts = shortfalls(home.root, utc_now())
    for alert in alerts:
        yield warning("sessions", f"{alert.what}: {alert.words}", alert.remedy)
    if not alerts:
        yield ok("sessions", "all stored, and none started without memory lately")


def _privacy(home: Home) -> Iterator[Finding]:
    """Check that memory is not paused, and that its ignore file can be read."""
    rules = read_rules(str(home.root))
    for fault in rules.problems if rules else ():
        yield warning("privacy", f"{fault}; the line is not used", "correct it or delete it")
    if current_pause(str(home.root), ()):
        yield warning("privacy", "memory is paused: nothing is stored", "`butlers resume` ends it")
    elif not (rules and rules.problems):
        yield ok("privacy", "memory is not paused")


def _settings(home: Home) -> tuple[HouseSettings | None, list[Finding]]:
    files = home.butler_files()
    try:
        house = load_house(home.settings_file, files)
    except SettingsError as error:
        return None, [problem("settings", fault) for fault in error.faults]
    if not files:
        return house, [warning("settings", "no butlers yet", "`butlers up` creates the first")]
    faults = [fault for error in house.failed.values() for fault in error.faults]
    read = ok("settings", f"{len(house.butlers)} valid: {', '.join(house.butlers)}")
    removed = [warning("settings", line, "edit the file") for line in house.removed]
    return house, [read, *removed, *(problem("settings", fault) for fault in faults)]


def _module_check(check: Check) -> Iterator[Finding]:
    yield ok(check.name, check.look(check.about))


def _notebook(name: str, file: Path) -> Iterator[Finding]:
    if file.exists():
        sqlite.check(file)
        yield ok(f"notebook of {name}", f"{file} is intact")


def _runtime(check: str, runtime: RuntimeSection) -> Iterator[Finding]:
    program = runtime.command[0] if runtime.command else runtime.kind
    path, variable = shutil.which(os.path.expanduser(program)), runtime.api_key_env
    if runtime.kind == "none":
        yield ok(check, "no language model: runtime.kind is none")
    elif runtime.kind != "http" and path is None:
        remedy = "install it, or set its path in runtime.command"
        yield problem(check, f"there is no program {program}", remedy)
    elif runtime.kind != "http":
        yield ok(check, f"{runtime.kind} is {path}")
    elif variable and not os.environ.get(variable):
        remedy = f"export {variable} before `butlers up`"
        yield problem(check, f"runtime.api_key_env names {variable}, which is not set", remedy)
    else:
        yield ok(check, "completions are requested over HTTP")


def _server(home: Home, server: ServerSection) -> Iterator[Finding]:
    """Check that the daemon is healthy, or that nothing keeps it from starting."""
    if status.homes_served(home):
        yield _daemon(home)
    else:
        listen(server.host, server.port).close()
        yield ok("server", f"not running; port {server.port} on {server.host} is free")
    try:
        override_server(server, {"allow_remote": False})
    except SettingsError:  # the address needs allow_remote, so other machines can reach it
        message = f"other machines can reach {server.host}, without encryption"
        remedy = 'set server.host to "127.0.0.1", or put a TLS proxy in front'
        yield warning("server", message, remedy)


def _tokens(home: Home, butlers: Sequence[str]) -> Iterator[Finding]:
    """Check that each butler has a token, and that other users cannot read the token file."""
    tokens = asyncio.run(home_tokens(home).list_all())  # on a thread that has no loop
    if not tokens:
        remedy = "`butlers up` makes the first; make more with `butlers token new`"
        yield warning("tokens", "there are none, so no agent can connect", remedy)
        return
    file = home.tokens_file
    mode = file.stat().st_mode & 0o777 if file.exists() else 0
    if mode & ~PRIVATE:
        yield problem("tokens", f"other users can read {file} ({mode:o})", f"run: chmod 600 {file}")
    called = {token.record.butler for token in tokens}
    for name in sorted(set(butlers) - called):
        remedy = f"make one: butlers token new --butler {name} --tenant default"
        yield warning("tokens", f"butler {name} has no token", remedy)
    for name in sorted(called - set(butlers)):
        remedy = "revoke it: butlers token list, butlers token revoke ID"
        yield warning("tokens", f"a token is for butler {name}, which does not exist", remedy)
    yield from _ageing(tokens, utc_now())
    yield ok("tokens", f"{len(tokens)}, stored as hashes")


def _ageing(tokens: Sequence[TokenUsage], now: datetime) -> Iterator[Finding]:
    """Warn about tokens that expire soon or seem unused."""
    for token in tokens:
        record = token.record
        is_old = now - datetime.fromisoformat(record.created_at) > _LONG_UNUSED
        name = f"token {record.id} ({record.note or record.tenant})"
        revoke = f"butlers token revoke {record.id}"
        if record.has_expired(now):
            yield warning("tokens", f"{name} has expired", f"run: {revoke}")
        elif record.expires_at is not None and record.expires_at - now < _SOON:
            ends = f"{name} expires at {record.expires_at:%Y-%m-%d %H:%M} UTC"
            yield warning("tokens", ends, "make a new one: butlers token new")
        elif is_old and token.used_at is None:
            unused = f"{name} is over {_LONG_UNUSED.days} days old and has no recorded use"
            yield warning("tokens", unused, f"if nobody needs it, run: {revoke}")


def _backups(backups: Backups) -> Iterator[Finding]:
    """Check that backups are made on time."""
    newest = next(iter(backups.all()), None)
    last = f"newest from {newest.made_at:%Y-%m-%d %H:%M} UTC" if newest else "none yet"
    if backups.is_late:
        yield warning("backup", f"{last}, and one is overdue", "see `butlers logs`")
    elif newest is None:
        yield ok("backup", f"{last}; run `butlers backup`, or set cron in [backup]")
    else:
        yield ok("backup", f"{last}, in {backups.directory}")


def _daemon(home: Home) -> Finding:
    daemon = status.served(home)
    if daemon is None:
        return warning("server", "the daemon is starting or stopping", "try again in a moment")
    health, report = status.health(daemon)
    if health == "ok":
        return ok("server", f"running and healthy at {daemon.url}")
    why = "; ".join(
        f"{name} is {butler['status']}, {'; '.join(status.reasons(butler))}"
        for name, butler in report.items()
        if butler["status"] != "ok"
    )
    return problem("server", f"{daemon.url}: {why or 'does not answer'}", f"see {home.log_file}")
