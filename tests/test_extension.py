"""The core without the package for clusters: only its commands are missing, and say so."""

import subprocess
import sys

import pytest

COMMANDS = ("distribute", "undistribute", "places", "isolate", "rebalance")
WITHOUT = """
import sys
sys.modules["butlers_cluster"] = None
from butlers.interfaces.cli import run_command
sys.exit(run_command(sys.argv[1:]))
"""


def butlers(*words):
    command = [sys.executable, "-c", WITHOUT, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_missing_package_says_so(command):
    done = butlers("db", command, "general", "--json")
    assert done.returncode == 1
    assert "needs the package butlers_cluster, which is not installed" in done.stderr


def test_other_commands_work_without_the_package():
    assert butlers("version").returncode == 0
