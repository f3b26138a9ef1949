"""The hook program that Claude Code and Codex run at session events.

It must never fail or delay an agent: it always exits with 0, prints nothing but context, and stops
after two seconds whatever happens. It therefore imports only a little of the standard library.
Sessions go to the spool, whether or not the daemon runs; context comes from the daemon.
"""

import contextlib
import json
import os
import signal
import sys
import time
from typing import Any

from butlers.sessions import spool
from butlers.sessions.projects import identify

TOTAL_SECONDS = 2.0
PATIENCE_SECONDS = 1.5
# After a timeout the next wait is shorter.
SHORT_PATIENCE_SECONDS = 0.3
UNANSWERED_SECONDS = 60.0
# A daemon that was just started gets this time to come up.
STARTING_SECONDS = 60.0

# Claude Code writes the transcript of a first answer a moment after it reports the answer.
TRANSCRIPT_SECONDS = 0.5

MAX_INPUT_BYTES = 4 * 1024 * 1024
MAX_CONTEXT_CHARACTERS = 9_900

INJECTING = ("SessionStart", "UserPromptSubmit")
KEEPING = ("UserPromptSubmit", "PreCompact", "Stop", "SessionEnd")
EVENTS = ("SessionStart", *KEEPING)
LOW_TRUST = "--low-trust"
"""The option for an agent whose statements are trusted less."""
CONNECTING = "connect"
"""The source of the test session of `butlers connect`."""

_EVENT_FIELDS = ("session_id", "cwd", "source", "prompt")
# Variables that agents set for their children, and that a daemon must not inherit.
_AGENTS_OWN = ("CLAUDECODE", "CLAUDE_CODE_", "CODEX_SANDBOX")


class _NoContext(Exception):
    """The daemon gave no context; the message says why."""


def main() -> None:
    """Handle one event of an agent: `butlers-hook BUTLER --home DIR`."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, TOTAL_SECONDS)
    # The agent must not suffer, whatever goes wrong here.
    sys.excepthook = _give_up
    butler, home, options = parse_arguments(sys.argv[1:])
    _answer(butler, home, "--start" in options, LOW_TRUST in options)
    try:
        sys.stdout.flush()
    finally:
        _give_up()  # with 0, even if nobody reads the output


def _give_up(*_: object) -> None:
    os._exit(0)


def parse_arguments(arguments: list[str]) -> tuple[str, str, list[str]]:
    """Return the butler, its home, and every other argument."""
    home, names, others = os.environ.get("BUTLERS_HOME") or "~/.butlers", list[str](), list[str]()
    words = iter(arguments)
    for word in words:
        if word.startswith("--home="):
            home = word.removeprefix("--home=")
        elif word == "--home" and (value := next(words, "")):
            home = value
        else:
            (others if word.startswith("-") or names else names).append(word)
    return (names or ["general"])[0], os.path.expanduser(home), others


def _answer(butler: str, home: str, starts: bool, low_trust: bool) -> None:
    event = json.loads(sys.stdin.buffer.read(MAX_INPUT_BYTES))
    name = event.get("hook_event_name")
    # A missing home is not created: this may be a sandbox without it.
    if name not in EVENTS or not os.path.isdir(home):
        return
    if name in KEEPING:
        with contextlib.suppress(OSError):  # the daemon finds the transcript itself later
            _keep(butler, home, event, low_trust)
    if name in INJECTING:
        about = {key: event[key] for key in _EVENT_FIELDS if isinstance(event.get(key), str)}
        about["project"] = _project(event)
        _inject(butler, home, name, about, starts)


def _keep(butler: str, home: str, event: dict[str, Any], low_trust: bool) -> None:
    """Put the session into the spool; the agent names its transcript."""
    session, path = event.get("session_id"), event.get("transcript_path")
    if not isinstance(session, str) or not isinstance(path, str):
        return
    name, cwd = event["hook_event_name"], event.get("cwd")
    entry: dict[str, Any] = {"butler": butler, "session": session, "event": name}
    entry["path"] = os.path.realpath(os.path.expanduser(path))
    entry["cwd"] = cwd if isinstance(cwd, str) else ""
    entry["project"], entry["low_trust"] = _project(event), low_trust
    if name == "Stop":
        _wait_for(entry["path"], TRANSCRIPT_SECONDS)
    spool.keep(home, entry, ended=name == "SessionEnd")


def _wait_for(path: str, seconds: float) -> None:
    """Wait until a file exists, at most so long."""
    deadline = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.02)


def _project(event: dict[str, Any]) -> dict[str, Any] | None:
    """Identify the project the agent works in, with this user's rights."""
    cwd = event.get("cwd")
    return identify(cwd) if isinstance(cwd, str) and cwd else None


def _inject(butler: str, home: str, name: str, about: dict[str, Any], starts: bool) -> None:
    """Print the context for the session; note a session start without one."""

    def give_up(*_: object) -> None:
        _note(home, butler, about, f"no answer in {TOTAL_SECONDS:g} seconds")
        _give_up()

    is_start = name == "SessionStart"
    if is_start:
        signal.signal(signal.SIGALRM, give_up)
    try:
        context = _request(butler, home, name, about, starts)
    except (_NoContext, OSError, ValueError, KeyError, TypeError) as error:
        if is_start:
            _note(home, butler, about, str(error) if isinstance(error, _NoContext) else repr(error))
        return
    if context.strip():
        output = {"hookEventName": name, "additionalContext": context[:MAX_CONTEXT_CHARACTERS]}
        sys.stdout.write(json.dumps({"hookSpecificOutput": output}) + "\n")


def _note(home: str, butler: str, session: dict[str, Any], why: str) -> None:
    if session.get("source") == CONNECTING:
        os.write(1, why.encode())
        return
    with contextlib.suppress(OSError):
        about = {"butler": butler, "session": session.get("session_id", ""), "why": why}
        spool.note(os.path.join(home, spool.WITHOUT_MEMORY), about)


def _request(butler: str, home: str, name: str, about: dict[str, Any], starts: bool) -> str:
    """Ask the daemon for context; often empty. _NoContext says why there is none."""
    token = _read(os.path.join(home, "hooks", f"{butler}.token")).strip()
    if not token:
        raise _NoContext("the hooks have no token; run `butlers connect`")
    address = _address(home)
    if address is None:
        raise _NoContext(_down(home, starts))
    mark = os.path.join(home, "hooks", "unanswered")
    unanswered = _is_fresh(mark, UNANSWERED_SECONDS)
    patience = SHORT_PATIENCE_SECONDS if unanswered else PATIENCE_SECONDS
    try:
        answer = _post(address, f"/butlers/{butler}/hooks/{name}", token, about, patience)
    except TimeoutError:
        _mark(mark)
        raise _NoContext(f"no answer in {patience:g} seconds") from None
    except ConnectionError:
        raise _NoContext(_down(home, starts)) from None
    if unanswered:
        os.unlink(mark)
    if "error" in answer:
        raise _NoContext(f"the daemon refused: {answer['error']}")
    context = answer.get("context")
    return context if isinstance(context, str) else ""


def _down(home: str, starts: bool) -> str:
    """Start the daemon if that is wanted; return the reason to note."""
    started = starts and _start(home)
    return "the daemon was not running" + (", and was started" if started else "")


def _address(home: str) -> tuple[str, int] | None:
    """Return the address of the daemon, or None if it does not run."""
    running = json.loads(_read(os.path.join(home, "run.json")) or "null")
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
    import http.client  # half of this program's start-up time

    connection = http.client.HTTPConnection(*address, timeout=patience)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = json.loads(connection.getresponse().read(MAX_INPUT_BYTES))
    except http.client.HTTPException as error:
        raise _NoContext(f"an invalid answer ({type(error).__name__})") from None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}


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
        return 0 <= time.monotonic() - float(_read(path)) < seconds
    return False


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_INPUT_BYTES)
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    main()
