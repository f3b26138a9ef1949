"""Sessions of agents that write or report them otherwise than Claude Code and Codex do."""

import json
from pathlib import Path
from typing import Any

import pytest

from butlers.hook_events import translate
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.sessions.pauses import add_pause
from butlers.sessions.spool_entries import Arrival, SpoolEntries
from butlers.sessions.transcripts import Transcript, parse
from sessions.test_hooks import run_hook

CONTEXT = "# Memory Context\n## Key Facts\n- [workshop] [key]: behind the calendar\n"
ERROR = "tar: nowhere: Cannot open"


def lines(*records: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, records))


def gemini() -> str:
    """A session of Gemini CLI 0.61.0: its messages are written again with what is added to them."""
    response = {"output": f"Output: {ERROR}\nExit Code: 2"}
    result = [{"functionResponse": {"id": "c1", "response": response}}]
    call = {"id": "c1", "name": "run_shell_command", "args": {"command": "make"}, "result": result}
    answer = {"id": "m2", "type": "gemini", "content": "I run it.", "timestamp": "2"}
    asked = f"<hook_context>{CONTEXT}</hook_context>\n\nBuild it."
    return lines(
        {"sessionId": "s", "kind": "main"},
        {"$set": {"messages": [{"id": "m0", "type": "user", "content": [{"text": "<env>"}]}]}},
        {"id": "m1", "type": "user", "content": [{"text": asked}], "timestamp": "1"},
        answer,
        answer | {"toolCalls": [call]},
        answer | {"toolCalls": [call], "tokens": {}},
        {"id": "m3", "type": "user", "content": result, "timestamp": "3"},
        {"id": "m4", "type": "gemini", "content": "It fails.", "timestamp": "4"},
    )


def qwen() -> str:
    """A session of Qwen Code 0.24.4: parts as Google's API has them, and who wrote a message."""
    told = f"<qwen:user-prompt-submit-context>\n{CONTEXT}</qwen:user-prompt-submit-context>"
    call = {"id": "c1", "name": "run_shell_command", "args": {"command": "make"}}
    failed = {"functionResponse": {"id": "c1", "response": {"error": f"{ERROR}\nExit Code: 2"}}}

    def record(kind: str, at: str, role: str, *parts: dict[str, Any], by: str) -> dict[str, Any]:
        message = {"role": role, "parts": list(parts)}
        return {"type": kind, "timestamp": at, "provenance": by, "message": message}

    typed, thought = {"text": "Build it."}, {"text": "Hm, make?", "thought": True}
    return lines(
        record("user", "1", "user", typed, {"text": told}, by="real_user"),
        record("user", "1.5", "user", {"text": "Go on by yourself."}, by="notification"),
        {"type": "system", "subtype": "ui_telemetry", "systemPayload": {}},
        record(
            "assistant",
            "2",
            "model",
            thought,
            {"text": "I run it."},
            {"functionCall": call},
            by="x",
        ),
        record("tool_result", "3", "user", failed, by="tool_result"),
        record("assistant", "4", "model", {"text": "It fails."}, by="assistant_output"),
    )


def text() -> str:
    """A session that was handed over as text."""
    call = {"name": "bash", "input": {"command": "make"}, "error": f"{ERROR}\nExit Code: 2"}
    return lines(
        {"timestamp": "1", "role": "user", "text": "Build it."},
        {"timestamp": "1", "role": "memory", "text": CONTEXT},
        {"timestamp": "2", "role": "assistant", "text": "I run it.", "calls": [call]},
        {"timestamp": "4", "role": "assistant", "text": "It fails."},
    )


@pytest.mark.parametrize("write", [gemini, qwen, text])
def test_a_session_of_any_agent_is_read_alike(write: Any) -> None:
    read = parse(write())
    said = [(one.speaker, one.text) for one in read.said]
    answers = [("assistant", "I run it."), ("assistant", "It fails.")]
    assert said == [("user", "Build it."), *answers]
    assert [one.strip() for one in read.recalled] == [CONTEXT.strip()]
    (call,) = read.calls
    assert (call.summary, call.failed) == ("make", True)
    assert ERROR in call.output


@pytest.mark.parametrize("write", [gemini, qwen, text])
def test_a_damaged_line_costs_that_line(write: Any) -> None:
    whole = write()
    damaged = [
        '{"type": "user", "content": 7}',
        '{"message": {"parts": "x"}}',
        '{"role": [], "text": 1}',
    ]
    damaged += [
        '{"type": "gemini", "content": [null], "toolCalls": [3, {"result": 4}]}',
        whole[:30],
    ]
    assert parse("\n".join([*damaged, whole])).said == parse(whole).said


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create_butler("general")
    ensure_hook_token(home, "general", "default")
    return home


def hand_over(home: Home, *messages: Any, event: str = "Stop", **more: Any) -> None:
    given = {"hook_event_name": event, "session_id": "ses_1", "messages": list(messages)}
    printed, _ = run_hook(home, given | {"cwd": str(home.root)} | more)
    assert printed == ""


def message(text: str, at: int, role: str = "user") -> dict[str, Any]:
    return {"role": role, "text": text, "time": 1_795_132_022_000 + at}


def arrived(home: Home) -> Arrival:
    (arrival,) = SpoolEntries(home.root).arrivals()
    return arrival


def kept(home: Home) -> Transcript:
    transcript = arrived(home).transcript
    assert transcript is not None
    return parse(transcript.read_text())


def test_messages_that_are_handed_over_again_are_kept_once(home: Home) -> None:
    first, second = message("Oil the chain.", 1), message("Oiled.", 2, "assistant")
    hand_over(home, first)
    hand_over(home, first, second)
    hand_over(home, message("Thanks.", 3), 7, {"role": "user"}, event="SessionEnd")
    assert [one.text for one in kept(home).said] == ["Oil the chain.", "Oiled.", "Thanks."]
    arrival = arrived(home)
    assert not arrival.is_under_way
    SpoolEntries(home.root).done(arrival)
    assert list((home.root / "spool").iterdir()) == []


def test_an_agent_without_readable_transcripts_is_heard_event_by_event(home: Home) -> None:
    about = {"sessionId": "c1", "cwd": str(home.root)}
    for event in ({"prompt": "Oil the chain.", "timestamp": 1}, {"stopReason": "end_turn"}):
        assert run_hook(home, about | event, "--agent=copilot")[0] == ""
    assert run_hook(home, about | {"reason": "complete"}, "--agent=copilot")[0] == ""
    assert [one.text for one in kept(home).said] == ["Oil the chain."]
    arrival = arrived(home)
    assert not arrival.is_under_way
    SpoolEntries(home.root).done(arrival)
    run_hook(home, about | {"reason": "complete"}, "--agent=copilot")
    assert SpoolEntries(home.root).arrivals() == []


def test_what_is_private_in_messages_is_never_written(home: Home) -> None:
    public = message("Oil the chain.", 1)
    private = [message("Off the record: the safe is empty.", 2), message("Empty!", 3, "assistant")]
    hand_over(home, public, message("Wax <private>Ann's</private> saddle.", 4))
    hand_over(home, public, *private, message("Back on the record. Pump the tyres.", 5))
    written = "".join(file.read_text() for file in (home.root / "spool").iterdir())
    assert "Oil the chain." in written
    assert "safe" not in written and "Empty" not in written and "Ann" not in written


def test_messages_arrive_neither_paused_nor_under_a_name_that_is_a_path(home: Home) -> None:
    hand_over(home, message("Oil the chain.", 1), session_id="../../escape")
    assert not (home.root.parent / "escape~open.json").exists()
    add_pause(str(home.root), None, None)
    hand_over(home, message("Oil the chain.", 1))
    assert SpoolEntries(home.root).arrivals() == []


def test_low_trust_of_an_agent_is_that_of_its_messages(home: Home) -> None:
    given = {"hook_event_name": "Stop", "session_id": "ses_1", "messages": [message("Oil it.", 1)]}
    run_hook(home, given, "--low-trust", "--agent", "opencode")
    assert arrived(home).told["low_trust"] is True


NATIVE = [
    ("gemini-cli", {"hook_event_name": "BeforeAgent"}, "UserPromptSubmit"),
    ("gemini-cli", {"hook_event_name": "AfterAgent", "prompt_response": "Done."}, "Stop"),
    ("gemini-cli", {"hook_event_name": "BeforeModel"}, "BeforeModel"),
    ("qwen-code", {"hook_event_name": "PostToolUseFailure"}, "PostToolUseFailure"),
    ("qwen-code", {"hook_event_name": "UserPromptSubmit", "prompt": ""}, ""),
    ("cline", {"hookName": "TaskStart", "taskId": "t1"}, "SessionStart"),
    ("cursor", {"hook_event_name": "beforeSubmitPrompt", "prompt": "Hi"}, "UserPromptSubmit"),
    ("cursor", {"hook_event_name": "sessionEnd"}, "SessionEnd"),
    ("copilot", {"sessionId": "s", "source": "new", "initialPrompt": "Hi"}, "SessionStart"),
    ("copilot", {"sessionId": "s", "prompt": "Hi"}, "UserPromptSubmit"),
    ("copilot", {"sessionId": "s", "stopReason": "end_turn"}, "Stop"),
    ("copilot", {"sessionId": "s", "agentName": "explore", "stopReason": "end_turn"}, ""),
    ("copilot", {"sessionId": "s", "toolArgs": {}, "error": "no"}, "PostToolUseFailure"),
    ("droid", {"hook_event_name": "SubagentStop"}, "SubagentStop"),
]


@pytest.mark.parametrize(("agent", "given", "name"), NATIVE)
def test_events_of_other_agents_have_our_names(
    agent: str, given: dict[str, Any], name: str
) -> None:
    assert translate(agent, given)["hook_event_name"] == name


def test_what_an_event_says_is_found_where_its_agent_puts_it() -> None:
    roots = {"workspaceRoots": ["/home/ann/shop"], "taskId": "t1", "timestamp": "2026-11-19T10:00"}
    told = translate(
        "cline", {"hookName": "UserPromptSubmit", **roots, "userPromptSubmit": {"prompt": "Hi"}}
    )
    assert (told["session_id"], told["cwd"], told["prompt"]) == ("t1", "/home/ann/shop", "Hi")
    assert told["context_field"] == "contextModification"
    assert told["messages"][0] == {"role": "user", "text": "Hi", "time": "2026-11-19T10:00"}
    asked = translate(
        "gemini-cli",
        {
            "hook_event_name": "BeforeAgent",
            "prompt": f"<hook_context>{CONTEXT}</hook_context>\n\nHi",
        },
    )
    assert (asked["prompt"], asked["native_name"]) == ("Hi", "BeforeAgent")
    assert "messages" not in asked
    heard = [translate(agent, {"sessionId": "s", "prompt": "Hi"}) for agent in ("copilot", "droid")]
    assert [one["is_unheard"] for one in heard] == [True, False]


@pytest.mark.parametrize(
    "given", ["[]", "7", "{", '{"hook_event_name": "AfterModel"}', '{"hook_event_name": [1]}']
)
def test_an_event_that_means_nothing_to_us_is_passed_over(home: Home, given: str) -> None:
    for agent in ("gemini-cli", "cline", "nobody"):
        assert run_hook(home, given, "--agent", agent)[0] == ""
    assert SpoolEntries(home.root).arrivals() == []
