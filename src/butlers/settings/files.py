"""Reading `butler.toml` and `butlers.toml`; every fault is reported, not only the first."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from butlers.errors import SettingsError
from butlers.settings.database import FOR_ALL
from butlers.settings.faults import as_toml, fault_line, fault_lines
from butlers.settings.fields import toml_value
from butlers.settings.sections import (
    BackupSection,
    ButlerSettings,
    FleetSection,
    HomeSettings,
    ServerSection,
    SessionsSection,
)

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


def load_butler(file: Path, home_file: Path | None = None) -> ButlerSettings:
    """The settings of one butler; what `home_file` says of the database is its default."""
    document = _read(file)
    faults = _misnamed(file, document)
    own, inherited = document.get("database", {}), _read_home(home_file).get("database")
    if isinstance(own, dict) and isinstance(inherited, dict):
        kept = {key: value for key, value in inherited.items() if key not in FOR_ALL}
        document["database"] = {**kept, **own}
    try:
        settings = _validate(file, ButlerSettings, document)
    except SettingsError as error:
        raise SettingsError([*error.faults, *faults]) from None
    _raise_any(faults)
    return settings


def load_home(file: Path) -> HomeSettings:
    """What holds for every butler of a home; all defaults when there is no such file."""
    return _validate(file, HomeSettings, _read_home(file))


def load_house(home_file: Path, butler_files: Sequence[Path]) -> HouseSettings:
    """All settings of a home: a butler whose file is wrong is left out, and the rest stays.

    The faults are raised where they leave no butler, or are those of the home's own file.
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
    return HouseSettings(server, butlers, home.fleet, home.sessions, home.backup, failed)


def override_server(server: ServerSection, given: Mapping[str, Any]) -> ServerSection:
    """The server's settings with what the command line says instead; faults name the option."""
    try:
        return ServerSection.model_validate({**server.model_dump(), **given})
    except ValidationError as error:
        raise SettingsError(fault_lines(Path("command line"), ServerSection, error)) from None


def _agree(
    home_file: Path, file: Path, section: ServerSection, agreed: dict[str, tuple[Path, Any]]
) -> None:
    """The home's file wins; a key it leaves out may be set by butlers that agree on it."""
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
        fault_line(home_file, f"fleet.remotes.{place}.name", toml_value(remote.name), valid)
        for place, remote in enumerate(fleet.remotes)
        if remote.name in butlers
    ]


def _chosen(section: ServerSection) -> dict[str, Any]:
    return section.model_dump(include=section.model_fields_set)


def _misnamed(file: Path, document: Document) -> list[str]:
    """A butler bears the name of its directory, whether or not its file says so."""
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
        raise SettingsError(fault_lines(file, model, error)) from None


def _raise_any(faults: Sequence[str]) -> None:
    if faults:
        raise SettingsError(faults)


def _read_home(file: Path | None) -> Document:
    return _read(file) if file is not None and os.path.exists(file) else {}


def _read(file: Path) -> Document:
    text = _text(file)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_syntax_line(file, text, str(error))]) from None


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
