"""Embedded servers for tests: directories to run them in and other processes that hold them."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

import butlers
from butlers.db.embedded.liveness import processes_over, read_pid_file
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.errors import Unavailable

HERE = Path(__file__).parent
SOURCE = Path(butlers.__file__).parent.parent
PACKAGES = Path(sysconfig.get_paths()["purelib"])
ENVIRONMENT = {"PYTHONPATH": f"{SOURCE}:{PACKAGES}", "PATH": os.environ["PATH"]}


@contextmanager
def passable_directory() -> Iterator[Path]:
    """A new directory which, unlike pytest's, every account may pass through."""
    directory = Path(tempfile.mkdtemp(prefix="pg-")).resolve()
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def new_directory() -> Iterator[Path]:
    """A directory that does not exist yet."""
    with passable_directory() as directory:
        yield directory / "postgres"


def initialised_cluster() -> Iterator[Path]:
    """A directory with a cluster that is never run, to be copied."""
    with passable_directory() as directory:
        with EmbeddedPostgres(directory):
            pass
        yield directory


def copied(template: Path, directory: Path) -> Path:
    """A directory whose cluster is initialised already."""
    directory.mkdir(mode=0o755, exist_ok=True)
    subprocess.run(["cp", "-a", template / "data", directory / "data"], check=True)
    return directory


class Holder:
    """Another process that holds the server."""

    def __init__(self, directory: Path, *python: str, **how: object) -> None:
        command = [*(python or (sys.executable,)), str(HERE / "postgres_holder.py"), str(directory)]
        self.process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
            command,
            **({"env": ENVIRONMENT} | how),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            start_new_session=True,
        )

    def says(self) -> str:
        return self.process.stdout.readline().strip()

    def let_go(self) -> None:
        self.process.communicate(timeout=60)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


@contextmanager
def holding(directory: Path, *python: str, **how: object) -> Iterator[Holder]:
    holder = Holder(directory, *python, **how)
    try:
        yield holder
    finally:
        holder.let_go()


def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def postmaster(directory: Path) -> int:
    listed = read_pid_file(directory / "data")
    assert listed is not None
    return listed.pid


def is_down(directory: Path) -> bool:
    return processes_over(directory / "data") == set()


async def fetch(dsn: str, statement: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def refusal(directory: Path, timeout: float = 20.0) -> str:
    """The one line a start in this directory is refused with."""
    with pytest.raises(Unavailable) as refused:
        EmbeddedPostgres(directory, start_timeout=timeout).start()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def ordinary_python() -> str:
    """An interpreter of this version that an ordinary user may run."""
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        nobody = {"user": "nobody", "group": None, "cwd": "/"}
        try:
            subprocess.run([python, "-c", ""], check=True, **nobody)
        except OSError:
            continue
        return python
    pytest.skip("no interpreter of this version that an ordinary user may run")


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    directory.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", directory]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine does not let tests mount a small disk")
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)
