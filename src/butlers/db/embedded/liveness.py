"""See whether a PostgreSQL server runs: by its pid file, its socket and its processes."""

import os
import shutil
import socket
import struct
import subprocess
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

SOCKET_NAME = ".s.PGSQL.5432"
_CANNOT_CONNECT_NOW = b"C57P03\0"
_PATIENCE_SECONDS = 2.0


class SocketReply(Enum):
    """What the socket answers to a client."""

    WELCOME = auto()
    NOT_NOW = auto()  # starting up, recovering or shutting down
    SILENCE = auto()


@dataclass(frozen=True, slots=True)
class PidFile:
    """What the server wrote about itself when it started."""

    pid: int
    data: Path
    socket_directory: Path | None


def read_pid_file(data: Path) -> PidFile | None:
    """Read the pid file of a data directory; None where it is missing or incomplete."""
    try:
        lines = (data / "postmaster.pid").read_text(errors="surrogateescape").splitlines()
        pid, where = int(lines[0]), Path(lines[1])
    except (FileNotFoundError, ValueError, IndexError):
        return None
    return PidFile(pid, where, Path(lines[4]) if len(lines) > 4 and lines[4] else None)


def ask(socket_directory: Path) -> SocketReply:
    """Open a session as a client would; only an answer shows that the server is there."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PATIENCE_SECONDS)
            connection.connect(str(socket_directory / SOCKET_NAME))
            connection.sendall(_startup_packet())
            reply = connection.recv(8192)
            if reply.startswith(b"R"):
                connection.sendall(b"X" + struct.pack("!i", 4))
    except OSError:
        return SocketReply.SILENCE
    if not reply:
        return SocketReply.SILENCE
    # Any other refusal (too many clients, say) still comes from a server that works.
    refused = reply.startswith(b"E") and _CANNOT_CONNECT_NOW in reply
    return SocketReply.NOT_NOW if refused else SocketReply.WELCOME


def processes_over(data: Path) -> set[int] | None:
    """Return the PostgreSQL processes whose working directory is `data`; None where unknown.

    Finds backends that outlive a killed server too, and is not fooled by a reused pid.
    """
    if Path("/proc/self/cwd").is_symlink():
        return _from_proc(data)
    if shutil.which("lsof"):
        return _from_lsof(data)
    return None


def _startup_packet() -> bytes:
    body = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
    return struct.pack("!i", len(body) + 4) + body


def _from_proc(data: Path) -> set[int]:
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                works_here = os.readlink(f"/proc/{entry}/cwd") == str(data)
                if works_here and Path(f"/proc/{entry}/comm").read_text().strip() == "postgres":
                    found.add(int(entry))
            except OSError:
                continue  # it ended meanwhile, is a zombie, or belongs to another user
    return found


def _from_lsof(data: Path) -> set[int]:
    command = ["lsof", "-a", "-w", "-d", "cwd", "-c", "postgres", "-F", "pn"]
    listing = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    found, pid = set(), 0
    for line in listing.stdout.decode(errors="surrogateescape").splitlines():
        if line.startswith("p"):
            pid = int(line[1:])
        elif line == f"n{data}":
            found.add(pid)
    return found
