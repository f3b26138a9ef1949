"""Completions from the Codex command line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from butlers.llm.completion import Completion, ToolServer, Usage, completion_of, failure
from butlers.llm.envelopes import count, json_text, mapping, parse_object, text_of
from butlers.llm.process import ProgramResult, read_answer
from butlers.llm.program import RUNTIMES, TOKEN_VARIABLE, TOOLS, AgentRuntime, Request, variables_of
from butlers.llm.redaction import Redaction

KEY_VARIABLE = "CODEX_API_KEY"

_ANSWER = "answer.txt"
_NAMES = ("CODEX_HOME", KEY_VARIABLE)
_CALL = RUNTIMES["codex"]
# Codex does not describe the tools of servers to the model.
_TOOL_HINT = (
    f"\n\nTools of the server `{TOOLS}` are called in a script: "
    f"`text(await tools.mcp__{TOOLS}__NAME({{...}}))`; `ALL_TOOLS` says which there are.\n"
)


class CodexRuntime(AgentRuntime):
    """Runs `codex exec` with its own tools off, in a read-only sandbox, no session stored."""

    name = "codex"

    def _environment(self, request: Request) -> dict[str, str]:
        environment = request.environment(_NAMES, "OPENAI_")
        environment |= variables_of(self._options.tools, environment)
        key = self._options.api_key()
        if key:
            environment[KEY_VARIABLE] = key
        if environment.get(KEY_VARIABLE):
            # With a key, nothing of the user's own home is needed.
            home = request.files / "home"
            home.mkdir()
            environment["CODEX_HOME"] = str(home)
        return environment

    def _argv(self, request: Request, environment: Mapping[str, str]) -> Sequence[str]:
        settings = _settings(request, environment, self._options.tools)
        argv = [self._program, *_CALL["flags"]]
        argv += [word for setting in settings for word in ("-c", setting)]
        if self._options.model:
            argv += ["--model", self._options.model]
        if request.schema is not None:
            schema_file = request.write("schema.json", json_text(request.schema))
            argv += ["--output-schema", str(schema_file)]
        return [*argv, "--output-last-message", str(request.files / _ANSWER), "-"]

    def _completion(
        self, request: Request, result: ProgramResult, redaction: Redaction
    ) -> Completion:
        """Read the last message of the session."""
        lines = result.stdout.decode("utf-8", "replace").split("\n")
        events = list(filter(None, map(parse_object, lines)))
        usage = _usage(events)
        if result.exit_code != 0:
            reason = _failure(events) or result.complaint
            message = f"codex {result.ending}: {redaction.line(reason)}"
            raise failure(reason, message, usage)
        text = read_answer("codex", request.files / _ANSWER, usage)
        return completion_of("codex", text, usage)


def _settings(
    request: Request, environment: Mapping[str, str], tools: ToolServer | None
) -> Iterator[str]:
    """Yield the settings, also for the server of tools and the script host that calls them."""
    yield from _CALL["settings"]
    yield from (f"features.{name}=false" for name in _CALL["features_off"])
    hint = "" if tools is None else _TOOL_HINT
    yield f"model_instructions_file={json.dumps(str(request.write_system(hint)))}"
    # The program itself no longer reads this variable.
    if url := environment.get("OPENAI_BASE_URL"):
        yield f"openai_base_url={json.dumps(url)}"
    if tools is not None:
        yield f"mcp_servers.{TOOLS}.url={json.dumps(tools.url)}"
        yield f"mcp_servers.{TOOLS}.bearer_token_env_var={json.dumps(TOKEN_VARIABLE)}"
        yield f'mcp_servers.{TOOLS}.default_tools_approval_mode="approve"'
        # Otherwise the first turn may end before the tools are there.
        yield f"mcp_servers.{TOOLS}.required=true"
        yield f"mcp_servers.{TOOLS}.startup_timeout_sec=30"
        yield "features.code_mode_host=true"


def _usage(events: Sequence[Mapping[str, Any]]) -> Usage:
    turns = [mapping(event.get("usage")) for event in events if event.get("usage")]
    if not turns:
        return Usage()
    return Usage(count(turns[-1].get("input_tokens")), count(turns[-1].get("output_tokens")))


def _failure(events: Sequence[Mapping[str, Any]]) -> str:
    for event in reversed(events):
        if event.get("type") == "turn.failed":
            return text_of(mapping(event.get("error")).get("message"))
        if event.get("type") == "error":
            return text_of(event.get("message"))
    return ""
