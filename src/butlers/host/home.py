"""The home directory: where butlers, their database, tokens and logs live."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from butlers.atomic_files import draft_of
from butlers.errors import Conflict, NotFound, Unavailable
from butlers.forward import SOCKET_NAME
from butlers.settings.files import load_butler
from butlers.settings.first_files import butler_toml, home_toml
from butlers.settings.names import validate_name
from butlers.settings.sections import ButlerSettings

FIRST_BUTLER = "general"
PRIVATE = 0o700


@dataclass(frozen=True)
class Home:
    """A home directory by its absolute path; it need not exist yet.

    Where several processes serve it each has a place there, with files of its own; the first has
    what there is once: the socket, the spool and the backups.
    """

    root: Path
    place: int = 1

    @classmethod
    def locate(cls, explicit: Path | None = None) -> Self:
        """The home that was asked for, else `$BUTLERS_HOME`, else `~/.butlers`."""
        chosen = explicit or Path(os.environ.get("BUTLERS_HOME") or "~/.butlers")
        try:
            return cls(Path(os.path.abspath(chosen.expanduser())))
        except RuntimeError as error:
            raise Unavailable(
                f"cannot tell what {chosen} stands for ({error}); set BUTLERS_HOME to a full path"
            ) from error

    @property
    def butlers_directory(self) -> Path:
        """Where each butler has its directory."""
        return self.root / "butlers"

    @property
    def settings_file(self) -> Path:
        """The settings that hold for every butler."""
        return self.root / "butlers.toml"

    @property
    def database_directory(self) -> Path:
        """The data of the embedded database, which creates it."""
        return self.root / "postgres"

    @property
    def tokens_file(self) -> Path:
        """The tokens callers may use."""
        return self.root / "tokens.json"

    @property
    def invitations_directory(self) -> Path:
        """The links that sign in to the dashboard and were not used yet, as digests."""
        return self.root / "invitations"

    @property
    def connections_file(self) -> Path:
        """Which agents were given a butler of this home."""
        return self.root / "connections.json"

    @property
    def logs_directory(self) -> Path:
        """Where logs are written."""
        return self.root / "logs"

    @property
    def log_file(self) -> Path:
        """What the process that serves the home tells, the newest of several files."""
        return self.logs_directory / f"butlers{self._which}.log"

    @property
    def run_file(self) -> Path:
        """What says where the running process listens."""
        return self.root / f"run{self._which}.json"

    @property
    def mcp_socket(self) -> Path:
        """Where the process that serves the home is handed what agents say on stdio."""
        return self.root / SOCKET_NAME

    @property
    def lock_file(self) -> Path:
        """What the process that serves the home from this place holds locked."""
        return self.root / f"up{self._which}.lock"

    @property
    def _which(self) -> str:
        return "" if self.place == 1 else f"-{self.place}"

    def at(self, place: int) -> Self:
        """The same home, served from another place."""
        return replace(self, place=place)

    @property
    def restoring_directory(self) -> Path:
        """Where a backup is being restored; what is there when nobody does was cut short."""
        return self.root / ".restoring"

    def butler_directory(self, name: str) -> Path:
        """The directory of a butler, whether or not there is one."""
        return self.butlers_directory / validate_name(name)

    def hook_token_file(self, name: str) -> Path:
        """The token that agents' hooks use: a private file here, never one in a project."""
        return self.root / "hooks" / f"{validate_name(name)}.token"

    def command_token_file(self, name: str) -> Path:
        """The token that commands of this home use to call the process that serves it."""
        return self.root / "commands" / f"{validate_name(name)}.token"

    def butler_file(self, name: str) -> Path:
        """The settings of a butler, whether or not there is one."""
        return self.butler_directory(name) / "butler.toml"

    def butler_files(self) -> list[Path]:
        """The settings of every butler, in the order of their names."""
        return sorted(self.butlers_directory.glob("[!.]*/butler.toml"))

    def butler_names(self) -> list[str]:
        """The butlers of the home, sorted."""
        return [file.parent.name for file in self.butler_files()]

    def create(self) -> None:
        """Make what is missing of the home, for its owner alone; not of one half restored."""
        if self.restoring_directory.exists():
            raise Conflict(
                f"{self.root} is half restored: `butlers restore FILE` goes on with it, or begins "
                f"again; to do without, delete {self.restoring_directory}"
            )
        for directory in (self.root, self.butlers_directory, self.logs_directory):
            _make_directory(directory)
        with contextlib.suppress(FileExistsError):
            _write_new(self.settings_file, home_toml())

    def create_butler(self, name: str, description: str = "") -> Path:
        """Write a new butler's commented settings; of two at once exactly one succeeds."""
        file = self.butler_file(name)
        self.create()
        _make_directory(file.parent)
        try:
            _write_new(file, butler_toml(name, description))
        except FileExistsError:
            raise Conflict(f"there is a butler {name!r} already: {file}") from None
        return file

    def ensure_general(self) -> bool:
        """Give an empty home its first butler; true when this call wrote it."""
        self.create()
        if self.butler_files():
            return False
        with contextlib.suppress(Conflict):
            self.create_butler(FIRST_BUTLER)
            return True
        return False


def butler_settings(home: Home, name: str) -> ButlerSettings:
    """The settings of a butler of this home."""
    names = home.butler_names()
    if name not in names:
        known = f"there are {', '.join(names)}" if names else "there are none yet"
        raise NotFound(
            f"there is no butler {name!r} in {home.root}; {known}. `butlers new {name}` makes it"
        )
    return load_butler(home.butler_file(name), home_file=home.settings_file)


def _make_directory(directory: Path) -> None:
    with _explained(directory):
        directory.mkdir(mode=PRIVATE, parents=True, exist_ok=True)


def _write_new(file: Path, text: str) -> None:
    """Write a file in one step; FileExistsError where there is one already, which stays."""
    if os.path.lexists(file):
        raise FileExistsError(file)
    with _explained(file):
        draft = draft_of(file, text)
    try:
        # Unlike a rename, a link never replaces what another process has just written.
        os.link(draft, file)
    except FileExistsError:
        raise
    except OSError as error:
        raise _unavailable(file, error) from error
    finally:
        draft.unlink()


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise _unavailable(path, error) from error


def _unavailable(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"cannot write {path} ({error.strerror}); make it a directory of your own that can be "
        "written to, or choose another home with --home or BUTLERS_HOME"
    )
