"""What of a transcript, a prompt or a tool's words is private."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from butlers.errors import Conflict, InvalidInput
from butlers.interfaces.cli.pause import duration_seconds
from butlers.interfaces.http.hooks import Ended, HookProject, Prompted, Started, public_event
from butlers.kernel.private_tags import without_private
from butlers.memory.operations import OPERATIONS
from butlers.portability import conversations
from butlers.sessions import pauses, privacy
from butlers.sessions.ignore_file import NAME, read_rules
from butlers.sessions.privacy import PrivacyRules, check_call, find_rules
from butlers.sessions.private_turns import redact
from butlers.sessions.transcripts import parse

pytestmark = pytest.mark.contract("L53")
Line = Callable[[str, str], str]


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("a <private>b</private> c", "a  c"),
        ("a <private>b <private>c</private> d</private> e", "a  e"),
        ("a <Private>b</ PRIVATE > c", "a  c"),
        ("a <private> b", "a"),
        ("<private>a</private>", ""),
        ("add the `<private>` tag", "add the `<private>` tag"),
        ("a </private> b", "a </private> b"),
        ("std::vector<privateKey> x", "std::vector<privateKey> x"),
    ],
)
def test_what_is_between_tags_is_private(text: str, public: str) -> None:
    assert without_private(text) == public


def claude(role: str, text: str) -> str:
    return json.dumps({"type": role, "message": {"role": role, "content": text}})


def codex(role: str, text: str) -> str:
    message = {"type": "message", "role": role, "content": [{"type": "text", "text": text}]}
    return json.dumps({"type": "response_item", "payload": message})


def public_words(line: Line, *turns: str, rules: PrivacyRules = privacy.ANY_SESSION) -> list[str]:
    """The public words of turns, each answered with its number."""
    lines = [
        each
        for number, turn in enumerate(turns)
        for each in (line("user", turn), line("assistant", f"answer {number}"))
    ]
    return [said.text for said in parse(redact(lambda: lines, rules)).said]


@pytest.mark.parametrize("line", [claude, codex])
def test_a_private_turn_takes_its_answer_along(line: Line) -> None:
    told = public_words(line, "one", "two <private>x</private>", "three")
    assert told == ["one", "answer 0", "two", "three", "answer 2"]
    told = public_words(line, "one", "Don't remember this: two.", "three")
    assert told == ["one", "answer 0", "three", "answer 2"]
    assert public_words(line, "one", "Don't remember that.", "three") == ["three", "answer 2"]
    told = public_words(line, "one", "Off the record.", "two", "Back on the record.", "three")
    assert told == ["one", "answer 0", "Back on the record.", "answer 3", "three", "answer 4"]
    assert public_words(line, "one", "Please don't save this conversation.", "two") == []


def test_what_a_program_writes_in_between_does_not_end_a_private_turn() -> None:
    meta = {"type": "user", "isMeta": True, "message": {"content": "Caveat"}}
    summary = {"type": "user", "isCompactSummary": True, "message": {"content": "so far: x"}}
    lines = [
        claude("user", "hello <private>x"),
        *map(json.dumps, (meta, summary)),
        claude("user", "[Request interrupted by user]"),
        claude("assistant", "still private"),
        claude("user", "public"),
    ]
    assert [said.text for said in parse(lines).said] == ["hello", "public"]
    reminder = "<system-reminder>Be brief.</system-reminder>\n"
    command = "<command-name>/mail</command-name><command-args>{}</command-args>"
    for text in (f"{reminder}<private>x", command.format("<private>x</private>")):
        lines = [claude("user", "one"), claude("user", text), claude("assistant", "private")]
        assert [said.text for said in parse(lines).said] == ["one"]
    lines = [claude("user", "one"), claude("user", command.format("Don't remember this: x.")),
             claude("assistant", "private")]  # fmt: skip
    assert [said.text for said in parse(lines).said] == ["one"]
    queued = {"attachment": {"type": "queued_command", "prompt": "<private>x</private>"}}
    lines = [claude("user", "one"), json.dumps(queued), claude("assistant", "private")]
    assert [said.text for said in parse(lines).said] == ["one"]


def test_turns_in_a_private_time_are_left_out_by_their_instant() -> None:
    now = datetime(2026, 11, 18, 12, tzinfo=UTC)
    window = (now.timestamp(), (now + timedelta(hours=1)).timestamp())

    def at(minutes: int, role: str, text: str) -> str:
        instant = (now + timedelta(minutes=minutes)).isoformat()
        return json.dumps({"timestamp": instant, **json.loads(claude(role, text))})

    lines = [at(-1, "user", "before"), at(1, "assistant", "in it"), at(2, "user", "in it"),
             at(61, "assistant", "answer to it"), at(62, "user", "after")]  # fmt: skip
    rules = PrivacyRules(windows=(window,))
    assert [said.text for said in parse(redact(lambda: lines, rules)).said] == ["before", "after"]


def test_an_ignore_file_covers_folders_files_and_patterns(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(
        "# ours\nsecrets/**\n*.env\n~/clients/acme/\nid_rsa\npattern: fox-\\d+\n"
        "pattern: (a+)+$\npattern: [\n!no\npattern: a*b*c*d\npattern: (?=a)\n"
    )
    rules = read_rules(str(tmp_path))
    assert rules is not None
    assert [problem.partition("line ")[2][:2] for problem in rules.problems] == [
        *("7:", "8:", "9:", "10", "11")
    ]
    here = str(tmp_path)
    named = ["open secrets/key", f"cat {here}/secrets/a/b", "x/prod.env?", "cp id_rsa .", "FOX-9",
             "ls ~/clients/acme/web"]  # fmt: skip
    assert [rules.matches(text, here) for text in named] == [True] * len(named)
    others = ["the secrets are out", "environment", "fox", "src/acme/x.py", "id_rsa_test"]
    assert [rules.matches(text, here) for text in others] == [False] * len(others)
    assert rules.covers(f"{here}/secrets/x") and not rules.covers(here)
    assert rules.covers(str(Path("~/clients/acme/web").expanduser()))


def test_patterns_take_time_in_proportion_to_the_text(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("pattern: a.*b.*c\n*a*b*c*d*\n")
    rules = read_rules(str(tmp_path))
    assert rules is not None
    started = time.process_time()
    assert not rules.matches("ab" * 10_000, str(tmp_path))
    assert not rules.matches("a/b/" * 10_000, str(tmp_path))
    assert time.process_time() - started < 5


def test_a_turn_with_an_ignored_file_in_a_call_is_private(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("secrets/\n")
    call = {"type": "tool_use", "name": "Read", "input": {"path": f"{tmp_path}/secrets/a"}}
    called = json.dumps({"type": "assistant", "message": {"content": [call]}})
    lines = [claude("user", "look"), called, claude("assistant", "x"), claude("user", "next")]
    rules = find_rules(str(tmp_path / "home"), "s", str(tmp_path), None)
    assert [said.text for said in parse(redact(lambda: lines, rules)).said] == ["next"]


def test_pauses_cover_a_home_or_a_project_and_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, shop = str(tmp_path), {"keys": ["repository:1"], "name": "shop"}
    pauses.add_pause(home, shop, None)
    assert pauses.current_pause(home, ["repository:1"]) and not pauses.current_pause(home, [])
    assert pauses.end_pauses(home, None) == 1
    pauses.add_pause(home, None, datetime.now(UTC).timestamp() + 60)
    assert pauses.current_pause(home, ["other"]) and pauses.current_pause(home, [])
    monkeypatch.setattr(pauses, "MAX_PAUSES", 3)
    first = pauses.read_pauses(home)[0]["since"]
    for _ in range(10):
        pauses.add_pause(home, None, None)
    listed = pauses.read_pauses(home)
    assert len(listed) == 3 and listed[0]["since"] == first
    (tmp_path / pauses.FILE).write_text("{damaged")
    assert pauses.current_pause(home, [])
    with pytest.raises(Conflict, match="butlers resume"):
        check_call(home, None, {"content": "x"})


def test_a_duration_is_checked() -> None:
    assert [duration_seconds(text) for text in ("90m", "2h", "1h30m", "1d")] == [
        *(5_400, 7_200, 5_400, 86_400)
    ]
    for text in ("", "soon", "2", "-1h", "0m", "2 h", "1y"):
        with pytest.raises(InvalidInput, match="--for: found"):
            duration_seconds(text)


def test_hooks_of_other_programs_are_answered_without_what_is_private(tmp_path: Path) -> None:
    def prompted(text: str) -> str | None:
        event = public_event(str(tmp_path), Prompted(session_id="s", prompt=text))
        return event.prompt if event else None

    assert prompted("oil it <private>x</private>") == "oil it"
    assert prompted("Don't remember this: x.") is None
    assert prompted("Let's go off the record.") is None
    assert prompted("more") is None
    assert prompted("Back on the record, oil it.") == "Back on the record, oil it."
    assert prompted("more") == "more"
    lines = "\n".join((claude("user", "a <private>x"), claude("assistant", "b")))
    ended = public_event(str(tmp_path), Ended(session_id="s", transcript=lines))
    assert ended is not None and [said.text for said in parse(ended.transcript).said] == ["a"]
    (tmp_path / NAME).write_text("*\n")
    shop = HookProject(keys=["repository:1"], name="shop", place="/x/shop")
    assert public_event(str(tmp_path), Started(session_id="s", cwd="/x", project=shop)) is None


def test_an_imported_conversation_is_read_without_what_is_private() -> None:
    said = ["hello", "Please don't remember this: x.", "bye <private>y</private>"]
    messages = [
        {"sender": sender, "text": text, "created_at": f"2026-01-01T00:00:0{number}Z"}
        for number, text in enumerate(said)
        for sender, text in (("human", text), ("assistant", f"answer {number}"))
    ]
    read = conversations.read("claude", {"uuid": "1", "name": "t", "chat_messages": messages})
    assert [each.text for each in read.said.said] == ["hello", "answer 0", "bye"]


def test_a_tool_stores_what_is_left_of_a_text() -> None:
    store, given = OPERATIONS["store_rule"], {"content": "wash up <private>x</private>"}
    assert store.parse(given).model_dump()["content"] == "wash up"
    with pytest.raises(InvalidInput, match="marked as private"):
        store.parse({"content": "<private>x</private>"})
    words = {each.name for each in OPERATIONS if each.stores_text}
    assert words == {"store_episode", "store_fact", "store_rule", "correct", "store_batch",
                     "create_entity", "update_entity"}  # fmt: skip
    batch: dict[str, Any] = {"memories": [{"kind": "rule", "content": "a <private>b</private>"}]}
    assert "b</" not in str(OPERATIONS["store_batch"].parse(batch))
