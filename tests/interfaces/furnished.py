"""Homes that need not be set up: what a first start makes is made once in a run, and copied."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from butlers.host import registry
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.settings.names import database_name
from butlers.settings.sections import DatabaseSection
from db.distributed import drop_everywhere
from interfaces.daemons import temporary_home
from runs import run_directory


@contextmanager
def furnished_home(*butlers: str) -> Iterator[Home]:
    """A home without butlers, in which the databases of these are there already, and empty.

    It gets an identity of its own at its first start. What survives a loss of power is not asked
    of it: its server leaves it to the system when the disk is written.
    """
    with temporary_home() as home:
        home.database_directory.mkdir(0o711)
        _copy(_databases(butlers), home.database_directory)
        yield home


@contextmanager
def spread_home(*butlers: str) -> Iterator[Home]:
    """The same on a cluster, whose databases of these butlers are made anew."""
    url = os.environ["BUTLERS_TEST_CLUSTER"]
    with temporary_home() as home, ThreadPoolExecutor(1) as other:
        home.create()
        home.settings_file.write_text(f'[database]\nurl = "{url}"\n')
        other.submit(asyncio.run, _spread(home, url, butlers)).result()
        yield home


async def _spread(home: Home, url: str, butlers: tuple[str, ...]) -> None:
    server, targets = DatabaseServer(home), registry.targets(registry.KNOWN)
    for name in butlers:
        await drop_everywhere(url, database_name(name))
        await server.prepare(name, DatabaseSection(url=url), registry.branches(), targets)


def _databases(butlers: tuple[str, ...]) -> Path:
    """Where this run keeps a server's files with the databases of these butlers."""
    place = run_directory() / "furnished" / "-".join(["with", *butlers])
    place.parent.mkdir(mode=0o700, exist_ok=True)
    with FileLock(place.with_suffix(".lock")):
        if not place.exists():
            _make(place, butlers)
    return place


def _make(place: Path, butlers: tuple[str, ...]) -> None:
    # In a thread: a loop may run in this one.
    with temporary_home() as home, ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, _prepare(home, butlers)).result()
        with (home.database_directory / "data" / "postgresql.auto.conf").open("a") as settings:
            settings.write("fsync = off\nfull_page_writes = off\n")
        _copy(home.database_directory, unfinished := place.with_suffix(".unfinished"))
        unfinished.rename(place)


async def _prepare(home: Home, butlers: tuple[str, ...]) -> None:
    server, targets = DatabaseServer(home), registry.targets(registry.KNOWN)
    try:
        await server.hold()
        for name in butlers:
            await server.prepare(name, DatabaseSection(), registry.branches(), targets)
    finally:
        await server.release()


def _copy(server: Path, to: Path) -> None:
    """The server's files as they are; which home they belong to is said beside them."""
    to.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", str(server / "data"), str(to)], check=True)
