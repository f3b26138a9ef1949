"""The configuration of the embedded server, fitted to the memory of the machine or container."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from butlers.errors import Unavailable
from butlers.kernel.word_tables import load_tables

_TABLES = load_tables(__file__)
SETTINGS: dict[str, str] = _TABLES["settings"]
MAX_CONNECTIONS = int(SETTINGS["max_connections"])
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_SHM = Path("/dev/shm")  # noqa: S108
_ENOUGH_SHARED_BYTES = 256 * 2**20
_LEAST_MB, _MOST_MB = 128, 4096
AUTO = "auto"
_MEMORY = "# database.memory = "


def buffers_mb(machine_bytes: int, wanted: str = AUTO) -> int:
    """Return the size of shared buffers: an eighth of the memory, or what is wanted.

    PostgreSQL takes it only as needed. Unavailable where the machine has too little.
    """
    machine = machine_bytes // 2**20
    if wanted == AUTO:
        return min(max(machine // 8, _LEAST_MB), _MOST_MB)
    megabytes = int(wanted[:-2]) * (1024 if wanted.endswith("GB") else 1)
    most = machine * 3 // 4
    if not _LEAST_MB <= megabytes <= most:
        raise Unavailable(
            f"database.memory: found {wanted!r}; valid is from {_LEAST_MB}MB to {most}MB, three "
            f'quarters of what this machine or container has, or "{AUTO}"'
        )
    return megabytes


def configuration(socket_directory: Path, extensions: Path, memory: str = AUTO) -> str:
    """Return the text of the included configuration file."""
    machine = memory_bytes()
    here = {
        **_memory_settings(buffers_mb(machine, memory), machine // 2**20),
        **shared_memory(),
        "unix_socket_directories": str(socket_directory),
        "extension_control_path": f"$system:{extensions}",
    }
    lines = [f"{name} = {_quoted(value)}\n" for name, value in (SETTINGS | here).items()]
    head = f"# Rewritten at every start; changes made here are lost.\n{_MEMORY}{memory}\n"
    return "".join([head, *lines])


def shared_memory() -> dict[str, str]:
    """Return the setting for machines where /dev/shm is too small."""
    small = sys.platform == "linux" and not has_shared_memory()
    return {"dynamic_shared_memory_type": "mmap"} if small else {}


def read_memory_setting(text: str) -> str:
    """Return the memory setting that a configuration was written for."""
    values = (line.removeprefix(_MEMORY) for line in text.splitlines() if line.startswith(_MEMORY))
    return next(values, AUTO)


def _memory_settings(buffers: int, machine: int) -> dict[str, str]:
    """Return the settings that follow from shared buffers; a quarter builds vector indexes."""
    return {
        "shared_buffers": f"{buffers}MB",
        "effective_cache_size": f"{max(2 * buffers, machine // 2)}MB",
        "maintenance_work_mem": f"{max(128, buffers // 4)}MB",
        "max_wal_size": f"{max(1024, buffers)}MB",
    }


def initdb_options(platform: str) -> list[str]:
    """Return options of initdb: UTF-8, ordered by code point, reached over the socket alone."""
    settings = [f"--set={name}={value}" for name, value in shared_memory().items()]
    if platform == "darwin":  # its C library knows no C.UTF-8; PostgreSQL's own rules do
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        return [*_TABLES["initdb"], *locale, "--lc-ctype=UTF-8"]
    return [*_TABLES["initdb"], *settings, "--locale=C.UTF-8"]


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def memory_bytes() -> int:
    """Return the memory of the machine, or the limit of the container or service."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits()])


def has_shared_memory() -> bool:
    """Return whether /dev/shm is large enough; containers often have little."""
    with suppress(OSError):
        free = os.statvfs(_SHM)
        return os.access(_SHM, os.W_OK) and free.f_bavail * free.f_frsize >= _ENOUGH_SHARED_BYTES
    return False


def _limits() -> Iterator[int]:
    """Yield the limit of every cgroup we are in; "max" is none."""
    for file in _limit_files():
        with suppress(OSError, ValueError):
            yield int(file.read_text(encoding="ascii"))


def _limit_files() -> Iterator[Path]:
    yield _CGROUPS / "memory" / "memory.limit_in_bytes"
    with suppress(OSError):
        for line in _OWN_CGROUPS.read_text(encoding="utf-8").splitlines():
            group = Path(line.rpartition(":")[2].lstrip("/"))
            for parent in (group, *group.parents):
                yield _CGROUPS / parent / "memory.max"
