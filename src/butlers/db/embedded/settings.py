"""How the embedded server is set up: rewritten at every start, so that this file is the truth."""

from pathlib import Path

SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    # Enough for fifty butlers that are all at their busiest; one that is idle holds a connection.
    "max_connections": "500",
    "shared_buffers": "128MB",
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


def configuration(socket_directory: Path, extensions: Path) -> str:
    """The text of the included configuration file."""
    here = {
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
