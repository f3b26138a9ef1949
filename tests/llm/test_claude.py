"""The real Claude Code command line, end to end, against a stand-in for its API."""

import json
from pathlib import Path
from typing import Any

import pytest

from butlers.llm import LanguageModel
from llm.conversations import (
    GOOD,
    KEY,
    PROMPT,
    SCHEMA,
    SYSTEM,
    asked,
    failure,
    is_untouched,
    model_of,
    structured,
)
from llm.standins import Anthropic, Call, Fail, Say

pytestmark = pytest.mark.slow


async def test_claude_answers_with_the_schema_and_nothing_else_to_use(
    claude: LanguageModel, anthropic: Anthropic, home: Path
):
    anthropic.steps = [structured(GOOD)]
    completion = await asked(claude, SCHEMA)
    assert json.loads(completion.text) == GOOD
    assert (completion.usage.input_tokens, completion.usage.output_tokens) == (14, 12)
    assert completion.usage.cost_usd is not None and completion.usage.cost_usd > 0
    (request,) = anthropic.requests
    assert [tool["name"] for tool in request["tools"]] == ["StructuredOutput"]
    assert request["tools"][0]["input_schema"]["properties"] == SCHEMA["properties"]
    assert request["messages"][0]["content"][0]["text"].strip() == PROMPT.strip()
    assert SYSTEM in json.dumps(request["system"])
    assert anthropic.headers[0]["x-api-key"] == KEY
    assert "Customised" not in json.dumps(request)
    assert anthropic.others == [] and is_untouched(home)
    assert not list((home / ".claude").rglob("*.jsonl"))


async def test_claude_answers_a_plain_prompt_without_any_tool(
    claude: LanguageModel, anthropic: Anthropic
):
    anthropic.steps = [Say("She likes it black. 🐙")]
    assert (await asked(claude)).text == "She likes it black. 🐙"
    assert not anthropic.requests[0].get("tools")


async def test_claude_with_a_login_in_place_of_a_key_is_just_as_bare(
    programs: Path, anthropic: Anthropic, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-test")
    anthropic.steps = [structured(GOOD)]
    assert json.loads((await asked(model_of(programs, "claude"), SCHEMA)).text) == GOOD
    (request,) = anthropic.requests
    assert [tool["name"] for tool in request["tools"]] == ["StructuredOutput"]
    assert anthropic.headers[0]["authorization"] == "Bearer sk-ant-oat01-test"
    assert "Customised" not in json.dumps(request)
    assert is_untouched(home)


async def test_claude_without_login_or_key_says_so(programs: Path, anthropic: Anthropic):
    assert "Not logged in" in await failure(model_of(programs, "claude"))
    assert anthropic.requests == []


async def test_claude_refuses_answers_that_do_not_fit_the_schema(
    claude: LanguageModel, anthropic: Anthropic
):
    anthropic.steps = [structured({"facts": "none"})]
    assert "no answer that fits the schema" in await failure(claude, SCHEMA)


async def test_a_hostile_model_behind_claude_finds_no_tool_to_use(
    claude: LanguageModel, anthropic: Anthropic, home: Path
):
    anthropic.steps = [
        Call("Bash", {"command": f"touch {home}/pwned"}),
        Call("Write", {"file_path": f"{home}/pwned", "content": "x"}),
        structured(GOOD),
    ]
    assert json.loads((await asked(claude, SCHEMA)).text) == GOOD
    results = json.dumps(anthropic.requests[-1]["messages"])
    assert results.count("No such tool available") == 2
    assert is_untouched(home)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Say(""), "claude"),
        (Fail(400, "this model\nwas retired"), "was retired"),
        (Fail(401, "invalid x-api-key"), "claude failed"),
        (Fail(500, "out of order"), "claude failed"),
    ],
    ids=["nothing", "refused", "unauthorised", "broken"],
)
async def test_claude_without_an_answer_says_why(
    claude: LanguageModel, anthropic: Anthropic, step: Any, reason: str
):
    anthropic.steps = [step]
    assert reason in await failure(claude)
    assert len(anthropic.requests) <= 4
