"""Ask the daemon for context on behalf of the hook program, and start the daemon if wanted.

The hook imports this, so it imports only a little of the standard library.
"""

import contextlib
import json
import os
import sys
import time
from typing import Any

PATIENCE_SECONDS = 1.5
# After a timeout the next wait is shorter.
SHORT_PATIENCE_SECONDS = 0.3
UNANSWERED_SECONDS = 60.0
# A daemon that was just started gets this time to come up.
STARTING_SECONDS = 60.0

MAX_INPUT_BYTES = 4 * 1024 * 1024
TOOL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
# Variables that agents set for their children, and that a daemon must not inherit.
_AGENTS_OWN = ("CLAUDECODE", "CLAUDE_CODE_", "CODEX_SANDBOX")


class NoContext(Exception):
    """The daemon gave no context; the message says why."""


def request(
    butler: str, home: str, name: str, about: dict[str, Any], starts: bool
) -> dict[str, Any]:
    """Ask the daemon for context; often empty. NoContext says why there is none."""
    token = read_text(os.path.join(home, "hooks", f"{butler}.token")).strip()
    if not token:
        raise NoContext("the hooks have no token; run `butlers connect`")
    address = _address(home)
    if address is None:
        raise NoContext(_down(home, starts))
    mark = os.path.join(home, "hooks", "unanswered")
    unanswered = _is_fresh(mark, UNANSWERED_SECONDS)
    if unanswered and name in TOOL_EVENTS:
        raise NoContext("the daemon did not answer a moment ago")
    patience = SHORT_PATIENCE_SECONDS if unanswered or name in TOOL_EVENTS else PATIENCE_SECONDS
    try:
        answer = _post(address, f"/butlers/{butler}/hooks/{name}", token, about, patience)
    except TimeoutError:
        _mark(mark)
        raise NoContext(f"no answer in {patience:g} seconds") from None
    except ConnectionError:
        raise NoContext(_down(home, starts)) from None
    if unanswered:
        os.unlink(mark)
    if "error" in answer:
        raise NoContext(f"the daemon refused: {answer['error']}")
    return answer


def _down(home: str, starts: bool) -> str:
    """Start the daemon if that is wanted; return the reason to note."""
    started = starts and _start(home)
    return "the daemon was not running" + (", and was started" if started else "")


def _address(home: str) -> tuple[str, int] | None:
    """Return the address of the daemon, or None if it does not run."""
    running = json.loads(read_text(os.path.join(home, "run.json")) or "null")
    if not isinstance(running, dict):
        return None
    try:
        os.kill(int(running["pid"]), 0)  # raises if the process is gone
    except ProcessLookupError:
        return None
    host, _, port = str(running["url"]).removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)


def _post(
    address: tuple[str, int], path: str, token: str, body: dict[str, Any], patience: float
) -> dict[str, Any]:
    import socket  # http.client would double this program's start-up time

    host, content = address[0], json.dumps(body).encode()
    where = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
    head = f"POST {path} HTTP/1.0\r\nHost: {where}\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    with socket.create_connection(address, patience) as line, line.makefile("rb") as reply:
        line.sendall(head.encode() + content)
        headers, _, answer = reply.read(MAX_INPUT_BYTES).partition(b"\r\n\r\n")
    value = json.loads(answer) if headers.startswith(b"HTTP/1.") else None
    return value if isinstance(value, dict) else {"error": "an invalid answer"}


def _start(home: str) -> bool:
    """Start the daemon as a process of its own; return whether this call did."""
    import subprocess

    sandboxed = any(name.startswith("CODEX_SANDBOX") for name in os.environ)
    if sandboxed or not os.access(home, os.W_OK) or not _is_mine_to_start(home):
        return False
    own = {key: text for key, text in os.environ.items() if not key.startswith(_AGENTS_OWN)}
    subprocess.Popen(
        [sys.executable, "-P", "-m", "butlers", "up", "--home", home],
        env=own,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return True


def _is_mine_to_start(home: str) -> bool:
    """Whether nobody else has just started the daemon; marks that this process does."""
    import fcntl

    mark = os.path.join(home, "hooks", "starting")
    with open(mark, "a", encoding="utf-8") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_fresh(mark, STARTING_SECONDS):
            _mark(mark)
            return True
    return False


def _mark(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(str(time.monotonic()))


def _is_fresh(path: str, seconds: float) -> bool:
    with contextlib.suppress(ValueError):
        return 0 <= time.monotonic() - float(read_text(path)) < seconds
    return False


def read_text(path: str) -> str:
    """Read a file; "" where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_INPUT_BYTES)
    except FileNotFoundError:
        return ""
