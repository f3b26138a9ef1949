"""Noticing commits to an SQLite file, whoever makes them, without asking SQLite.

In WAL mode all connections share a memory-mapped file beside the database. It begins with a
header that every commit writes anew, under a counter; so while the header is the same, the
database is the same. Looking at it takes no lock and no system call, where `pragma data_version`
begins and ends a transaction.
"""

import mmap
import os
import sqlite3
import sys
import threading
from dataclasses import dataclass

_HEADER_BYTES = 48
_FORMAT = (3_007_000).to_bytes(4, sys.byteorder)
"""How the header of the one format there has ever been begins."""

_IS_INITIALISED = 12
"""Where in the header it says whether the rest of it holds."""

_Inode = tuple[int, int]


@dataclass
class _Mapped:
    file: int
    memory: mmap.mmap
    watches: int = 0


# Closing any descriptor of a file gives up all locks this process has on it, SQLite's own
# included. So one that is open stays open until SQLite has removed the file.
_mapped: dict[_Inode, _Mapped] = {}
_mapping = threading.Lock()


class CommitWatch:
    """Looks at the header while a connection is open; without that it may be gone."""

    def __init__(self, inode: _Inode, memory: mmap.mmap) -> None:
        self._inode = inode
        self._memory = memory

    def header(self) -> bytes:
        """Bytes that differ from those before whenever anybody committed in between."""
        return self._memory[:_HEADER_BYTES]

    def end(self) -> None:
        """To be called once the connection is closed."""
        with _mapping:
            _mapped[self._inode].watches -= 1
            _forget_removed()


def watch_commits(connection: sqlite3.Connection) -> CommitWatch | None:
    """A watch over the connection's database; None where there is no shared memory to look at."""
    try:
        file = connection.execute("pragma database_list").fetchone()[2]
        with _mapping:
            inode, mapped = _map(f"{file}-shm") if file else (None, None)
            if inode is None or mapped is None:
                return None
            mapped.watches += 1
            return CommitWatch(inode, mapped.memory)
    except (sqlite3.Error, OSError, ValueError):
        return None


def _map(path: str) -> tuple[_Inode, _Mapped] | tuple[None, None]:
    status = os.stat(path)
    inode = (status.st_dev, status.st_ino)
    if inode not in _mapped:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        _mapped[inode] = _Mapped(file, mmap.mmap(file, _HEADER_BYTES, access=mmap.ACCESS_READ))
    header = _mapped[inode].memory[:_HEADER_BYTES]
    known = header.startswith(_FORMAT) and header[_IS_INITIALISED] == 1
    return (inode, _mapped[inode]) if known else (None, None)


def _forget_removed() -> None:
    """Let go of files that nobody watches and SQLite has removed, so that it holds no lock."""
    for inode, mapped in list(_mapped.items()):
        if mapped.watches == 0 and os.fstat(mapped.file).st_nlink == 0:
            mapped.memory.close()
            os.close(mapped.file)
            del _mapped[inode]
