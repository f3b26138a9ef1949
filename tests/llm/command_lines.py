"""The real command lines of Claude Code and Codex, installed once per machine for tests alone."""

import os
import shutil
import subprocess
from pathlib import Path

from filelock import FileLock

PACKAGES = {"@anthropic-ai/claude-code": "2.1.325", "@openai/codex": "0.166.0"}
INSTALL_SECONDS = 300


class NotInstallable(Exception):
    """The command lines cannot be had on this machine; the message says why."""


def command_lines() -> Path:
    """The directory that holds the programs `claude` and `codex`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "butlers-tests"
    cache.mkdir(parents=True, exist_ok=True)
    home = cache / ("npm-" + "-".join(PACKAGES.values()))
    with FileLock(f"{home}.lock"):
        if not (home / "installed").exists():
            _install(home)
            (home / "installed").touch()
    return home / "node_modules" / ".bin"


def _install(home: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NotInstallable("npm and node are not installed")
    shutil.rmtree(home, ignore_errors=True)
    packages = [f"{name}@{version}" for name, version in PACKAGES.items()]
    options = ["--no-audit", "--no-fund", "--fetch-retries=1", "--prefix", str(home)]
    try:
        done = subprocess.run(
            [npm, "install", *options, *packages],
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"npm install took more than {INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        raise NotInstallable(f"npm install failed: {done.stderr.strip()[-300:]}")
