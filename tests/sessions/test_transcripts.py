"""What is read of a session, and kept: what was said and came of it, never what memory said."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.sessions import essence
from butlers.sessions.echo import Echo
from butlers.sessions.transcripts import (
    Speaker,
    Transcript,
    Utterance,
    instant_of,
    own_words,
    parse,
)

FACT = "the green tandem in bay seven belongs to Mrs. Okonkwo"
BLOCK = f"# Memory Context\n## Key Facts\n- [workshop] [tandem]: {FACT} (confidence: 1.00)\n"


class Claude:
    """Lines as Claude Code writes them."""

    tool = "mcp__butlers-general__memory_recall"

    @staticmethod
    def message(role: str, content: Any, at: str = "", **marks: Any) -> str:
        message = {"role": role, "content": content}
        return json.dumps({"type": role, "message": message, "timestamp": at, **marks})

    user = staticmethod(lambda text, at="": Claude.message("user", text, at))

    @staticmethod
    def agent(text: str, at: str = "") -> str:
        return Claude.message("assistant", [{"type": "text", "text": text}], at)

    @staticmethod
    def injected(text: str) -> str:
        attachment = {"type": "hook_additional_context", "content": [text]}
        return json.dumps({"type": "attachment", "attachment": attachment})

    @staticmethod
    def recalled(answer: str) -> str:
        call = {"type": "tool_use", "id": "toolu_1", "name": Claude.tool, "input": {}}
        result = [{"type": "text", "text": answer}]
        answered = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result}
        lines = [Claude.message("assistant", [call]), Claude.message("user", [answered])]
        return "\n".join(lines)


class Codex:
    """Lines as Codex writes them."""

    @staticmethod
    def item(payload: dict[str, Any], at: str = "") -> str:
        return json.dumps({"timestamp": at, "type": "response_item", "payload": payload})

    @staticmethod
    def message(role: str, text: str, at: str = "") -> str:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text}]
        return Codex.item({"type": "message", "role": role, "content": content}, at)

    user = staticmethod(lambda text, at="": Codex.message("user", text, at))
    agent = staticmethod(lambda text, at="": Codex.message("assistant", text, at))
    injected = staticmethod(lambda text: Codex.message("developer", text))

    @staticmethod
    def recalled(answer: str) -> str:
        call = {"type": "function_call", "call_id": "call_1", "name": "memory_recall"}
        output = {"type": "function_call_output", "call_id": "call_1", "output": answer}
        return "\n".join([Codex.item(call), Codex.item(output)])


Program = type[Claude] | type[Codex]
both = pytest.mark.parametrize("program", [Claude, Codex])


def remembered(*lines: str) -> str:
    return "\n".join(part.text for part in essence.of_transcript(parse("\n".join(lines))))


@both
def test_the_essence_is_corrections_requests_and_outcome(program: Program) -> None:
    told = remembered(
        program.user("Paint the bike red."),
        program.agent("I painted it red."),
        program.user("No, the frame only."),
        program.agent("Thinking of it…"),
        program.user("And add a bell."),
        program.agent("The frame is red and there is a bell."),
    )
    assert told.splitlines() == [
        "Correction: No, the frame only.",
        "Request: Paint the bike red.",
        "Then: And add a bell.",
        "Outcome: The frame is red and there is a bell.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("no, use tabs", "No. Tabs.", "Actually, make it blue", "don't touch the tests"),
        *("That's not what I meant", "wrong file", "please don't", "I said tabs", "stop"),
        *("you forgot the bell", "Undo that", "not like that", "Wait, which one?"),
    ],
)
def test_a_correction_is_recognised(text: str) -> None:
    assert f"Correction: {text}" in remembered(
        Claude.user("x"), Claude.user(text), Claude.agent("done")
    )


@pytest.mark.parametrize("text", ["now the bell", "Note the time", "no problem, go on", "yes"])
def test_other_requests_are_no_corrections(text: str) -> None:
    assert f"Then: {text}" in remembered(Claude.user("x"), Claude.user(text), Claude.agent("done"))


@both
@pytest.mark.parametrize("way", ["injected", "recalled"])
def test_what_memory_said_is_not_said_again(program: Program, way: str) -> None:
    told = remembered(
        getattr(program, way)(BLOCK),
        program.user("Whose tandem is it?"),
        program.agent(f"As you know, {FACT.upper()}! I oiled its chain."),
    )
    assert "okonkwo" not in told.lower()
    assert told.endswith("Outcome: [recalled] I oiled its chain.")


@both
def test_what_a_tool_answered_as_json_is_known_too(program: Program) -> None:
    answer = json.dumps({"result": [{"subject": "workshop", "content": FACT, "importance": 5}]})
    told = remembered(
        program.recalled(answer), program.user("Whose?"), program.agent(f"It is known: {FACT}.")
    )
    assert told.endswith("Outcome: answered from memory")


@pytest.mark.parametrize("wrapped", ["quoted", "noted", "cut"])
def test_an_answer_is_known_however_a_program_wraps_it(wrapped: str) -> None:
    answer = json.dumps({"result": [{"subject": "workshop", "content": FACT}]})
    forms = {
        "quoted": json.dumps({"content": [{"type": "text", "text": answer}], "isError": False}),
        "noted": f"Script completed\nOutput:\n{answer}\n",
        "cut": f"Output:\n{answer[:-4]}",
    }
    assert Echo([forms[wrapped], "{", "[broken]", "{}"]).without(f"So {FACT}.") == "[recalled]"


def test_a_tool_is_known_by_every_name_it_goes_by() -> None:
    for call in (
        {"name": "exec", "input": "text(await tools.mcp__butlers_general__memory_search({}))"},
        {"namespace": "mcp__butlers_general", "name": "notes_read"},
        {"name": "mcp__butlers-general__memory_get"},
    ):
        lines = [
            Codex.item({"type": "custom_tool_call", "call_id": "c", **call}),
            Codex.item({"type": "custom_tool_call_output", "call_id": "c", "output": BLOCK}),
        ]
        assert parse("\n".join(lines)).recalled == [BLOCK]


def test_a_short_memory_is_known_by_what_it_is_about() -> None:
    echo = Echo(["# Memory Context\n## Key Facts\n- [Ann] [allergy]: peanuts (confidence: 0.90)"])
    assert echo.without("Ann must not eat peanuts. Bob may eat peanuts.") == (
        "[recalled] Bob may eat peanuts."
    )


def test_rules_and_episodes_are_known_as_well() -> None:
    echo = Echo(
        [
            "## Active Rules\n- Ask before booking anything costly "
            "(maturity: proven, effectiveness: 0.91)\n"
            "## Recent Episodes\n- 2026-01-09: Request: order new saddles for the shop…"
        ]
    )
    assert echo.without("Ask before booking anything costly!") == "[recalled]"
    assert echo.without("You said: order new saddles for the shop.") == "[recalled]"
    assert echo.without("We ordered pedals.") == "We ordered pedals."


@given(st.text(max_size=300))
def test_without_memories_nothing_is_taken_out(text: str) -> None:
    assert Echo([]).without(text) == text.strip()


def test_words_that_the_programs_put_in_are_not_the_users() -> None:
    for text in (
        "<system-reminder>\nbe brief\n</system-reminder>",
        "<command-name>/clear</command-name>",
        "<local-command-stdout>x</local-command-stdout>",
        "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>",
        "[Request interrupted by user]",
        BLOCK,
        "- [Ann] [allergy]: peanuts (confidence: 0.90)",
        "- Ask before booking (maturity: proven, effectiveness: 0.91)\n",
    ):
        assert own_words(text) == "", text
    assert own_words(f"{BLOCK}\nFix it.\n<system-reminder>x") == "Fix it."
    assert own_words("Fix <b>this</b>.") == "Fix <b>this</b>."


def test_helpers_summaries_and_failures_are_no_conversation() -> None:
    said = parse(
        "\n".join(
            [
                Claude.user("Fix it."),
                Claude.message("user", "a helper's task", isSidechain=True),
                Claude.message("user", "This session is being continued", isCompactSummary=True),
                Claude.message("user", "a note", isMeta=True),
                Claude.message("assistant", "API Error: 500", isApiErrorMessage=True),
            ]
        )
    ).said
    assert [one.text for one in said] == ["Fix it."]


@both
def test_a_session_without_an_answer_is_not_kept_as_if_it_had_one(program: Program) -> None:
    assert remembered(program.user("Fix it.")) == "Request: Fix it."
    assert essence.of_transcript(parse(program.agent("Hello!"))) == []
    assert essence.of_transcript(parse("")) == []
    assert essence.of_exchange("Fix it.", "", []) is None


@both
def test_damaged_and_strange_lines_are_passed_over(program: Program) -> None:
    strange = [
        '{"type": "user"',
        "null",
        "[1]",
        '{"type": "user", "message": 7}',
        "\x00",
        "[" * 9999,
    ]
    strange += ['{"payload": {}}', '{"payload": {"type": "message", "role": "user"}}']
    strange += ['{"type": "user", "message": {"content": {"text": 3}}}']
    told = remembered(*strange, program.user("Fix it."), program.agent("Fixed."))
    assert told == "Request: Fix it.\nOutcome: Fixed."


def test_secrets_are_masked_before_a_text_is_cut() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 2_000
    found = essence.of_exchange(f"{'w ' * 900}{key}", "The password is hunter22.", [])
    assert found is not None
    assert "QUJD" not in found.text
    assert "hunter22" not in found.text
    assert found.secrets_masked == 2


RESUMED = [
    ("user", "Paint it.", "2026-01-10T12:00:00.000Z"),
    ("agent", "Painted.", "2026-01-10T12:00:09.000Z"),
    ("user", "Now sell it.", "2026-01-11T08:00:00.000Z"),
    ("agent", "Sold.", "2026-01-11T08:00:05.000Z"),
]


@both
@pytest.mark.parametrize("timed", [True, False])
def test_of_a_resumed_session_only_what_is_new_is_taken(program: Program, timed: bool) -> None:
    """With instants or without, or all at the same one."""
    lines = [getattr(program, who)(text, at if timed else "") for who, text, at in RESUMED]
    (first,) = essence.of_transcript(parse("\n".join(lines[:2])))
    said = parse("\n".join(lines))
    (later,) = essence.of_transcript(said.after(first.through))
    (whole,) = essence.of_transcript(said)
    assert later.text == "Request: Now sell it.\nOutcome: Sold."
    assert later.through == whole.through
    assert essence.of_transcript(said.after(later.through)) == []
    if timed:
        assert (later.asked_at, later.through) == (RESUMED[2][2], RESUMED[3][2])


@both
def test_what_an_agent_said_since_is_new_though_nobody_asked(program: Program) -> None:
    lines = [
        program.user("Paint it."),
        program.agent("I look for the paint."),
        program.agent("Done."),
    ]
    (first,) = essence.of_transcript(parse("\n".join(lines[:2])))
    said = parse("\n".join(lines))
    (later,) = essence.of_transcript(said.after(first.through))
    assert later.text == "Outcome: Done."
    assert essence.of_transcript(said.after(later.through)) == []


def test_turns_of_the_same_instant_or_an_earlier_one_stay_in_order() -> None:
    instants = ["2026-01-10T12:00:00Z", "2026-01-10T12:00:00Z", "2026-01-09T12:00:00Z", ""]
    said = parse("\n".join(Claude.user(f"step {at}", at) for at in instants)).said
    assert [one.at for one in said] == sorted({one.at for one in said})
    assert {instant_of(one.at) for one in said} == {"2026-01-10T12:00:00Z"}


@both
def test_a_file_is_read_line_by_line_the_middle_of_it_too(program: Program, tmp_path: Path) -> None:
    """Five megabytes, of which little is said; only a newline ends a line."""
    noise = program.recalled("x" * 50_000)
    lines = [
        line
        for number in range(100)
        for line in (program.user(f"Take step {number}.\u2028 Go."), noise, program.agent("Taken."))
    ]
    lines[150] = program.user("Remember that the attic key hangs in the barn.")
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(line.replace("\\u2028", "\u2028") for line in lines), "utf-8")
    assert file.stat().st_size > 5_000_000
    with file.open(encoding="utf-8", newline="\n") as opened:
        said = parse(opened)
    assert said == parse(file.read_text("utf-8"))
    told = "\n".join(part.text for part in essence.of_transcript(said))
    assert "Stated: Remember that the attic key hangs in the barn." in told
    assert "Take step 0. Go." in told and "Take step 99. Go." in told
    assert len(told) < file.stat().st_size / 100


@given(
    st.lists(st.tuples(st.sampled_from(list(Speaker)), st.text(max_size=3_000)), max_size=20),
    st.lists(st.text(max_size=300), max_size=3),
)
def test_no_session_is_too_strange(said: list[tuple[Speaker, str]], recalled: list[str]) -> None:
    parts = essence.of_transcript(Transcript([Utterance(*one) for one in said], recalled))
    assert all(len(part.text) <= essence.MAX_CHARACTERS for part in parts)
    assert parts or not any(speaker is Speaker.USER and text.strip() for speaker, text in said)
