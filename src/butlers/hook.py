"""The hook program that agents run at session events.

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
from functools import partial
from typing import Any

from butlers.hook_request import MAX_INPUT_BYTES, TOOL_EVENTS, NoContext, request

TOTAL_SECONDS = 2.0

# Claude Code writes the transcript of a first answer a moment after it reports the answer.
TRANSCRIPT_SECONDS = 0.5

# A prompt this short may point to the answer before it, which is then sent along.
SHORT_PROMPT_CHARACTERS = 60
_TAIL_BYTES, _ANSWER_CHARACTERS = 64 * 1024, 4_000

MAX_CONTEXT_CHARACTERS = 9_900

INJECTING = ("SessionStart", "UserPromptSubmit")
KEEPING = ("UserPromptSubmit", "PreCompact", "Stop", "SessionEnd")
EVENTS = ("SessionStart", *KEEPING)
LOW_TRUST, AGENT = "--low-trust", "--agent="
"""The options for an agent that is trusted less, and for one that has events of its own."""
LIGHT = "--light"
"""The option of `butlers mcp` for an agent that begins with a few tools."""
CONNECTING = "connect"
"""The source of the test session of `butlers connect`."""

_EVENT_FIELDS = ("session_id", "cwd", "source", "prompt")
Event = dict[str, Any]


def main() -> None:
    """Handle one event of an agent: `butlers-hook BUTLER --home DIR --agent NAME`."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, TOTAL_SECONDS)
    # The agent must not suffer, whatever goes wrong here.
    sys.excepthook = _give_up
    butler, home, options = parse_arguments(sys.argv[1:])
    _answer(butler, home, options)
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
        elif word == "--agent" and (value := next(words, "")):
            others.append(AGENT + value)
        else:
            (others if word.startswith("-") or names else names).append(word)
    return (names or ["general"])[0], os.path.expanduser(home), others


def _read_event(options: list[str]) -> Event:
    event: Event = json.loads(sys.stdin.buffer.read(MAX_INPUT_BYTES))
    for agent in [option for option in options if option.startswith(AGENT)]:
        from butlers.hook_events import translate

        event = translate(agent.removeprefix(AGENT), event)
    return event


def _answer(butler: str, home: str, options: list[str]) -> None:
    event = _read_event(options)
    name, low_trust = event.get("hook_event_name"), LOW_TRUST in options
    # A missing home is not created: this may be a sandbox without it.
    if name not in (*EVENTS, *TOOL_EVENTS) or not os.path.isdir(home):
        return
    from butlers.sessions import privacy, spool

    about = {key: event[key] for key in _EVENT_FIELDS if isinstance(event.get(key), str)}
    about |= {"project": _project(event), "low_trust": low_trust}
    if not privacy.may_report(home, about):
        spool.drop_links(home, butler, about.get("session_id", ""))
        return
    is_silent = privacy.withhold(home, about) or bool(event.get("is_unheard"))
    if name in TOOL_EVENTS and not is_silent:
        _inject_for_call(butler, home, event, about["project"])
    if name in KEEPING:
        with contextlib.suppress(OSError):  # the daemon finds the transcript itself later
            _keep(butler, home, event, about["project"], low_trust)
    if name == "SessionStart" and event.get("source") != CONNECTING:
        path = os.path.expanduser(str(event.get("transcript_path") or ""))
        spool.note_begun(home, butler, about.get("session_id", ""), path, prompted=False)
    if name in INJECTING and (name == "SessionStart" or not is_silent):
        if len(about.get("prompt", "")) <= SHORT_PROMPT_CHARACTERS:
            about["last_answer"] = _last_answer(str(event.get("transcript_path") or ""))
        _inject(butler, home, event, about, "--start" in options)


def _inject_for_call(butler: str, home: str, event: Event, project: Event | None) -> None:
    """Print what is known about a tool call; where the digest has nothing of it, ask nobody."""
    from butlers.sessions import agent_calls, tool_digest

    call, cwd = agent_calls.read_call(event), str(event.get("cwd") or "")
    name = event["hook_event_name"]
    keys, hashes = agent_calls.call_keys(name, call), tool_digest.read(home, butler, cwd)
    if not keys or (hashes is not None and not agent_calls.is_in_digest(keys, hashes)):
        return
    about = {"session_id": event.get("session_id"), "cwd": cwd, "project": project}
    about["tool_input"] = {"command": call.command, "files": call.files}
    about |= {"error": agent_calls.output_of(event), "refresh": hashes is None}
    with contextlib.suppress(NoContext, OSError, ValueError, KeyError, TypeError):
        answer = request(butler, home, name, about, starts=False)
        if isinstance(answer.get("digest"), str):
            tool_digest.write(home, butler, cwd, answer["digest"])
        _print(event, answer)


def _keep(butler: str, home: str, event: Event, project: Event | None, low_trust: bool) -> None:
    """Put the session into the spool; the agent names its transcript, or hands over messages."""
    from butlers.sessions import privacy, spool

    session, path = event.get("session_id"), event.get("transcript_path")
    name, cwd, is_text = event["hook_event_name"], event.get("cwd"), "messages" in event
    if is_text:
        from butlers.sessions.text_sessions import write_messages

        path = write_messages(home, butler, event, project)
    if not isinstance(session, str) or not isinstance(path, str):
        return
    entry: Event = {"butler": butler, "session": session, "event": name, "text": is_text}
    entry["path"] = os.path.realpath(os.path.expanduser(path))
    entry["cwd"] = cwd if isinstance(cwd, str) else ""
    entry["project"], entry["low_trust"] = project, low_trust
    if name == "Stop":
        _wait_for(entry["path"], TRANSCRIPT_SECONDS)
    known = spool.read_entry(spool.under_way_file(home, butler, session))
    if not known:
        spool.note_begun(home, butler, session, entry["path"], prompted=name == "UserPromptSubmit")
    # Of messages only what is public was written.
    entry["scanned"], entry["private"] = (0, False) if is_text else privacy.scan(home, entry, known)
    write_copy = partial(_write_public, home) if entry["private"] else None
    try:
        spool.keep(home, entry, ended=name == "SessionEnd", write_copy=write_copy)
    finally:
        if is_text:
            os.unlink(entry["path"])


def _write_public(home: str, entry: dict[str, Any], copy: Any) -> None:
    # Only a child, for which nobody waits, pays for the import.
    from butlers.sessions.private_turns import write_redacted

    write_redacted(home, entry, copy.write)


def _wait_for(path: str, seconds: float) -> None:
    """Wait until a file exists, at most so long."""
    deadline = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.02)


def _project(event: dict[str, Any]) -> dict[str, Any] | None:
    """Identify the project the agent works in, with this user's rights."""
    from butlers.sessions.projects import identify

    cwd = event.get("cwd")
    return identify(cwd) if isinstance(cwd, str) and cwd else None


def _inject(butler: str, home: str, event: Event, about: Event, starts: bool) -> None:
    """Print the context for the session; note a start or a prompt without one."""

    def note(why: str) -> None:
        _note(home, butler, {**about, "event": event["hook_event_name"]}, why)

    def give_up(*_: object) -> None:
        note(f"no answer in {TOTAL_SECONDS:g} seconds")
        _give_up()

    signal.signal(signal.SIGALRM, give_up)
    try:
        _print(event, request(butler, home, event["hook_event_name"], about, starts))
    except (NoContext, OSError, ValueError, KeyError, TypeError) as error:
        note(str(error) if isinstance(error, NoContext) else repr(error))


def _print(event: Event, answer: dict[str, Any]) -> None:
    """Print the context of an answer, if any, as the agent takes it."""
    if isinstance(context := answer.get("context"), str) and context.strip():
        name = event.get("native_name") or event["hook_event_name"]
        field = event.get("context_field") or "additionalContext"
        output: Event = {field: context[:MAX_CONTEXT_CHARACTERS]}
        if not event.get("context_field"):
            output = {"hookSpecificOutput": {"hookEventName": name, **output}}
        sys.stdout.write(json.dumps(output) + "\n")


def _last_answer(path: str) -> str:
    """Return the agent's last words in a transcript, or "" where there are none near its end."""
    from butlers.sessions.prompts import parse_record

    lines: list[bytes] = []
    with contextlib.suppress(OSError), open(os.path.expanduser(path), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read(_TAIL_BYTES).splitlines()
    for line in reversed(lines):
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            record = parse_record(line)
            message = record.get("message") or record.get("payload") or {}
            if message.get("role") == "assistant" and (text := _text(message.get("content"))):
                return text[-_ANSWER_CHARACTERS:]
    return ""


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _note(home: str, butler: str, session: dict[str, Any], why: str) -> None:
    if session.get("source") == CONNECTING:
        os.write(1, why.encode())
        return
    from butlers.sessions import spool

    with contextlib.suppress(OSError):
        about = {"butler": butler, "session": session.get("session_id", ""), "why": why}
        about["event"] = session["event"]
        spool.note(os.path.join(home, spool.WITHOUT_MEMORY), about)


if __name__ == "__main__":
    main()
