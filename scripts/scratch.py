"""Print a directory for the temporary files of tests, which write gigabytes and keep none of them.

It is in memory (`/dev/shm`) where enough memory is free, unless TMPDIR names another.
"""

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED_GB = 8


def scratch() -> str:
    """Return the directory."""
    if not os.environ.get("TMPDIR"):
        with suppress(OSError):
            if min(shutil.disk_usage(MEMORY).free, _available()) >= NEEDED_GB * 1024**3:
                return str(MEMORY)
    return tempfile.gettempdir()


def _available() -> int:
    """Return how many bytes of memory programs can still have."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


if __name__ == "__main__":
    sys.stdout.write(scratch())
