"""Load `butlers_cluster`, the package for Citus; without it, all but its commands works."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import NoReturn, Protocol

from butlers.errors import Unavailable

_PACKAGE = "butlers_cluster"
_COMMANDS = ("distribute", "undistribute", "places", "isolate", "rebalance")


@dataclass(frozen=True, slots=True)
class DatabaseCommand:
    """A command below `butlers db`: its name, an example call, and the function it runs."""

    name: str
    example: str
    run: Callable[..., None]
    takes_anything: bool = False
    """Whether arguments and options that the function does not declare are accepted."""


class Extension(Protocol):
    """What a package for clusters adds."""

    node_failures: tuple[str, ...]
    """How the server's message starts when a node is lost and no error code says so."""

    def commands(self) -> Sequence[DatabaseCommand]:
        """Return the commands to add to `butlers db`."""

    async def after_migration(self, maintenance_dsn: str, dsn: str, database: str) -> None:
        """Adapt a database that was just migrated, as its owner, before anybody is served."""


@cache
def extension() -> Extension:
    """Return the package's extension; without it, one whose commands say what is missing."""
    try:
        loaded: Extension = import_module(_PACKAGE).EXTENSION
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        return _Missing()
    return loaded


class _Missing:
    node_failures: tuple[str, ...] = ()

    def commands(self) -> Sequence[DatabaseCommand]:
        return [DatabaseCommand(name, f"butlers db {name}", _refuse, True) for name in _COMMANDS]

    async def after_migration(self, maintenance_dsn: str, dsn: str, database: str) -> None:
        """Leave the database as it is."""


def _refuse() -> NoReturn:
    """Needs the package butlers_cluster, which is not installed."""
    raise Unavailable(
        f"this command needs the package {_PACKAGE}, which is not installed; "
        "a complete installation of butlers has it"
    )
