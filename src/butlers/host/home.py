"""The home directory: where butlers, their database, tokens and logs live.

Settings are imported where they are read: most commands need only paths.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from butlers.atomic_files import create_file
from butlers.errors import Conflict, NotFound, Unavailable
from butlers.forward import SOCKET_NAME
from butlers.settings.names import validate_name
from butlers.settings.version import VERSION_FILE, note_version

if TYPE_CHECKING:
    from butlers.settings.sections import ButlerSettings

FIRST_BUTLER = "general"
_PRIVATE_DIRECTORY = 0o700


class _PathInHome:
    """A path below the home; a numbered one has another name for each further process."""

    def __init__(self, *parts: str, numbered: bool = False) -> None:
        self._path, self._numbered = Path(*parts), numbered

    def __get__(self, home: "Home", _: type) -> Path:
        if self._numbered and home.process > 1:
            return home.root / self._path.with_stem(f"{self._path.stem}-{home.process}")
        return home.root / self._path


@dataclass(frozen=True)
class Home:
    """A home directory by its absolute path; it need not exist yet.

    If several processes serve it, each has a number and its own log, lock and run file. Only the
    first serves the socket and the spool and makes backups.
    """

    root: Path
    process: int = 1

    butlers_directory = _PathInHome("butlers")
    settings_file = _PathInHome("butlers.toml")
    version_file = _PathInHome(VERSION_FILE)
    """The newest version of butlers that used the home."""
    database_directory = _PathInHome("postgres")
    tokens_file = _PathInHome("tokens.json")
    invitations_directory = _PathInHome("invitations")
    """Digests of sign-in links that were not used yet."""
    connections_file = _PathInHome("connections.json")
    sections_file = _PathInHome("project_sections.json")
    """Which agents are connected to which butler."""
    originals_directory = _PathInHome("originals")
    """The settings files of agents as they were before they were connected."""
    restoring_directory = _PathInHome(".restoring")
    """Where a backup is being restored; left behind by a restore that was interrupted."""
    logs_directory = _PathInHome("logs")
    mcp_socket = _PathInHome(SOCKET_NAME)
    log_file = _PathInHome("logs", "butlers.log", numbered=True)
    run_file = _PathInHome("run.json", numbered=True)
    """Where the daemon listens."""
    lock_file = _PathInHome("up.lock", numbered=True)
    """Locked by the daemon while it runs."""

    @classmethod
    def locate(cls, explicit: Path | None = None) -> Self:
        """Return the home at a path, else at `$BUTLERS_HOME`, else at `~/.butlers`."""
        chosen = explicit or Path(os.environ.get("BUTLERS_HOME") or "~/.butlers")
        try:
            return cls(Path(os.path.abspath(chosen.expanduser())))
        except RuntimeError as error:
            raise Unavailable(
                f"cannot resolve {chosen} ({error}); set BUTLERS_HOME to a full path"
            ) from error

    @property
    def is_default(self) -> bool:
        """Whether this is `~/.butlers`, which commands use unless told otherwise."""
        return self.root == Path(os.path.abspath(Path("~/.butlers").expanduser()))

    def of_process(self, number: int) -> Self:
        """Return the same home with the files of another process that serves it."""
        return replace(self, process=number)

    def butler_directory(self, name: str) -> Path:
        """Return the directory of a butler, which need not exist."""
        return self.butlers_directory / validate_name(name)

    def butler_file(self, name: str) -> Path:
        """Return the settings file of a butler, which need not exist."""
        return self.butler_directory(name) / "butler.toml"

    def hook_token_file(self, name: str) -> Path:
        """Return the file with the token of agents' hooks: private, and never in a project."""
        return self.root / "hooks" / f"{validate_name(name)}.token"

    def command_token_file(self, name: str) -> Path:
        """Return the file with the token by which commands call the daemon."""
        return self.root / "commands" / f"{validate_name(name)}.token"

    def butler_files(self) -> list[Path]:
        """Return the settings files of all butlers, sorted by name."""
        return sorted(self.butlers_directory.glob("[!.]*/butler.toml"))

    def butler_names(self) -> list[str]:
        """Return the names of all butlers, sorted."""
        return [file.parent.name for file in self.butler_files()]

    def checked(self, butler: str | None = None) -> Self:
        """Return this home; NotFound if it has no butlers, or not the one named."""
        names = self.butler_names()
        if not names:
            raise NotFound(f"there are no butlers in {self.root}; start with `butlers up`")
        if butler is not None and butler not in names:
            raise NotFound(
                f"there is no butler {butler!r} in {self.root}; there are {', '.join(names)}. "
                f"`butlers new {butler}` creates it"
            )
        return self

    def create(self) -> None:
        """Create what the home lacks, private to its owner; Conflict if it is half restored."""
        if self.restoring_directory.exists():
            raise Conflict(
                f"{self.root} is half restored; run `butlers restore FILE` again, or delete "
                f"{self.restoring_directory} to do without the backup"
            )
        for directory in (self.root, self.butlers_directory, self.logs_directory):
            _make_directory(directory)
        if not self.settings_file.exists():
            self._write_settings()
        with contextlib.suppress(OSError):
            note_version(self.root)

    def _write_settings(self) -> None:
        from butlers.settings.first_files import home_toml

        with contextlib.suppress(FileExistsError):
            _create_file(self.settings_file, home_toml())

    def create_butler(self, name: str, description: str = "") -> Path:
        """Write the settings file of a new butler; Conflict if there is one already."""
        from butlers.settings.first_files import butler_toml

        file = self.butler_file(name)
        self.create()
        _make_directory(file.parent)
        try:
            _create_file(file, butler_toml(name, description))
        except FileExistsError:
            raise Conflict(f"butler {name!r} exists already: {file}") from None
        return file

    def ensure_general(self) -> bool:
        """Create the first butler of an empty home; return whether this call did."""
        self.create()
        if self.butler_files():
            return False
        with contextlib.suppress(Conflict):
            self.create_butler(FIRST_BUTLER)
            return True
        return False


def butler_settings(home: Home, name: str) -> "ButlerSettings":
    """Load the settings of a butler; NotFound if the home lacks it."""
    from butlers.settings.files import load_butler

    return load_butler(home.checked(name).butler_file(name), home_file=home.settings_file)


def _make_directory(directory: Path) -> None:
    with _translated_os_errors(directory):
        directory.mkdir(mode=_PRIVATE_DIRECTORY, parents=True, exist_ok=True)


def _create_file(file: Path, text: str) -> None:
    with _translated_os_errors(file, FileExistsError):
        create_file(file, text)


@contextlib.contextmanager
def _translated_os_errors(path: Path, *passed: type[OSError]) -> Iterator[None]:
    """Raise Unavailable for every error of the operating system that is not `passed`."""
    try:
        yield
    except passed:
        raise
    except OSError as error:
        raise Unavailable(
            f"cannot write {path} ({error.strerror}); make it a directory you can write to, or "
            "choose another home with --home or BUTLERS_HOME"
        ) from error
