"""What the embedded server is told when it is made and whenever it starts."""

import sys
from pathlib import Path

from butlers.db.embedded.machine import has_room_to_share, memory_bytes
from butlers.errors import Unavailable

MAX_CONNECTIONS = 500
"""Enough for fifty butlers at their busiest; all those of a process share most of them."""

SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": str(MAX_CONNECTIONS),
    "work_mem": "16MB",
    "autovacuum_work_mem": "128MB",
    # Parallel index builds need more shared memory than containers offer by default.
    "max_parallel_maintenance_workers": "0",
    "wal_compression": "pglz",
    "fsync": "on",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "shared_preload_libraries": "pg_stat_statements",
}
_INITDB = (
    "--username=postgres",
    "--encoding=UTF8",
    "--auth-local=trust",
    "--auth-host=scram-sha-256",
)
_LEAST_MB, _MOST_MB = 128, 4096
AUTO = "auto"
_SAID = "# database.memory = "


def buffers_mb(machine_bytes: int, wanted: str = AUTO) -> int:
    """How much the server may keep in memory of what it reads: an eighth, or what is wanted.

    Nothing is taken before it is needed, so that a small home stays small; one that does not fit
    is read over and over. What the machine cannot give is refused.
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
    """The text of the included configuration file."""
    machine = memory_bytes()
    here = {
        **_following(buffers_mb(machine, memory), machine // 2**20),
        **sharing(),
        "unix_socket_directories": str(socket_directory),
        "extension_control_path": f"$system:{extensions}",
    }
    lines = [f"{name} = {_quoted(value)}\n" for name, value in (SETTINGS | here).items()]
    head = f"# Rewritten at every start; changes made here are lost.\n{_SAID}{memory}\n"
    return "".join([head, *lines])


def sharing() -> dict[str, str]:
    """How its processes share memory where there is too little to do so as usual."""
    small = sys.platform == "linux" and not has_room_to_share()
    return {"dynamic_shared_memory_type": "mmap"} if small else {}


def memory_said(text: str) -> str:
    """The setting that a configuration was written for."""
    said = (line.removeprefix(_SAID) for line in text.splitlines() if line.startswith(_SAID))
    return next(said, AUTO)


def _following(buffers: int, machine: int) -> dict[str, str]:
    """What follows from how much is kept in memory; indexes of vectors are built in a quarter."""
    return {
        "shared_buffers": f"{buffers}MB",
        "effective_cache_size": f"{max(2 * buffers, machine // 2)}MB",
        "maintenance_work_mem": f"{max(128, buffers // 4)}MB",
        "max_wal_size": f"{max(1024, buffers)}MB",
    }


def initdb_options(platform: str) -> list[str]:
    """Options for a new cluster: UTF-8, ordered by code point, reached over the socket alone."""
    told = [f"--set={name}={value}" for name, value in sharing().items()]
    if platform == "darwin":  # its C library knows no C.UTF-8; PostgreSQL's own rules do
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        return [*_INITDB, *locale, "--lc-ctype=UTF-8"]
    return [*_INITDB, *told, "--locale=C.UTF-8"]


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
