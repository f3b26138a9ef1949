"""What the embedded server is told when it is made and whenever it starts."""

import os
from contextlib import suppress
from pathlib import Path

SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    # Enough for fifty butlers that are all at their busiest; one that is idle holds a connection.
    "max_connections": "500",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    # Parallel index builds need more shared memory than containers offer by default.
    "max_parallel_maintenance_workers": "0",
    "max_wal_size": "1GB",
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
_LEAST_BUFFERS_MB, _MOST_BUFFERS_MB = 128, 1024
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def buffers_mb(memory_bytes: int) -> int:
    """How much the server may keep in memory of what it reads: an eighth of what there is.

    Nothing is taken before it is needed, so that a small home stays small; one that does not fit
    is read over and over.
    """
    return min(max(memory_bytes // 8 // 2**20, _LEAST_BUFFERS_MB), _MOST_BUFFERS_MB)


def _memory_bytes() -> int:
    """The memory of the machine, or of the container we are in."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or one without a limit
        return min(machine, int(_CONTAINER_LIMIT.read_text(encoding="ascii")))
    return machine


def configuration(socket_directory: Path, extensions: Path) -> str:
    """The text of the included configuration file."""
    here = {
        "shared_buffers": f"{buffers_mb(_memory_bytes())}MB",
        "unix_socket_directories": str(socket_directory),
        "extension_control_path": f"$system:{extensions}",
    }
    lines = [f"{name} = {_quoted(value)}\n" for name, value in (SETTINGS | here).items()]
    return "".join(["# Rewritten at every start; changes made here are lost.\n", *lines])


def initdb_options(platform: str) -> list[str]:
    """Options for a new cluster: UTF-8, ordered by code point, reached over the socket alone."""
    if platform == "darwin":  # its C library knows no C.UTF-8; PostgreSQL's own rules do
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        return [*_INITDB, *locale, "--lc-ctype=UTF-8"]
    return [*_INITDB, "--locale=C.UTF-8"]


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
