"""What Claude Code and Codex run at the events of a session.

It must never fail or hold up an agent: it always exits with 0, says nothing unless it has
something to say, and gives up after two seconds whatever happens. It therefore imports nothing
but a little of the standard library. What a session leaves goes to the spool, whether or not
a butler is up; what it is told has to come from one that is.
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
# A butler that did not answer a moment ago is not waited for as long again.
SHORT_PATIENCE_SECONDS = 0.3
UNANSWERED_SECONDS = 60.0
# Whoever was started a moment ago is given the time to come up.
STARTING_SECONDS = 60.0

MAX_INPUT_BYTES = 4 * 1024 * 1024
MAX_CONTEXT_CHARACTERS = 9_900

INJECTING = ("SessionStart", "UserPromptSubmit")
KEEPING = ("UserPromptSubmit", "PreCompact", "Stop", "SessionEnd")
EVENTS = ("SessionStart", *KEEPING)
LOW_TRUST = "--low-trust"
"""Said to the programs of an agent whose word counts for less."""
CONNECTING = "connect"
"""What `butlers connect` gives as the source of a session that is none."""

_TOLD = ("session_id", "cwd", "source", "prompt")
# What agents set for programs they start is not for one that outlives them.
_AGENTS_OWN = ("CLAUDECODE", "CLAUDE_CODE_", "CODEX_SANDBOX")


class _Unheard(Exception):
    """A butler told nothing; the words say why."""


def main() -> None:
    """Answer one event of an agent; `butlers-hook BUTLER --home DIR` is what agents are given."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, TOTAL_SECONDS)
    # An agent must not suffer, whatever it is that goes wrong here.
    sys.excepthook = _give_up
    _answer(*_arguments(sys.argv[1:]))
    try:
        sys.stdout.flush()
    finally:
        _give_up()  # with 0, even if nobody reads what was written


def _give_up(*_: object) -> None:
    os._exit(0)


def _arguments(given: list[str]) -> tuple[str, str, bool, bool]:
    """The butler, its home, whether to start a home that is not up, and how far it is trusted."""
    home, starts = os.environ.get("BUTLERS_HOME") or "~/.butlers", "--start" in given
    low_trust = LOW_TRUST in given
    given = [one for one in given if one not in ("--start", LOW_TRUST)]
    if "--home" in given:
        place = given.index("--home")
        home = given[place + 1]
        del given[place : place + 2]
    return (given[0] if given else "general"), os.path.expanduser(home), starts, low_trust


def _answer(butler: str, home: str, starts: bool, low_trust: bool) -> None:
    event = json.loads(sys.stdin.buffer.read(MAX_INPUT_BYTES))
    name = event.get("hook_event_name")
    # A home that is not there is not made: this may be a sandbox that does not have it.
    if name not in EVENTS or not os.path.isdir(home):
        return
    if name in KEEPING:
        with contextlib.suppress(OSError):  # the daemon looks for the transcript itself later
            _keep(butler, home, event, low_trust)
    if name in INJECTING:
        told = {key: event[key] for key in _TOLD if isinstance(event.get(key), str)}
        told["project"] = _project(event)
        _inject(butler, home, name, told, starts)


def _keep(butler: str, home: str, event: dict[str, Any], low_trust: bool) -> None:
    """Leave the session in the spool; the agent names its own file, as this user."""
    session, path = event.get("session_id"), event.get("transcript_path")
    if not isinstance(session, str) or not isinstance(path, str):
        return
    name, cwd = event["hook_event_name"], event.get("cwd")
    told: dict[str, Any] = {"butler": butler, "session": session, "event": name}
    told["path"] = os.path.realpath(os.path.expanduser(path))
    told["cwd"] = cwd if isinstance(cwd, str) else ""
    told["project"], told["low_trust"] = _project(event), low_trust
    spool.keep(home, told, ended=name == "SessionEnd")


def _project(event: dict[str, Any]) -> dict[str, Any] | None:
    """What project the agent works in; told apart here, as this user."""
    cwd = event.get("cwd")
    return identify(cwd) if isinstance(cwd, str) and cwd else None


def _inject(butler: str, home: str, name: str, told: dict[str, Any], starts: bool) -> None:
    """Print what the butler tells the session; that a start had to do without is noted."""

    def give_up(*_: object) -> None:
        _note(home, butler, told, f"no answer in {TOTAL_SECONDS:g} seconds")
        _give_up()

    is_start = name == "SessionStart"
    if is_start:
        signal.signal(signal.SIGALRM, give_up)
    try:
        context = _request(butler, home, name, told, starts)
    except (_Unheard, OSError, ValueError, KeyError, TypeError) as error:
        if is_start:
            _note(home, butler, told, str(error) if isinstance(error, _Unheard) else repr(error))
        return
    if context.strip():
        output = {"hookEventName": name, "additionalContext": context[:MAX_CONTEXT_CHARACTERS]}
        sys.stdout.write(json.dumps({"hookSpecificOutput": output}) + "\n")


def _note(home: str, butler: str, told: dict[str, Any], why: str) -> None:
    if told.get("source") == CONNECTING:
        os.write(1, why.encode())
        return
    with contextlib.suppress(OSError):
        about = {"butler": butler, "session": told.get("session_id", ""), "why": why}
        spool.note(os.path.join(home, spool.WITHOUT_MEMORY), about)


def _request(butler: str, home: str, name: str, told: dict[str, Any], starts: bool) -> str:
    """What the butler tells; often nothing."""
    token = _read(os.path.join(home, "hooks", f"{butler}.token")).strip()
    if not token:
        raise _Unheard("there was no token for hooks; `butlers connect` makes one")
    address = _address(home)
    if address is None:
        raise _Unheard(_down(home, starts))
    mark = os.path.join(home, "hooks", "unanswered")
    unanswered = _is_fresh(mark, UNANSWERED_SECONDS)
    patience = SHORT_PATIENCE_SECONDS if unanswered else PATIENCE_SECONDS
    try:
        answer = _post(address, f"/butlers/{butler}/hooks/{name}", token, told, patience)
    except TimeoutError:
        _mark(mark)
        raise _Unheard(f"no answer in {patience:g} seconds") from None
    except ConnectionError:
        raise _Unheard(_down(home, starts)) from None
    if unanswered:
        os.unlink(mark)
    if "error" in answer:
        raise _Unheard(f"the butlers refused: {answer['error']}")
    context = answer.get("context")
    return context if isinstance(context, str) else ""


def _down(home: str, starts: bool) -> str:
    """Start a home that is not up, if that is wanted; what to note of it."""
    started = starts and _start(home)
    return "the butlers were not up" + (", and were started" if started else "")


def _address(home: str) -> tuple[str, int] | None:
    """Where the daemon of this home listens, if it lives."""
    running = json.loads(_read(os.path.join(home, "run.json")) or "null")
    if not isinstance(running, dict):
        return None
    try:
        os.kill(int(running["pid"]), 0)  # raises where it left the file behind
    except ProcessLookupError:
        return None
    host, _, port = str(running["url"]).removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)


def _post(
    address: tuple[str, int], path: str, token: str, told: dict[str, Any], patience: float
) -> dict[str, Any]:
    import http.client  # more than half of the time this program takes to start

    connection = http.client.HTTPConnection(*address, timeout=patience)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", path, json.dumps(told).encode(), headers)
        answer = json.loads(connection.getresponse().read(MAX_INPUT_BYTES))
    except http.client.HTTPException as error:
        raise _Unheard(f"a strange answer ({type(error).__name__})") from None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}


def _start(home: str) -> bool:
    """Start the butlers of a home, as a process of its own; whether this call did."""
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
    """Whether nobody else has just started the home; from now on this process has."""
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
