"""Keep a home served by a service of the user, under systemd or launchd."""

import hashlib
import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from butlers.atomic_files import replace_file
from butlers.errors import Unavailable
from butlers.host.home import Home
from butlers.sessions.agent_connections import program

_PATIENCE_SECONDS = 60
_FILE_MODE = 0o644


@dataclass(frozen=True)
class Manager:
    """A service manager: the file that describes our service, and the commands to use it."""

    file: Path
    text: str
    look: Sequence[str]
    """Succeeds while the service runs."""
    start: Sequence[Sequence[str]]
    """Start it now and at every login."""
    stop: Sequence[Sequence[str]]
    before_removal: Sequence[Sequence[str]] = ()
    """Run before the file is deleted."""
    after_removal: Sequence[Sequence[str]] = ()
    hint: str = ""


def systemd(home: Home, port: int | None = None) -> Manager:
    """Describe the service as a unit of the user's systemd."""
    unit = f"butlers{_suffix(home)}.service"
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")

    def user(*words: str) -> list[str]:
        return ["systemctl", "--user", *words]

    return Manager(
        config / "systemd" / "user" / unit,
        _unit_text(home, port),
        look=user("is-active", "--quiet", unit),
        start=[user("daemon-reload"), user("enable", unit), user("restart", unit)],
        stop=[user("stop", unit)],
        before_removal=[user("disable", unit)],
        after_removal=[user("daemon-reload")],
        hint="It starts when you log in; for a machine nobody logs in to: loginctl enable-linger",
    )


def _unit_text(home: Home, port: int | None) -> str:
    command = " ".join(map(_quoted, _command(home, port)))
    # Sessions find their programs where a terminal of this user finds them.
    path = _quoted(f"PATH={os.environ.get('PATH', os.defpath)}", dollars=False)
    return (
        f"[Unit]\nDescription=Butlers of {_plain(str(home.root))}\n\n"
        f"[Service]\nExecStart={command}\nEnvironment={path}\n"
        "Restart=on-failure\nRestartSec=30\nTimeoutStopSec=60\n\n"
        "[Install]\nWantedBy=default.target\n"
    )


def launchd(home: Home, port: int | None = None) -> Manager:
    """Describe the service as an agent of the user's launchd."""
    label, domain = f"local.butlers{_suffix(home)}", f"gui/{os.getuid()}"
    file = Path.home() / "Library" / "LaunchAgents" / f"{label}.plist"
    fields = {
        "Label": label,
        "ProgramArguments": _command(home, port),
        "EnvironmentVariables": {"PATH": os.environ.get("PATH", os.defpath)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
    }
    return Manager(
        file,
        plistlib.dumps(fields, sort_keys=False).decode(),
        look=["launchctl", "print", f"{domain}/{label}"],
        start=[["launchctl", "bootstrap", domain, str(file)]],
        stop=[["launchctl", "bootout", f"{domain}/{label}"]],
    )


def manager_of(home: Home, port: int | None = None) -> Manager:
    """Return the service manager of this machine; Unavailable if it has none."""
    if sys.platform == "darwin" and shutil.which("launchctl"):
        return launchd(home, port)
    if shutil.which("systemctl"):
        return systemd(home, port)
    raise Unavailable(
        "this machine has neither systemd nor launchd; let your own service manager run: "
        + shlex.join(_command(home, port))
    )


def install(manager: Manager) -> None:
    """Start the service now and at every login; a start that fails leaves no new file."""
    before = manager.file.read_text("utf-8") if manager.file.exists() else None
    if is_running(manager):
        if before == manager.text:
            return
        _run(manager.stop)
    manager.file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(manager.file, manager.text, _FILE_MODE)
    try:
        _run(manager.start)
    except Unavailable as error:
        if before is None:
            manager.file.unlink()
        raise Unavailable(f"{error}; log in as this user directly, not with su or sudo") from error


def uninstall(manager: Manager) -> bool:
    """Stop and remove the service; false if there is none."""
    if not manager.file.exists():
        return False
    if is_running(manager):
        _run(manager.stop)
    _run(manager.before_removal)
    manager.file.unlink()
    _run(manager.after_removal)
    return True


def is_running(manager: Manager) -> bool:
    """Whether the manager runs the service."""
    return _done(manager.look).returncode == 0


def _command(home: Home, port: int | None) -> list[str]:
    chosen = [] if port is None else ["--port", str(port)]
    return [*program("butlers", "butlers"), "up", "--home", str(home.root), *chosen]


def _suffix(home: Home) -> str:
    """Return a suffix that differs for every home; empty for the default one."""
    digest = hashlib.sha256(str(home.root).encode()).hexdigest()
    return "" if home.is_default else f"-{digest[:8]}"


def _plain(text: str) -> str:
    """Escape what systemd would replace."""
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(word: str, *, dollars: bool = True) -> str:
    """Quote a word for systemd."""
    plain = _plain(word).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + (plain.replace("$", "$$") if dollars else plain) + '"'


def _run(commands: Sequence[Sequence[str]]) -> None:
    for command in commands:
        done = _done(command)
        if done.returncode != 0:
            output = " ".join((done.stderr or done.stdout).split())
            reason = output or f"exit code {done.returncode}"
            raise Unavailable(f"`{shlex.join(command)}` failed: {reason}")


def _done(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`{shlex.join(command)}` took more than a minute") from None
