"""What the machine, or the container we are in, has to give to the embedded server."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OURS = Path("/proc/self/cgroup")
_SHARED = Path("/dev/shm")  # noqa: S108
_ENOUGH_SHARED_BYTES = 256 * 2**20


def memory_bytes() -> int:
    """The memory of the machine, or the least that a container or a service may use of it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits()])


def has_room_to_share() -> bool:
    """Whether processes can share memory by files in memory; containers often have few."""
    try:
        found = os.statvfs(_SHARED)
    except OSError:
        return False
    return os.access(_SHARED, os.W_OK) and found.f_bavail * found.f_frsize >= _ENOUGH_SHARED_BYTES


def _limits() -> Iterator[int]:
    """The limit of every group we are in; "max" is none."""
    for file in _limit_files():
        with suppress(OSError, ValueError):
            yield int(file.read_text(encoding="ascii"))


def _limit_files() -> Iterator[Path]:
    yield _GROUPS / "memory" / "memory.limit_in_bytes"
    with suppress(OSError):
        for line in _OURS.read_text(encoding="utf-8").splitlines():
            group = Path(line.rpartition(":")[2].lstrip("/"))
            for one in (group, *group.parents):
                yield _GROUPS / one / "memory.max"
