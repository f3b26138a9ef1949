"""`butlers doctor`: every check of a home, none of which changes or reveals anything."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from butlers.butler.home import Home
from butlers.doctor import database as doctor_database
from butlers.doctor import server as doctor_server
from butlers.doctor.finding import Finding, ok, problem, warning
from butlers.errors import ButlersError, SettingsError
from butlers.kernel.sections import Check
from butlers.modules import ModulesSection
from butlers.settings.files import HouseSettings, load_house
from butlers.settings.sections import RuntimeSection

_OLDEST_PYTHON = (3, 11)
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 2**30, 100 * 2**20


async def examine(home: Home) -> list[Finding]:
    """Everything a person could have wrong, in the order in which it is best mended."""
    findings = [
        *_guarded("python", _python),
        *_guarded("home", lambda: _home(home)),
        *_guarded("disk", lambda: _disk(home)),
    ]
    house, faults = _settings(home)
    findings += faults
    if house is not None:
        findings += await _house_findings(home, house)
    return findings


async def _house_findings(home: Home, house: HouseSettings) -> list[Finding]:
    findings = await asyncio.to_thread(
        lambda: [
            *_guarded("server", lambda: doctor_server.listening(home, house.server)),
            *_guarded("tokens", lambda: doctor_server.tokens(home, list(house.butlers))),
            *_of_modules(house),
            *_guarded("runtime", lambda: _runtimes(house)),
        ]
    )
    return [*findings, *await _guarded_async("database", doctor_database.databases(home, house))]


def _guarded(check: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(look())
    except Exception as error:  # noqa: BLE001  a doctor that falls ill helps nobody
        return [_failed(check, error)]


async def _guarded_async(check: str, look: Awaitable[list[Finding]]) -> list[Finding]:
    try:
        return await look
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
    free = shutil.disk_usage(_existing(home.root)).free
    told = f"{free / 2**30:.1f} GiB free"
    if free < _TOO_LITTLE_BYTES:
        yield problem("disk", told, "free some space: the database needs room to work")
    elif free < _LITTLE_BYTES:
        yield warning("disk", told, "free some space soon")
    else:
        yield ok("disk", told)


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def _settings(home: Home) -> tuple[HouseSettings | None, list[Finding]]:
    files = home.butler_files()
    try:
        house = load_house(home.settings_file, files)
    except SettingsError as error:
        return None, [problem("settings", fault) for fault in error.faults]
    if not files:
        return house, [warning("settings", "no butlers yet", "`butlers up` makes the first")]
    return house, [ok("settings", f"{len(files)} read without fault: {', '.join(house.butlers)}")]


def _of_modules(house: HouseSettings) -> Iterator[Finding]:
    """What the butlers' modules want looked at; without butlers, what those to come would."""
    settings = [butler.modules for butler in house.butlers.values()] or [ModulesSection()]
    checks = {check for modules in settings for each in modules.each() for check in each.checks()}
    for check in sorted(checks, key=lambda check: (check.name, check.about)):
        yield from _guarded(check.name, partial(_looked, check))


def _looked(check: Check) -> Iterator[Finding]:
    yield ok(check.name, check.look(check.about))


def _runtimes(house: HouseSettings) -> Iterator[Finding]:
    for name, settings in house.butlers.items():
        yield _runtime(f"runtime of {name}", settings.runtime)


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
