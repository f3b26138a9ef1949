"""What all workers of one run of the tests share."""

import os
import secrets
import shutil
import tempfile
from functools import cache
from pathlib import Path

# Whoever comes first controls the run; its workers, which it starts, are told so.
_RUN = os.environ.setdefault("BUTLERS_TESTS_OF", f"{os.getpid()}-{secrets.token_hex(4)}")


@cache
def run_directory() -> Path:
    """A directory of this run: short enough for sockets, and one the server's user can reach."""
    directory = Path(tempfile.gettempdir()) / f"butlers-tests-{_RUN}"
    directory.mkdir(mode=0o755, exist_ok=True)
    return directory


def clear_up() -> None:
    """Remove what the run has left, once the process that controls it is done."""
    if _RUN.startswith(f"{os.getpid()}-"):
        shutil.rmtree(run_directory(), ignore_errors=True)
