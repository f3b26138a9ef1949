"""The real Codex command line, end to end, against a stand-in for its API."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from butlers.llm import LanguageModel, Usage
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
)
from llm.standins import Call, Fail, OpenAi, Say

pytestmark = pytest.mark.slow


async def test_codex_answers_with_the_schema_in_strict_mode(
    codex: LanguageModel, openai: OpenAi, home: Path
):
    openai.steps = [Say(json.dumps(GOOD))]
    completion = await asked(codex, SCHEMA)
    assert json.loads(completion.text) == GOOD
    assert completion.usage == Usage(10, 5, None)
    (request,) = openai.requests
    form = request["text"]["format"]
    assert form["type"] == "json_schema" and form["strict"] is True
    assert form["schema"] == SCHEMA
    said = [part["text"] for item in request["input"] for part in item.get("content", [])]
    assert [text.strip() for text in said] == [SYSTEM, PROMPT.strip()]
    assert openai.headers[0]["authorization"] == f"Bearer {KEY}"
    assert openai.others == [] and is_untouched(home)
    assert {path.name for path in (home / ".codex").iterdir()} == {"AGENTS.md", "config.toml"}


def offered(request: dict[str, Any]) -> set[str]:
    """The names of all tools in a request, those that are only described to others among them."""
    lists = [request.get("tools", []), *(item.get("tools", []) for item in request["input"])]
    names: set[str] = set()
    while lists:
        for tool in lists.pop():
            lists.append(tool.get("tools", []))
            names |= set(re.findall(r"^### `(\w+)`", tool.get("description", ""), re.MULTILINE))
            names |= {tool["name"]} if tool["type"] != "namespace" else set()
    return names


async def test_codex_offers_its_model_no_shell_and_no_way_out(codex: LanguageModel, openai: OpenAi):
    await asked(codex)
    # What is left cannot be switched off: a script host that is off, a patch tool in a sandbox
    # that allows no writing, resources of servers of which there are none, and a clock.
    remains = {"exec", "wait", "apply_patch", "clock__curr_time", "request_user_input_async"}
    assert {name for name in offered(openai.requests[0]) if "mcp_resource" not in name} <= remains


async def test_a_hostile_model_behind_codex_changes_nothing(
    codex: LanguageModel, openai: OpenAi, home: Path
):
    (home / "secret").write_text("the-secret-of-the-house")
    pwn = f"cat {home}/secret; touch {home}/pwned"
    patch = f"*** Begin Patch\n*** Add File: {home}/pwned\n+x\n*** End Patch"
    openai.steps = [
        Call("exec_command", {"cmd": pwn}),
        Call("shell", {"command": ["sh", "-c", pwn]}),
        Call("exec", f'text(await tools.exec_command({{cmd: "{pwn}"}}))'),
        Call("exec", f"await tools.apply_patch({json.dumps(patch)})"),
        Call("apply_patch", patch),
        Say(json.dumps(GOOD)),
    ]
    assert json.loads((await asked(codex, SCHEMA)).text) == GOOD
    assert len(openai.requests) == 6
    assert is_untouched(home)
    assert "the-secret-of-the-house" not in json.dumps(openai.requests)


async def test_codex_with_a_login_in_place_of_a_key_uses_its_own_home(
    programs: Path, openai: OpenAi, home: Path
):
    (home / ".codex" / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": KEY}))
    assert (await asked(model_of(programs, "codex"))).text == "hello"
    assert openai.headers[0]["authorization"] == f"Bearer {KEY}"
    assert not {"exec_command", "shell", "spawn_agent"} & offered(openai.requests[0])
    assert is_untouched(home)
    assert not list((home / ".codex").rglob("*.jsonl"))


async def test_an_answer_of_codex_that_does_not_fit_is_handed_on_to_be_judged(
    codex: LanguageModel, openai: OpenAi
):
    openai.steps = [Say('{"facts": "none", "extra": null}')]
    assert json.loads((await asked(codex, SCHEMA)).text) == {"facts": "none", "extra": None}


@pytest.mark.parametrize(
    ("step", "reason"),
    [(Say(""), "empty answer"), (Fail(400, "this model\nwas retired"), "was retired")],
    ids=["nothing", "refused"],
)
async def test_codex_without_an_answer_says_why(
    codex: LanguageModel, openai: OpenAi, step: Any, reason: str
):
    openai.steps = [step]
    assert reason in await failure(codex)
