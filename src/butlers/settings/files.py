"""Read `butler.toml` and `butlers.toml`; report every fault, not only the first."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from butlers.errors import SettingsError
from butlers.settings.fields import as_toml, fault_line, fault_lines, toml_value
from butlers.settings.removed import drop_removed
from butlers.settings.sections import (
    HOME_DATABASE_KEYS,
    BackupSection,
    ButlerSettings,
    FleetSection,
    HomeSettings,
    ServerSection,
    SessionsSection,
)
from butlers.settings.version import newer_version

Settings = TypeVar("Settings", bound=BaseModel)
Document = dict[str, Any]


@dataclass(frozen=True)
class HouseSettings:
    """The settings of every butler of a home, and of the one process that serves them."""

    server: ServerSection
    butlers: Mapping[str, ButlerSettings]
    fleet: FleetSection = FleetSection()
    sessions: SessionsSection = SessionsSection()
    backup: BackupSection = BackupSection()
    failed: Mapping[str, SettingsError] = field(default_factory=dict)
    """The butlers whose files cannot be used, and why."""
    removed: Sequence[str] = ()
    """A line for each key in the files that is no longer a setting."""


def load_butler(file: Path, home_file: Path | None = None) -> ButlerSettings:
    """Load the settings of one butler; `[database]` of `home_file` is its default.

    Keys that are no longer settings are dropped: `load_house` says which.
    """
    document, _ = _read(file)
    faults = _misnamed(file, document)
    own, inherited = document.get("database", {}), _read_home(home_file)[0].get("database")
    if isinstance(own, dict) and isinstance(inherited, dict):
        defaults = {key: value for key, value in inherited.items() if key not in HOME_DATABASE_KEYS}
        document["database"] = defaults | own
    try:
        settings = _validate(file, ButlerSettings, document)
    except SettingsError as error:
        raise SettingsError([*error.faults, *faults]) from None
    _raise_any(faults)
    return settings


def load_home(file: Path) -> HomeSettings:
    """Load what holds for every butler of a home; all defaults when there is no such file."""
    return _validate(file, HomeSettings, _read_home(file)[0])


def load_house(home_file: Path, butler_files: Sequence[Path]) -> HouseSettings:
    """Load all settings of a home, without the butlers whose file is wrong.

    Raises the faults if they leave no butler, or are in the home's own file.
    """
    home = load_home(home_file)
    agreed = {key: (home_file, value) for key, value in _chosen(home.server).items()}
    butlers: dict[str, ButlerSettings] = {}
    failed: dict[str, SettingsError] = {}
    for file in butler_files:
        try:
            settings = load_butler(file, home_file)
            _agree(home_file, file, settings.server, agreed)
            butlers[settings.butler.name] = settings
        except SettingsError as error:
            failed[file.parent.name] = error
    if not butlers:
        _raise_any([fault for error in failed.values() for fault in error.faults])
    _raise_any(_names_taken_at_home(home_file, home.fleet, [*butlers, *failed]))
    document = {"server": {key: value for key, (_, value) in agreed.items()}}
    server = _validate(home_file, HomeSettings, document).server
    files = [file for file in butler_files if file.parent.name in butlers]
    removed = [line for file in files for line in _read(file)[1]]
    removed += _read_home(home_file)[1]
    return HouseSettings(server, butlers, home.fleet, home.sessions, home.backup, failed, removed)


def override_server(server: ServerSection, given: Mapping[str, Any]) -> ServerSection:
    """Override the server's settings by the command line; faults name the option."""
    try:
        return ServerSection.model_validate({**server.model_dump(), **given})
    except ValidationError as error:
        raise SettingsError(fault_lines(Path("command line"), ServerSection, error)) from None


def _agree(
    home_file: Path, file: Path, section: ServerSection, agreed: dict[str, tuple[Path, Any]]
) -> None:
    """Check that butlers agree on each key of `[server]` that the home's file leaves out."""
    chosen, faults = _chosen(section), []
    for key, value in chosen.items():
        other_file, other = agreed.get(key, (file, value))
        if other_file != home_file and other != value:
            valid = f"{other_file} says {toml_value(other)}: set it in {home_file} instead"
            faults.append(fault_line(file, f"server.{key}", as_toml((key,), value), valid))
    _raise_any(faults)
    agreed.update({key: (file, value) for key, value in chosen.items() if key not in agreed})


def _names_taken_at_home(home_file: Path, fleet: FleetSection, butlers: Sequence[str]) -> list[str]:
    valid = "must not be the name of a butler of this home"
    return [
        fault_line(home_file, f"fleet.remotes.{index}.name", toml_value(remote.name), valid)
        for index, remote in enumerate(fleet.remotes)
        if remote.name in butlers
    ]


def _chosen(section: ServerSection) -> dict[str, Any]:
    return section.model_dump(include=section.model_fields_set)


def _misnamed(file: Path, document: Document) -> list[str]:
    """Check that the butler has the name of its directory, which is also its default."""
    directory, section = file.parent.name, document.setdefault("butler", {})
    name = section.setdefault("name", directory) if isinstance(section, dict) else directory
    if name == directory or not isinstance(name, str):
        return []
    valid = f"must be the name of its directory, {toml_value(directory)}"
    return [fault_line(file, "butler.name", as_toml(("name",), name), valid)]


def _validate(file: Path, model: type[Settings], document: Document) -> Settings:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise SettingsError([*newer_version(file), *fault_lines(file, model, error)]) from None


def _raise_any(faults: Sequence[str]) -> None:
    if faults:
        raise SettingsError(faults)


def _read_home(file: Path | None) -> tuple[Document, list[str]]:
    return _read(file) if file is not None and os.path.exists(file) else ({}, [])


def _read(file: Path) -> tuple[Document, list[str]]:
    """Parse a file; return it without removed keys, and a line for each of these."""
    text = _text(file)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_syntax_line(file, text, str(error))]) from None
    return document, [f"{file}: {line}" for line in drop_removed(document)]


def _text(file: Path) -> str:
    try:
        # Some editors begin the file with a byte order mark.
        return file.read_text("utf-8-sig")
    except FileNotFoundError:
        fault = f'found no such file; create it with "butlers new {file.parent.name}"'
    except UnicodeDecodeError as error:
        fault = f"found a byte that is not UTF-8 at offset {error.start}; save the file as UTF-8"
    except OSError as error:
        fault = f"found a file that cannot be read ({error.strerror}); make it readable for you"
    raise SettingsError([f"{file}: {fault}"])


def _syntax_line(file: Path, text: str, message: str) -> str:
    where = re.search(r" \(at line (\d+), column \d+\)$", message)
    line = where[1] if where else str(text.rstrip("\n").count("\n") + 1)
    problem = re.sub(r" \(at [^()]*\)$", "", message)
    return f"{file}:{line}: found text that is not TOML ({problem}); valid is key = value"
