"""What is kept of a session: requests, corrections, outcome; never what memory itself said."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.sessions import essence
from butlers.sessions.essence import Echo
from butlers.sessions.transcripts import Said, Speaker, Transcript, own_words, parse

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
    found = essence.of_transcript(parse("\n".join(lines)))
    assert found is not None
    return found.text


@both
def test_the_essence_is_request_correction_and_outcome(program: Program) -> None:
    told = remembered(
        program.user("Paint the bike red."),
        program.agent("I painted it red."),
        program.user("No, the frame only."),
        program.agent("Thinking of it…"),
        program.user("And add a bell."),
        program.agent("The frame is red and there is a bell."),
    )
    assert told.splitlines() == [
        "Request: Paint the bike red.",
        "Correction: No, the frame only.",
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
def test_a_session_without_an_answer_is_not_stored_as_if_it_had_one(program: Program) -> None:
    assert essence.of_transcript(parse(program.user("Fix it."))) is None
    assert essence.of_transcript(parse(program.agent("Hello!"))) is None
    assert essence.of_transcript(parse("")) is None


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


def test_a_long_session_stays_short_and_keeps_its_corrections() -> None:
    lines = [Claude.user("w" * 50_000), Claude.user("No, not blue.")]
    lines += [Claude.user(f"step {number} " + "x" * 5_000) for number in range(50)]
    told = remembered(*lines, Claude.agent("y" * 50_000))
    assert len(told) <= essence.MAX_CHARACTERS
    assert "Correction: No, not blue." in told
    assert "Then: step 49" in told
    assert "step 3 " not in told
    assert told.count("…") == 7


def test_secrets_are_masked_before_a_text_is_cut() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 2_000
    found = essence.of_exchange(f"{'w ' * 900}{key}", "The password is hunter22.", [])
    assert found is not None
    assert "QUJD" not in found.text
    assert "hunter22" not in found.text
    assert found.secrets_masked == 2


@both
def test_of_a_resumed_session_only_what_is_new_is_taken(program: Program) -> None:
    said = parse(
        "\n".join(
            [
                program.user("Paint it.", "2026-01-10T12:00:00.000Z"),
                program.agent("Painted.", "2026-01-10T12:00:09.000Z"),
                program.user("Now sell it.", "2026-01-11T08:00:00.000Z"),
                program.agent("Sold.", "2026-01-11T08:00:05.000Z"),
            ]
        )
    )
    whole = essence.of_transcript(said)
    later = essence.of_transcript(said.after("2026-01-10T12:00:00.000Z"))
    assert whole is not None and later is not None
    assert later.text == "Request: Now sell it.\nOutcome: Sold."
    assert later.through == whole.through == "2026-01-11T08:00:00.000Z"
    assert essence.of_transcript(said.after(later.through)) is None


@given(
    st.lists(st.tuples(st.sampled_from(list(Speaker)), st.text(max_size=3_000)), max_size=20),
    st.lists(st.text(max_size=300), max_size=3),
)
def test_no_session_is_too_strange(said: list[tuple[Speaker, str]], recalled: list[str]) -> None:
    found = essence.of_transcript(Transcript([Said(*one) for one in said], recalled))
    assert found is None or len(found.text) <= essence.MAX_CHARACTERS
