"""Keeping a home up: a service of the user's own, under systemd or launchd."""

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
    """What keeps programs of a user running: the file that tells it of ours, and its commands."""

    file: Path
    text: str
    look: Sequence[str]
    """Succeeds while the service runs."""
    start: Sequence[Sequence[str]]
    """Run it now and at every login, as its file says."""
    stop: Sequence[Sequence[str]]
    disown: Sequence[Sequence[str]] = ()
    """Before its file goes."""
    forget: Sequence[Sequence[str]] = ()
    """After it went."""
    hint: str = ""


def systemd(home: Home) -> Manager:
    """A unit of the user's systemd."""
    unit = f"butlers{_suffix(home)}.service"
    chosen = os.environ.get("XDG_CONFIG_HOME")

    def user(*words: str) -> list[str]:
        return ["systemctl", "--user", *words]

    return Manager(
        Path(chosen or Path.home() / ".config") / "systemd" / "user" / unit,
        _unit_text(home),
        look=user("is-active", "--quiet", unit),
        start=[user("daemon-reload"), user("enable", unit), user("restart", unit)],
        stop=[user("stop", unit)],
        disown=[user("disable", unit)],
        forget=[user("daemon-reload")],
        hint="It starts when you log in; for a machine nobody logs in to: loginctl enable-linger",
    )


def _unit_text(home: Home) -> str:
    command = " ".join(map(_quoted, _command(home)))
    # The programs of sessions are looked for where a terminal of this user finds them.
    path = _quoted(f"PATH={_path()}", dollars=False)
    return (
        f"[Unit]\nDescription=Butlers of {_plain(str(home.root))}\n\n"
        f"[Service]\nExecStart={command}\nEnvironment={path}\n"
        "Restart=on-failure\nRestartSec=30\nTimeoutStopSec=60\n\n"
        "[Install]\nWantedBy=default.target\n"
    )


def launchd(home: Home) -> Manager:
    """An agent of the user's launchd."""
    label, domain = f"local.butlers{_suffix(home)}", f"gui/{os.getuid()}"
    file = Path.home() / "Library" / "LaunchAgents" / f"{label}.plist"
    told = {
        "Label": label,
        "ProgramArguments": _command(home),
        "EnvironmentVariables": {"PATH": _path()},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
    }
    return Manager(
        file,
        plistlib.dumps(told, sort_keys=False).decode(),
        look=["launchctl", "print", f"{domain}/{label}"],
        start=[["launchctl", "bootstrap", domain, str(file)]],
        stop=[["launchctl", "bootout", f"{domain}/{label}"]],
    )


def manager_of(home: Home) -> Manager:
    """What keeps programs running on this machine."""
    if sys.platform == "darwin" and shutil.which("launchctl"):
        return launchd(home)
    if shutil.which("systemctl"):
        return systemd(home)
    raise Unavailable(
        "there is neither systemd nor launchd here; have whatever starts your programs run: "
        + shlex.join(_command(home))
    )


def install(manager: Manager) -> None:
    """Have the home served now and from every login on; what fails leaves no file behind."""
    before, running = _read(manager.file), is_running(manager)
    if running and before == manager.text:
        return
    if running:
        _run(manager.stop)
    manager.file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(manager.file, manager.text, _FILE_MODE)
    try:
        _run(manager.start)
    except Unavailable as error:
        if before is None:
            manager.file.unlink()
        raise Unavailable(f"{error}; log in as this user yourself, not by su or sudo") from error


def uninstall(manager: Manager) -> bool:
    """Stop the service and forget it; false where there is none."""
    if not manager.file.exists():
        return False
    if is_running(manager):
        _run(manager.stop)
    _run(manager.disown)
    manager.file.unlink()
    _run(manager.forget)
    return True


def is_running(manager: Manager) -> bool:
    """Whether the manager runs the service."""
    return _done(manager.look).returncode == 0


def _command(home: Home) -> list[str]:
    return [*program("butlers", "butlers"), "up", "--home", str(home.root)]


def _suffix(home: Home) -> str:
    """Nothing for the usual home; else what tells it from every other."""
    usual = Path(os.path.abspath(Path("~/.butlers").expanduser()))
    digest = hashlib.sha256(str(home.root).encode()).hexdigest()
    return "" if home.root == usual else f"-{digest[:8]}"


def _path() -> str:
    return os.environ.get("PATH", os.defpath)


def _plain(text: str) -> str:
    """Text in which systemd finds nothing to replace."""
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(word: str, *, dollars: bool = True) -> str:
    """A word as systemd reads it: one word, as it is."""
    plain = _plain(word).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + (plain.replace("$", "$$") if dollars else plain) + '"'


def _run(commands: Sequence[Sequence[str]]) -> None:
    for command in commands:
        done = _done(command)
        if done.returncode != 0:
            told = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
            raise Unavailable(f"`{shlex.join(command)}` failed: {told}")


def _done(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`{shlex.join(command)}` took more than a minute") from None


def _read(file: Path) -> str | None:
    return file.read_text("utf-8") if file.exists() else None
