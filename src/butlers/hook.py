"""What Claude Code and Codex run at the start, at each prompt and at the end of a session.

It must never fail or hold up an agent: it always exits with 0, says nothing unless it has
something to say, and gives up after two seconds whatever happens. It therefore imports nothing
but a little of the standard library.
"""

import http.client
import json
import os
import signal
import sys
import time
from typing import Any
from urllib.parse import urlsplit

from butlers.sessions.projects import identify

TOTAL_SECONDS = 2.0
PATIENCE_SECONDS = 1.5
# A butler that did not answer a moment ago is not waited for as long again.
SHORT_PATIENCE_SECONDS = 0.3
UNANSWERED_SECONDS = 60.0

MAX_INPUT_BYTES = 4 * 1024 * 1024
MAX_CONTEXT_CHARACTERS = 9_900
HEAD_BYTES, TAIL_BYTES = 256 * 1024, 1_792 * 1024
"""What is sent of a long transcript: how it began and how it ended, 2 MB in all."""

INJECTING = ("SessionStart", "UserPromptSubmit")
EVENTS = (*INJECTING, "SessionEnd")
_TOLD = ("session_id", "cwd", "source", "prompt", "reason")


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


def _arguments(given: list[str]) -> tuple[str, str]:
    """The butler and its home."""
    home = os.environ.get("BUTLERS_HOME") or "~/.butlers"
    if "--home" in given:
        place = given.index("--home")
        home = given[place + 1]
        del given[place : place + 2]
    return (given[0] if given else "general"), os.path.expanduser(home)


def _answer(butler: str, home: str) -> None:
    event = json.loads(sys.stdin.buffer.read(MAX_INPUT_BYTES))
    name = event.get("hook_event_name")
    if name not in EVENTS:
        return
    told = {key: event[key] for key in _TOLD if isinstance(event.get(key), str)}
    told["project"] = identify(told["cwd"]) if told.get("cwd") else None
    if name == "SessionEnd":
        told["transcript"] = _transcript(event.get("transcript_path"))
        if not told["transcript"]:
            return
    context = _asked(butler, home, name, told).get("context")
    if name in INJECTING and isinstance(context, str) and context.strip():
        output = {"hookEventName": name, "additionalContext": context[:MAX_CONTEXT_CHARACTERS]}
        sys.stdout.write(json.dumps({"hookSpecificOutput": output}) + "\n")


def _transcript(path: Any) -> str:
    """How a session began and how it ended; the agent names its own file, as this user."""
    if not isinstance(path, str):
        return ""
    with open(os.path.expanduser(path), "rb") as file:
        head = file.read(HEAD_BYTES)
        start = max(os.fstat(file.fileno()).st_size - TAIL_BYTES, len(head))
        file.seek(start)
        tail = file.read(TAIL_BYTES)
    # A line that is cut is passed over by whoever reads it.
    gap = b"\n" if start > len(head) else b""
    return (head + gap + tail).decode("utf-8", "replace")


def _asked(butler: str, home: str, name: str, told: dict[str, Any]) -> dict[str, Any]:
    """What the butler answers; {} from one that is not up."""
    address = _address(home)
    token = _read(os.path.join(home, "hooks", f"{butler}.token")).strip()
    if address is None or not token:
        return {}
    mark = os.path.join(home, "hooks", "unanswered")
    unanswered = _is_fresh(mark)
    patience = SHORT_PATIENCE_SECONDS if unanswered else PATIENCE_SECONDS
    try:
        answer = _post(address, f"/butlers/{butler}/hooks/{name}", token, told, patience)
    except TimeoutError:
        # The end of a session takes its time, which says nothing of how a butler is.
        if name in INJECTING:
            with open(mark, "w", encoding="utf-8") as file:
                file.write(str(time.monotonic()))
        return {}
    if unanswered:
        os.unlink(mark)
    return answer


def _address(home: str) -> tuple[str, int] | None:
    """Where the daemon of this home listens, if it lives."""
    running = json.loads(_read(os.path.join(home, "run.json")) or "null")
    if not isinstance(running, dict):
        return None
    os.kill(int(running["pid"]), 0)  # raises where it left the file behind
    url = urlsplit(running["url"])
    return (url.hostname, url.port) if url.hostname and url.port else None


def _post(
    address: tuple[str, int], path: str, token: str, told: dict[str, Any], patience: float
) -> dict[str, Any]:
    connection = http.client.HTTPConnection(*address, timeout=patience)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", path, json.dumps(told).encode(), headers)
        response = connection.getresponse()
        answer = json.loads(response.read(MAX_INPUT_BYTES)) if response.status == 200 else {}
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}


def _is_fresh(path: str) -> bool:
    since = _read(path)
    return bool(since) and 0 <= time.monotonic() - float(since) < UNANSWERED_SECONDS


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_INPUT_BYTES)
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    main()
