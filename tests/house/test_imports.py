"""Imports go down only, and the tool that says so would notice if they did not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import butlers

SOURCE = Path(butlers.__file__).parent
PROJECT = SOURCE.parent.parent
LINTER = Path(sys.executable).with_name("lint-imports")


def lint(project, source):
    return subprocess.run(
        [LINTER, "--no-cache", "--config", project / "pyproject.toml"],
        cwd=project,
        env={"PYTHONPATH": str(source), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_go_down_only():
    outcome = lint(PROJECT, SOURCE.parent)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.fixture
def copied_house(tmp_path):
    """A copy of the source that a test may spoil."""
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for package in (SOURCE, SOURCE.with_name("butlers_cluster")):
        shutil.copytree(package, tmp_path / "src" / package.name, ignore=ignored)
    return tmp_path


def test_a_step_up_would_be_noticed(copied_house):
    source = copied_house / "src" / "butlers"
    for path, line in [
        ("kernel/text.py", "import asyncpg"),
        ("db/queries.py", "import butlers.settings.sections"),
        ("memory/store/facts.py", "import butlers.memory.flows.remember"),
        ("memory/model.py", "import butlers.notebook.model"),
        ("db/provision.py", "import butlers_cluster.nodes"),
    ]:
        with (source / path).open("a") as file:
            file.write(f"\n{line}\n")
    outcome = lint(copied_house, copied_house / "src")
    assert outcome.returncode != 0
    for broken in (
        "butlers.kernel.text -> asyncpg",
        "butlers.db.queries -> butlers.settings.sections",
        "butlers.memory.store.facts -> butlers.memory.flows.remember",
        "butlers.memory.model -> butlers.notebook.model",
        "butlers.db.provision -> butlers_cluster.nodes",
    ):
        assert broken in outcome.stdout
