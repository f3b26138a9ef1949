"""Checks of who listens where, and of who may call."""

import fcntl
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

from butlers.butler.home import Home
from butlers.butler.tokens import TokenStore
from butlers.doctor.finding import Finding, ok, problem, warning
from butlers.doors.server import listen
from butlers.errors import SettingsError
from butlers.files import PRIVATE
from butlers.settings.files import override_server
from butlers.settings.sections import ServerSection

_PATIENCE_SECONDS = 8.0


def listening(home: Home, server: ServerSection) -> Iterator[Finding]:
    """The home is served and well, or nothing keeps it from being served."""
    yield _served(home) if _is_up(home) else _port_is_free(server)
    if _is_remote(server):
        yield warning(
            "server",
            f"{server.host} can be reached by other machines, without encryption",
            'set server.host to "127.0.0.1", or put a proxy with TLS before it',
        )


def tokens(home: Home, butlers: Sequence[str]) -> Iterator[Finding]:
    """Each butler can be called by somebody, and nobody else can read the list."""
    records = TokenStore(home.tokens_file).all()
    if not records:
        remedy = "`butlers up` makes the first; more: butlers token new --butler NAME --tenant T"
        yield warning("tokens", "there are none, so no agent can call", remedy)
        return
    mode = home.tokens_file.stat().st_mode & 0o777
    if mode & ~PRIVATE:
        file = home.tokens_file
        yield problem("tokens", f"{file} is open to others ({mode:o})", f"run: chmod 600 {file}")
    called = {record.butler for record in records}
    for name in sorted(set(butlers) - called):
        remedy = f"make one: butlers token new --butler {name} --tenant default"
        yield warning("tokens", f"no token opens butler {name}", remedy)
    for name in sorted(called - set(butlers)):
        remedy = "revoke it: butlers token list, butlers token revoke ID"
        yield warning("tokens", f"a token is for butler {name}, which is not here", remedy)
    yield ok("tokens", f"{len(records)} kept, as hashes")


def _is_remote(server: ServerSection) -> bool:
    """Whether only the permission to be reachable makes the settings valid."""
    try:
        override_server(server, {"allow_remote": False})
    except SettingsError:
        return True
    return False


def _is_up(home: Home) -> bool:
    """Whether a process serves the home; one that was killed has lost its lock."""
    try:
        with home.lock_file.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _served(home: Home) -> Finding:
    try:
        url = json.loads(home.run_file.read_text(encoding="utf-8"))["url"]
    except FileNotFoundError:
        return warning("server", "the butlers are starting or stopping", "ask again in a moment")
    status, report = _health(f"{url}/health")
    if status == "ok":
        return ok("server", f"up and well at {url}")
    unwell = [name for name, butler in report.items() if butler["status"] != "ok"]
    told = f"unwell: {', '.join(unwell)}" if unwell else "does not answer"
    return problem("server", f"{url} {told}", f"see {home.logs_directory / 'butlers.log'}")


def _health(url: str) -> tuple[str, dict[str, Any]]:
    # Ours is on this machine: a proxy of the environment has no business here.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_PATIENCE_SECONDS) as answer:
            body = answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            body = refusal.read()
    except OSError:
        return "silent", {}
    try:
        report = json.loads(body)
        return report["status"], report["butlers"]
    except (ValueError, TypeError, KeyError):
        return "strange", {}


def _port_is_free(server: ServerSection) -> Finding:
    listen(server.host, server.port).close()
    return ok("server", f"not up; port {server.port} on {server.host} is free")
