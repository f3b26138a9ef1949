"""Completions from the Claude Code command line."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from butlers.llm.completion import Completion, CompletionFailed, Usage, completion_of, failure
from butlers.llm.envelopes import amount, json_text, mapping, parse_object, text_of, total
from butlers.llm.process import ProgramResult
from butlers.llm.program import RUNTIMES, TOKEN_VARIABLE, TOOLS, AgentRuntime, Request, variables_of
from butlers.llm.redaction import Redaction

KEY_VARIABLE = "ANTHROPIC_API_KEY"

_CALL = RUNTIMES["claude"]
_UNSTRUCTURED = "error_max_structured_output_retries"


class ClaudeRuntime(AgentRuntime):
    """Runs `claude -p` without hooks, settings, a stored session, or tools but those given."""

    name = "claude"

    def _environment(self, request: Request) -> dict[str, str]:
        environment: dict[str, str] = request.environment(_CALL["names"], "ANTHROPIC_")
        environment |= _CALL["quiet"]
        if self._options.tools is not None:
            environment |= _CALL["safe_with_tools"]
            environment |= variables_of(self._options.tools, environment)
        key, name = self._options.api_key(), self._options.api_key_env
        if key:
            own = name in _CALL["names"] or name.startswith("ANTHROPIC_")
            environment[name if own else KEY_VARIABLE] = key
        return environment

    def _argv(self, request: Request, environment: Mapping[str, str]) -> Sequence[str]:
        argv = [self._program, *_CALL["flags"], "--system-prompt-file", str(request.write_system())]
        # The barest mode knows no login, only a key.
        if environment.get(KEY_VARIABLE):
            argv.append("--bare")
        elif self._options.tools is None:
            argv.append("--safe-mode")
        if self._options.tools is not None:
            headers = {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}
            server = {"type": "http", "url": self._options.tools.url, "headers": headers}
            file = request.write("mcp.json", json.dumps({"mcpServers": {TOOLS: server}}))
            argv += ["--mcp-config", str(file), "--allowedTools", f"mcp__{TOOLS}"]
        if self._options.model:
            argv += ["--model", self._options.model]
        if request.schema is not None:
            argv += ["--json-schema", json_text(request.schema)]
        return argv

    def _completion(
        self, request: Request, result: ProgramResult, redaction: Redaction
    ) -> Completion:
        """Read the answer of the only turn."""
        envelope = parse_object(result.stdout.decode("utf-8", "replace"))
        if envelope is None and result.exit_code != 0:
            reason = result.complaint
            raise failure(reason, f"claude {result.ending}: {redaction.line(reason)}")
        if envelope is None:
            raise CompletionFailed(
                "claude did not write the JSON expected of it; is it a current Claude Code?"
            )
        usage = _usage(envelope)
        if envelope.get("subtype") == _UNSTRUCTURED:
            raise CompletionFailed("claude gave no answer that fits the schema", usage)
        if result.exit_code != 0 or envelope.get("is_error") is not False:
            reason = text_of(envelope.get("result")) or text_of(envelope.get("subtype"))
            shown = redaction.line(reason) or result.ending
            raise failure(reason, f"claude failed: {shown}", usage)
        return completion_of("claude", _answer(envelope), usage, _model(envelope))


def _model(envelope: Mapping[str, Any]) -> str:
    """Return the model that wrote most of the answer."""
    used = mapping(envelope.get("modelUsage"))
    written = {name: total(mapping(usage).get("outputTokens")) or 0 for name, usage in used.items()}
    return max(written, key=lambda name: written[name], default="")


def _answer(envelope: Mapping[str, Any]) -> str:
    structured = envelope.get("structured_output")
    if structured is None:
        return text_of(envelope.get("result"))
    try:
        return json_text(structured)
    except ValueError:
        return ""


def _usage(envelope: Mapping[str, Any]) -> Usage:
    usage = mapping(envelope.get("usage"))
    read = total(
        usage.get("input_tokens"),
        usage.get("cache_creation_input_tokens"),
        usage.get("cache_read_input_tokens"),
    )
    return Usage(read, total(usage.get("output_tokens")), amount(envelope.get("total_cost_usd")))
