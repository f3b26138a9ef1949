"""`make test` runs tests over a cluster beside the others: one status, and both stop together."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "beside.py"


def start(beside, *command):
    return subprocess.Popen(
        [sys.executable, SCRIPT, beside, *command], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(("own", "other", "status"), [(0, 0, 0), (4, 0, 4), (0, 3, 3), (4, 3, 4)])
def test_what_either_ends_with_counts_and_its_output_comes_last(own, other, status):
    process = start(f"echo beside; exit {other}", "sh", "-c", f"sleep 0.2; echo own; exit {own}")
    output, _ = process.communicate()
    assert process.returncode == status
    assert output.splitlines()[0] == "own" and output.splitlines()[-1] == "beside"


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_it_stops_both(stop, tmp_path):
    ended = tmp_path / "own", tmp_path / "beside"
    script = "trap 'touch {}; exit' INT; echo ready; while sleep 0.1; do :; done"
    with start(script.format(ended[1]), "sh", "-c", script.format(ended[0])) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(stop)
        assert process.wait(20) == 128 + stop
    assert all(file.exists() for file in ended)
