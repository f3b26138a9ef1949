"""`butlers doctor`: every check of a home, none of which changes or reveals anything."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from butlers.backup.directory import Backups
from butlers.clock import utc_now
from butlers.db import sqlite
from butlers.doctor.database import databases
from butlers.doctor.finding import Finding, ok, problem, warning
from butlers.errors import ButlersError, SettingsError
from butlers.files import PRIVATE
from butlers.host import status
from butlers.host.home import Home
from butlers.host.shared_tokens import KeptToken
from butlers.host.status import reasons
from butlers.host.token_keeping import all_tokens
from butlers.interfaces.server import listen
from butlers.kernel.sections import Check
from butlers.modules import ModulesSection
from butlers.notebook.manager import FILE
from butlers.notebook.module import NotebookModule
from butlers.sessions.session_alerts import shortfalls
from butlers.settings.files import HouseSettings, load_house, override_server
from butlers.settings.sections import RuntimeSection, ServerSection

_OLDEST_PYTHON = (3, 11)
_SOON, _LONG_UNUSED = timedelta(days=14), timedelta(days=30)
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 2**30, 100 * 2**20


async def examine(home: Home) -> list[Finding]:
    """Everything a person could have wrong, in the order in which it is best mended."""
    findings = [
        *_guarded("python", _python),
        *_guarded("home", lambda: _home(home)),
        *_guarded("disk", lambda: _disk(home)),
        *_guarded("sessions", lambda: _sessions(home)),
    ]
    house, faults = _settings(home)
    findings += faults
    if house is not None:
        findings += await asyncio.to_thread(_house_findings, home, house)
        try:
            findings += await databases(home, house)
        except Exception as error:  # noqa: BLE001  a doctor that falls ill helps nobody
            findings.append(_failed("database", error))
    return findings


def _house_findings(home: Home, house: HouseSettings) -> list[Finding]:
    return [
        *_guarded("server", lambda: _listening(home, house.server)),
        *_guarded("tokens", lambda: _tokens(home, list(house.butlers))),
        *_guarded("backup", lambda: _backups(Backups(home, house.backup))),
        *_of_modules(house),
        *_guarded("notebook", lambda: _notebooks(home, house)),
        *_guarded("runtime", lambda: _runtimes(house)),
    ]


def _guarded(check: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(look())
    except Exception as error:  # noqa: BLE001  a doctor that falls ill helps nobody
        return [_failed(check, error)]


def _failed(check: str, error: Exception) -> Finding:
    if isinstance(error, ButlersError):
        return problem(check, str(error))
    if isinstance(error, OSError):
        return problem(check, f"{error.filename or 'the system'}: {error.strerror or error}")
    return problem(check, f"the check itself failed ({type(error).__name__})", "report this")


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
        remedy = "make it writable for you, or choose another with --home or BUTLERS_HOME"
        yield problem("home", f"{home.root} cannot be written to ({error.strerror})", remedy)
        return
    # Passing through is harmless, and the account that runs root's database has to.
    if home.root.stat().st_mode & 0o066:
        yield warning("home", f"{home.root} is open to others", f"run: chmod go-rw {home.root}")
    else:
        yield ok("home", f"{home.root} is writable and private")


def _disk(home: Home) -> Iterator[Finding]:
    existing = next(place for place in (home.root, *home.root.parents) if place.exists())
    free = shutil.disk_usage(existing).free
    told = f"{free / 2**30:.1f} GiB free"
    if free < _TOO_LITTLE_BYTES:
        yield problem("disk", told, "free some space: the database needs room to work")
    elif free < _LITTLE_BYTES:
        yield warning("disk", told, "free some space soon")
    else:
        yield ok("disk", told)


def _sessions(home: Home) -> Iterator[Finding]:
    """Nothing that a session left is lost, and none started without what is known."""
    found = shortfalls(home.root, utc_now())
    for one in found:
        yield warning("sessions", f"{one.what}: {one.words}", one.remedy)
    if not found:
        yield ok("sessions", "none waits, and none started without memory of late")


def _settings(home: Home) -> tuple[HouseSettings | None, list[Finding]]:
    files = home.butler_files()
    try:
        house = load_house(home.settings_file, files)
    except SettingsError as error:
        return None, [problem("settings", fault) for fault in error.faults]
    if not files:
        return house, [warning("settings", "no butlers yet", "`butlers up` makes the first")]
    faults = [fault for error in house.failed.values() for fault in error.faults]
    read = ok("settings", f"{len(house.butlers)} read without fault: {', '.join(house.butlers)}")
    return house, [read, *(problem("settings", fault) for fault in faults)]


def _of_modules(house: HouseSettings) -> Iterator[Finding]:
    """What the butlers' modules want looked at; without butlers, what those to come would."""
    settings = [butler.modules for butler in house.butlers.values()] or [ModulesSection()]
    checks = {check for modules in settings for each in modules.each() for check in each.checks()}
    for check in sorted(checks, key=lambda check: (check.name, check.about)):
        yield from _guarded(check.name, partial(_run_check, check))


def _run_check(check: Check) -> Iterator[Finding]:
    yield ok(check.name, check.look(check.about))


def _notebooks(home: Home, house: HouseSettings) -> Iterator[Finding]:
    for name, settings in house.butlers.items():
        file = home.butler_directory(name) / FILE
        if settings.is_enabled(NotebookModule.name) and file.exists():
            yield from _guarded(f"notebook of {name}", partial(_notebook, name, file))


def _notebook(name: str, file: Path) -> Iterator[Finding]:
    sqlite.check(file)
    yield ok(f"notebook of {name}", f"{file} is whole")


def _runtimes(house: HouseSettings) -> list[Finding]:
    return [_runtime(f"runtime of {name}", one.runtime) for name, one in house.butlers.items()]


def _runtime(check: str, runtime: RuntimeSection) -> Finding:
    if runtime.kind == "none":
        return ok(check, "no sessions run: runtime.kind is none")
    if runtime.kind == "http":
        return _http_runtime(check, runtime)
    program = runtime.command[0] if runtime.kind == "command" else runtime.binary or runtime.kind
    found = shutil.which(os.path.expanduser(program))
    if found is None:
        remedy = "install it, or name its path in runtime.binary (runtime.command for a command)"
        return problem(check, f"there is no program {program}", remedy)
    return ok(check, f"{runtime.kind} is {found}")


def _http_runtime(check: str, runtime: RuntimeSection) -> Finding:
    variable = runtime.api_key_env
    if variable and not os.environ.get(variable):
        remedy = f"export {variable} before `butlers up`"
        return problem(check, f"runtime.api_key_env names {variable}, which is not set", remedy)
    return ok(check, "completions are asked for over HTTP")


def _listening(home: Home, server: ServerSection) -> Iterator[Finding]:
    """The home is served and well, or nothing keeps it from being served."""
    if status.homes_served(home):
        yield _served(home)
    else:
        listen(server.host, server.port).close()
        yield ok("server", f"not up; port {server.port} on {server.host} is free")
    if _is_remote(server):
        yield warning(
            "server",
            f"{server.host} can be reached by other machines, without encryption",
            'set server.host to "127.0.0.1", or put a proxy with TLS before it',
        )


def _tokens(home: Home, butlers: Sequence[str]) -> Iterator[Finding]:
    """Each butler can be called by somebody, and nobody else can read the list."""
    kept = asyncio.run(all_tokens(home))  # on a thread that has no loop
    records = [one.record for one in kept]
    if not records:
        remedy = "`butlers up` makes the first; more: butlers token new --butler NAME --tenant T"
        yield warning("tokens", "there are none, so no agent can call", remedy)
        return
    mode = home.tokens_file.stat().st_mode & 0o777 if home.tokens_file.exists() else 0
    if mode & ~PRIVATE:
        file = home.tokens_file
        yield problem("tokens", f"{file} is open to others ({mode:o})", f"run: chmod 600 {file}")
    called = {record.butler for record in records}
    for name in sorted(set(butlers) - called):
        remedy = f"make one: butlers token new --butler {name} --tenant default"
        yield warning("tokens", f"no token opens butler {name}", remedy)
    for name in sorted(called - set(butlers)):
        remedy = "revoke it: butlers token list, butlers token revoke ID"
        yield warning("tokens", f"a token is for butler {name}, which is not here", remedy)
    yield from _ageing(kept, utc_now())
    yield ok("tokens", f"{len(records)} kept, as hashes")


def _ageing(kept: Sequence[KeptToken], now: datetime) -> Iterator[Finding]:
    """Tokens that end soon, or that nobody seems to need."""
    for token in kept:
        one = token.record
        which = f"token {one.id} ({one.note or one.tenant})"
        if one.has_expired(now):
            yield warning("tokens", f"{which} has expired", f"butlers token revoke {one.id}")
        elif one.expires_at is not None and one.expires_at - now < _SOON:
            ends = f"{which} expires at {one.expires_at:%Y-%m-%d %H:%M} UTC"
            yield warning("tokens", ends, "make its successor: butlers token new")
        elif _is_idle(token, now):
            unused = f"{which} was made over {_LONG_UNUSED.days} days ago and no use of it is known"
            yield warning("tokens", unused, f"if nobody needs it: butlers token revoke {one.id}")


def _is_idle(token: KeptToken, now: datetime) -> bool:
    old = now - datetime.fromisoformat(token.record.created_at) > _LONG_UNUSED
    return old and token.used_at is None


def _backups(kept: Backups) -> Iterator[Finding]:
    """What would be left if the disk was gone."""
    newest = next(iter(kept.all()), None)
    told = f"the last is of {newest.made_at:%Y-%m-%d %H:%M} UTC" if newest else "none yet"
    if kept.is_late:
        yield warning("backup", f"{told}, and one is due", "the log says what kept it")
    elif newest is None:
        yield ok("backup", f"{told}; `butlers backup` makes one, [backup] cron one every day")
    else:
        yield ok("backup", f"{told}, in {kept.directory}")


def _is_remote(server: ServerSection) -> bool:
    """Whether only the permission to be reachable makes the settings valid."""
    try:
        override_server(server, {"allow_remote": False})
    except SettingsError:
        return True
    return False


def _served(home: Home) -> Finding:
    found = status.served(home)
    if found is None:
        return warning("server", "the butlers are starting or stopping", "ask again in a moment")
    health, report = status.health(found)
    if health == "ok":
        return ok("server", f"up and well at {found.url}")
    unwell = {name: butler for name, butler in report.items() if butler["status"] != "ok"}
    told = [f"{name} is {one['status']}, {'; '.join(reasons(one))}" for name, one in unwell.items()]
    words = "; ".join(told) if told else "does not answer"
    return problem("server", f"{found.url}: {words}", f"see {home.log_file}")
