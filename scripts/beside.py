"""Run a command, and another beside it whose output is printed at the end.

    python scripts/beside.py BESIDE COMMAND [arguments ...]

BESIDE is one argument for the shell. Exits with the status of COMMAND or, if that is 0, of BESIDE.
Stops both when it is interrupted or terminated.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

_STOP_SECONDS = 30


def main(beside: str, *command: str) -> int:
    """Return the first status that is not 0, or 0."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with (
        tempfile.TemporaryFile() as log,
        _stopped_at_end(["sh", "-c", beside], log.fileno()) as other,
    ):
        with _stopped_at_end(command, None) as process:
            status = process.wait()
        other_status = other.wait()
        log.seek(0)
        sys.stdout.write(f"beside it: {beside}\n")
        sys.stdout.flush()
        shutil.copyfileobj(log, sys.stdout.buffer)
    return status or other_status


@contextmanager
def _stopped_at_end(command: Sequence[str], log: int | None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own; interrupt that group if it is left early."""
    errors = None if log is None else subprocess.STDOUT
    process = subprocess.Popen(command, stdout=log, stderr=errors, start_new_session=True)
    try:
        yield process
    finally:
        for stop in (signal.SIGINT, signal.SIGKILL):
            if process.poll() is None:
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, stop)
                    process.wait(_STOP_SECONDS)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
