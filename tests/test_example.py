"""The examples print what the documentation shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from interfaces.daemons import ENVIRONMENT, temporary_home

PROJECT = Path(__file__).parents[1]
EXAMPLE = PROJECT / "examples" / "a_week.py"


def run(*arguments: object) -> str:
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=ENVIRONMENT,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def normalised(output: str) -> str:
    """Replace dates in the output."""
    return re.sub(r"\b\d{4}-\d{2}-\d{2}\b", "DATE", output)


@pytest.mark.slow
def test_the_week_reads_as_documented() -> None:
    documented = (PROJECT / "docs" / "example-output.txt").read_text()
    assert normalised(run(EXAMPLE)) == normalised(documented)


@pytest.mark.slow
def test_the_week_can_be_told_again_in_a_home_that_stays() -> None:
    with temporary_home() as home:
        first, second = (run(EXAMPLE, "--home", home.root) for _ in range(2))
    assert "10 facts: what is true; 1 superseded" in first
    assert "10 facts: what is true; 12 superseded" in second


@pytest.mark.slow
def test_the_documented_python_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (PROJECT / "docs" / "python.md").read_text(), re.S)
    script = tmp_path / "documented.py"
    with temporary_home() as home:
        script.write_text(f"import os\nos.environ['BUTLERS_HOME'] = {str(home.root)!r}\n{code}")
        result = run(script)
    assert "fact: peanuts; carries an EpiPen" in result.splitlines()[0]
    assert (
        "- [Ann] [allergy]: peanuts; carries an EpiPen (confidence: 1.00, via an agent)" in result
    )
    assert "fact_created by python\nfact_superseded by python\n" in result
    assert result.endswith("replaced: ['nuts']\n")


def test_the_readme_and_the_recipes_lead_to_what_the_example_prints() -> None:
    assert "](docs/example-output.txt)" in (PROJECT / "README.md").read_text(encoding="utf-8")
    recipes = (PROJECT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert "`.venv/bin/python examples/a_week.py`" in recipes
    assert "](example-output.txt)" in recipes
