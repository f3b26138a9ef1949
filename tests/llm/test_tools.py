"""A session with tools: the real command lines, given one MCP server and nothing else."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from butlers.llm import LanguageModel, ToolServer, ToolUser, program
from llm.conversations import SYSTEM, asked, is_untouched, model_of
from llm.loopback import serving
from llm.standins import Anthropic, Call, OpenAi, Say

pytestmark = pytest.mark.slow

TOKEN = "btl_0123456789abcdef0123456789abcdef"


class Shelf:
    """An MCP server with one tool, and what was put on it with which authorization."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.shown: set[str | None] = set()

    def keep(self, thing: str) -> str:
        """Keep a thing."""
        self.kept.append(thing)
        return f"{thing} is kept"

    def app(self) -> ASGIApp:
        server: MCPServer[Any] = MCPServer("shelf")
        server.tool()(self.keep)
        inner = server.streamable_http_app(streamable_http_path="/mcp")

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                self.shown.add(Request(scope).headers.get("authorization"))
                if self.shown != {f"Bearer {TOKEN}"}:
                    await Response(status_code=401)(scope, receive, send)
                    return
            await inner(scope, receive, send)

        return guarded


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@contextmanager
def given(model: LanguageModel, shelf: Shelf) -> Iterator[LanguageModel]:
    """The model with the shelf at hand."""
    assert isinstance(model, ToolUser)
    with serving(shelf.app(), lifespan="on") as address:
        yield model.using(ToolServer(f"{address}/mcp", TOKEN))


def login(monkeypatch: pytest.MonkeyPatch, programs: Path) -> LanguageModel:
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-test")
    return model_of(programs, "claude")


@pytest.mark.parametrize("how", ["key", "login"])
async def test_claude_uses_the_tools_it_is_given_and_no_others(
    how: str,
    programs: Path,
    claude: LanguageModel,
    anthropic: Anthropic,
    home: Path,
    shelf: Shelf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "example.org")
    model = claude if how == "key" else login(monkeypatch, programs)
    anthropic.steps = [
        Call("mcp__butlers__keep", {"thing": "the saddle"}),
        Call("Bash", {"command": f"touch {home}/pwned"}),
        Call("Read", {"file_path": f"{home}/.claude/CLAUDE.md"}),
        Say("It is on the shelf."),
    ]
    with given(model, shelf) as one:
        completion = await asked(one)
    assert completion.text == "It is on the shelf."
    assert completion.model.startswith("claude-")
    assert shelf.kept == ["the saddle"]
    first, last = anthropic.requests[0], json.dumps(anthropic.requests[-1])
    assert [tool["name"] for tool in first["tools"]] == ["mcp__butlers__keep"]
    assert SYSTEM in json.dumps(first["system"])
    assert last.count("No such tool available") == 2
    assert "Customised" not in last and TOKEN not in last
    assert is_untouched(home)


async def test_codex_uses_the_tools_it_is_given_and_no_others(
    codex: LanguageModel, openai: OpenAi, home: Path, shelf: Shelf
) -> None:
    (home / "secret").write_text("the-secret-of-the-house")
    pwn = f"cat {home}/secret; touch {home}/pwned"
    patch = f"*** Begin Patch\n*** Add File: {home}/pwned\n+x\n*** End Patch"
    openai.steps = [
        Call("exec", 'text(await tools.mcp__butlers__keep({thing: "the saddle"}))'),
        Call("exec", "text(Object.keys(tools).join(' '))"),
        Call("exec", f'text(await tools.exec_command({{cmd: "{pwn}"}}))'),
        Call("exec", f"await tools.apply_patch({json.dumps(patch)})"),
        Call("exec", f'text(await import("file://{home}/secret"))'),
        Call("exec", 'text(await fetch("http://127.0.0.1:9/"))'),
        Call("shell", {"command": ["sh", "-c", pwn]}),
        Say("It is on the shelf."),
    ]
    with given(codex, shelf) as one:
        completion = await asked(one)
    assert completion.text == "It is on the shelf."
    assert shelf.kept == ["the saddle"]
    said = json.dumps(openai.requests[-1])
    assert "the-secret-of-the-house" not in said and TOKEN not in said
    assert len(openai.requests) == 8
    assert is_untouched(home)
    # What a script can call: the patch tool is refused by the sandbox, the other is a clock.
    listed = openai.requests[2]["input"][-1]["output"][-1]["text"].split()
    usable = {name for name in listed if "mcp_resource" not in name}
    assert usable == {"mcp__butlers__keep", "apply_patch", "clock__curr_time"}
    first = json.dumps(openai.requests[0]["input"])
    assert SYSTEM in first and "tools.mcp__butlers__NAME" in first


async def test_a_model_that_was_given_no_tools_has_none(
    claude: LanguageModel, anthropic: Anthropic, shelf: Shelf
) -> None:
    with given(claude, shelf):
        await asked(claude)
    assert not anthropic.requests[0].get("tools")
    assert shelf.shown == set()


@pytest.mark.parametrize("kind", ["claude", "codex"])
async def test_the_token_is_in_no_command_line(
    kind: str, request: pytest.FixtureRequest, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    async def watched(invocation: Any) -> Any:
        seen.append([*invocation.argv, *map(str, invocation.directory.parent.rglob("*"))])
        files = (one for one in invocation.directory.parent.rglob("*") if one.is_file())
        seen.append([one.read_text() for one in files])
        return await unwatched(invocation)

    unwatched = program.run
    monkeypatch.setattr(program, "run", watched)
    api = request.getfixturevalue("anthropic" if kind == "claude" else "openai")
    api.steps = [Say("hello")]
    with given(request.getfixturevalue(kind), shelf) as one:
        await asked(one)
    assert seen and TOKEN not in str(seen)
