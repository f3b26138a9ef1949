"""A checkout can be installed: dependencies, locks, bill of materials, wheel, make."""

import json
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from butlers.embedding_files import BUNDLED_SHA256

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
REQUIRED = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def bare_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found is not None
    return canonical(found[0])


def needed_by(name: str) -> set[str]:
    """Every installed distribution that a distribution of this name pulls in."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = canonical(waiting.pop())
        if current not in seen and is_installed(current):
            seen.add(current)
            waiting += [bare_name(each) for each in metadata.requires(current) or ()]
    return seen


def is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def test_every_dependency_is_locked_to_one_version() -> None:
    locked = {canonical(name) for name in LOCKED}
    missing = set().union(*(needed_by(bare_name(each)) for each in REQUIRED)) - locked
    # Tools that happen to be in the environment, and extras nobody asked for, need no lock.
    assert missing - {"pip", "setuptools", "wheel"} == set()


def test_the_locked_versions_are_the_ones_under_test() -> None:
    installed = {name: metadata.version(name) for name in LOCKED if is_installed(name)}
    assert installed == {name: LOCKED[name] for name in installed}
    assert len(installed) > 60


def locks() -> dict[str, tuple[str, list[str]]]:
    """What an installation insists on: by name, the version and the hashes of its files."""
    text = "".join((ROOT / "locks" / f"{one}.txt").read_text() for one in ("run", "dev", "more"))
    lines = text.replace(" \\\n", " ").splitlines()
    parts = [line.split() for line in lines]
    pins = [part[0].split("==") for part in parts]
    assert len({name for name, _ in pins}) == len(pins)
    return {name: (version, part[1:]) for (name, version), part in zip(pins, parts, strict=True)}


def test_every_pinned_version_is_locked_by_the_hashes_of_its_files() -> None:
    locked = locks()
    pinned = {canonical(name): version for name, version in LOCKED.items()}
    assert {name: version for name, (version, _) in locked.items()} == pinned
    for name, (_, hashes) in locked.items():
        assert hashes and all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", h) for h in hashes), name
    needed = set().union(*(needed_by(bare_name(one)) for one in PROJECT["dependencies"]))
    run = (ROOT / "locks" / "run.txt").read_text()
    direct = {bare_name(one) for one in PROJECT["dependencies"]}
    assert direct <= needed and all(f"\n{name}==" in f"\n{run}" for name in direct)


def test_the_bill_of_materials_names_every_pinned_version_with_licence_and_hashes() -> None:
    bill = json.loads((ROOT / "sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    *parts, model = bill["components"]
    assert {part["name"]: part["version"] for part in parts} == {
        name: version for name, (version, _) in locks().items()
    }
    for part in parts:
        (licence,) = part["licenses"]
        assert licence.get("expression") or licence["license"]["name"], part["name"]
        listed = {one["hashes"][0]["content"] for one in part["externalReferences"]}
        assert {f"--hash=sha256:{one}" for one in listed} == set(locks()[part["name"]][1])
    notice = (ROOT / "NOTICE").read_text()
    for file in model["components"]:
        assert file["hashes"][0]["content"] == BUNDLED_SHA256[file["name"]]
        assert f"{file['name']:<16} {BUNDLED_SHA256[file['name']]}" in notice


def test_nothing_drags_in_torch() -> None:
    everything = set().union(*(needed_by(bare_name(each)) for each in PROJECT["dependencies"]))
    assert not everything & {"torch", "sentence-transformers", "transformers"}


def test_the_build_tools_are_locked_too() -> None:
    assert {"hatchling", "editables"} <= set(LOCKED)


@pytest.mark.parametrize("target", ["install", "run", "test", "check", "bench", "help"])
def test_make_help_lists_every_command(target: str) -> None:
    result = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"  make {target} " in result.stdout


def test_an_old_python_is_refused_with_a_remedy(tmp_path: Path) -> None:
    old = tmp_path / "python-of-old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    command = ["make", "install", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "needs Python 3.11 or newer" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_the_command_is_installed() -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="butlers")
    assert script.value == "butlers.entry:main"
    assert callable(script.load())
