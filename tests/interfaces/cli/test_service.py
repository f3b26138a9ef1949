"""`butlers service`: what is written, what the manager of services is told, and its refusals."""

import json
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from butlers.errors import Unavailable
from butlers.host import service
from butlers.host.home import Home
from butlers.host.status import alone
from interfaces.daemons import ENVIRONMENT, butlers

FAKE = """#!{python}
import json, pathlib, sys
state = pathlib.Path({state!r})
told = sys.argv[1:]
with state.with_name("calls").open("a") as calls:
    calls.write(json.dumps(told) + "\\n")
words = set(told)
if words & {{"start", "restart", "bootstrap"}}:
    if state.with_name("broken").exists():
        sys.exit("Failed to connect to bus: No medium found")
    state.touch()
if words & {{"stop", "bootout"}}:
    state.unlink()
if words & {{"is-active", "print"}}:
    sys.exit(0 if state.exists() else 3)
"""


class Machine:
    """A user with a home and a manager of services that only notes what it is told."""

    def __init__(self, directory: Path, *programs: str) -> None:
        self.directory = directory
        self.home = Home(directory / "a $home 100%")
        self.state = directory / "active"
        self.user = directory / "user"
        self.user.mkdir()
        path = directory / "bin"
        path.mkdir()
        for program in programs:
            (path / program).write_text(FAKE.format(python=sys.executable, state=str(self.state)))
            (path / program).chmod(0o755)
        self.environment = ENVIRONMENT | {"HOME": str(self.user), "PATH": str(path)}

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return butlers("service", *arguments, "--home", self.home.root, env=self.environment)

    @property
    def calls(self) -> list[str]:
        file = self.directory / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [" ".join(json.loads(line)) for line in lines]

    @property
    def files(self) -> list[Path]:
        return [file for file in self.user.rglob("*") if file.is_file()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "systemctl")


def test_it_is_installed_looked_at_and_removed_without_root(machine: Machine) -> None:
    assert machine.run("status").returncode == 3
    told = machine.run("install")
    assert told.returncode == 0, told.stderr
    assert "loginctl enable-linger" in told.stdout
    (unit,) = machine.files
    assert unit.parent == machine.user / ".config" / "systemd" / "user"
    assert machine.run("status").returncode == 0
    before = machine.calls
    assert machine.run("install").returncode == 0  # nothing to do
    assert [call for call in machine.calls[len(before) :] if "is-active" not in call] == []
    assert machine.run("uninstall").returncode == 0
    assert machine.files == []
    assert not machine.state.exists()
    assert f"--user disable {unit.name}" in machine.calls
    assert "the service is not installed" in machine.run("uninstall").stdout
    assert {call.split()[0] for call in machine.calls} == {"--user"}


def test_what_would_be_written_can_be_seen_first(machine: Machine) -> None:
    told = machine.run("install", "--print")
    assert told.returncode == 0
    assert "[Service]\nExecStart=" in told.stdout
    assert machine.files == []
    assert machine.calls == []


def test_a_unit_that_changed_is_run_anew(machine: Machine) -> None:
    machine.run("install")
    (unit,) = machine.files
    unit.write_text(unit.read_text().replace("RestartSec=30", "RestartSec=1"))
    assert machine.run("install").returncode == 0
    assert "RestartSec=30" in unit.read_text()
    assert machine.calls[-1] == f"--user restart {unit.name}"


def test_a_manager_that_cannot_be_reached_leaves_nothing_behind(machine: Machine) -> None:
    (machine.directory / "broken").touch()
    told = machine.run("install")
    assert told.returncode == 1
    assert "failed: Failed to connect to bus: No medium found; log in" in told.stderr
    assert machine.files == []


def test_butlers_that_were_started_by_hand_are_not_fought_with(machine: Machine) -> None:
    machine.home.create()
    with alone(machine.home):
        told = machine.run("install")
    assert told.returncode == 1
    assert "started by hand; run `butlers stop` first" in told.stderr
    assert machine.files == []


def test_without_a_manager_one_is_told_what_to_run(tmp_path: Path) -> None:
    told = Machine(tmp_path).run("install")
    assert told.returncode == 1
    assert "this machine has neither systemd nor launchd" in told.stderr
    assert " up --home " in told.stderr


def test_each_home_has_a_service_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    usual, other = Home(tmp_path / ".butlers"), Home(tmp_path / "other")
    assert service.systemd(usual).file.name == "butlers.service"
    assert service.systemd(other).file.name.startswith("butlers-")
    assert service.launchd(usual).file.name == "local.butlers.plist"


def test_systemd_itself_finds_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    manager = service.systemd(Home(tmp_path / 'a "quoted" $HOME \\ 100%'))
    manager.file.parent.mkdir(parents=True)
    manager.file.write_text(manager.text)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", manager.file],
        capture_output=True,
        text=True,
        check=False,
        env={"XDG_RUNTIME_DIR": str(tmp_path), **ENVIRONMENT},
    )
    assert manager.file.name not in done.stderr, done.stderr


def test_launchd_is_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, "launchctl")
    for name in ("HOME", "PATH"):
        monkeypatch.setenv(name, machine.environment[name])
    monkeypatch.setattr(sys, "platform", "darwin")
    manager = service.manager_of(machine.home)
    assert manager.file.parent == machine.user / "Library" / "LaunchAgents"
    told = plistlib.loads(manager.text.encode())
    assert told["ProgramArguments"][-3:] == ["up", "--home", str(machine.home.root)]
    service.install(manager)
    assert service.is_running(manager)
    service.install(manager)
    assert sum(call.startswith("bootstrap") for call in machine.calls) == 1
    assert service.uninstall(manager) is True
    assert service.uninstall(manager) is False
    assert machine.files == []
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="neither systemd nor launchd"):
        service.manager_of(machine.home)
