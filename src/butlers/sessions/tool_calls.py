"""Calls of an agent's tools, as the transcripts of Claude Code and Codex write them."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

_HEAD, _TAIL = 1_500, 4_500
"""Characters kept of a call's output: its beginning and its end."""
_COMMAND, _MOST_FILES = 2_000, 50
_EDITS = ("edit", "write", "multiedit", "notebookedit", "apply_patch", "create_file", "str_replace")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_SHELLS = re.compile(r"(?:/\S*/)?(?:ba|z|da)?sh")
_EXIT = re.compile(
    r"\A\s*(?:Error: )?(?:Exit code:?|Process exited with code) (-?\d+)"
    r"|\bexit[_ ]code\W{1,4}(-?\d+)",
    re.IGNORECASE,
)
# The user or the program stopped it, so that it says nothing about the command.
_NOT_RUN = re.compile(
    r"doesn't want to (?:proceed|take this action)|Request interrupted|<tool_use_error>"
    r"|requested permissions? to|aborted by user|was rejected by"
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: the command, or the files it edited, one a line; and what came of it."""

    name: str
    summary: str
    output: str = ""
    failed: bool = False
    at: str = ""

    @property
    def is_edit(self) -> bool:
        """Whether it changed files."""
        return self.name.casefold().startswith(_EDITS)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it changed."""
        return tuple(self.summary.split("\n")) if self.is_edit and self.summary else ()


def summary_of(given: object) -> str:
    """Return the command or the edited files of a call's input, "" if it has neither."""
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(given)
            if isinstance(parsed, dict):
                return summary_of(parsed)
        return "\n".join(_PATCHED.findall(given)[:_MOST_FILES]) or given[:_COMMAND]
    if not isinstance(given, Mapping):
        return ""
    path = next((str(given[key]) for key in ("file_path", "notebook_path") if given.get(key)), "")
    return path or next(_commands(given), "")[:_COMMAND]


def _commands(given: Mapping[str, Any]) -> Iterator[str]:
    for key in ("command", "cmd", "script", "patch", "input"):
        value = given.get(key)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            # ["bash", "-lc", "make test"] means what the shell is given.
            is_shell = len(value) > 2 and _SHELLS.fullmatch(value[0]) and value[1].startswith("-")
            value = value[-1] if is_shell else " ".join(value)
        if isinstance(value, str) and value:
            yield "\n".join(_PATCHED.findall(value)) or value


def with_result(call: ToolCall, output: str, failed: object) -> ToolCall:
    """Return a call with its output, shortened; it failed if the program or its exit code says."""
    text, code = _output_of(output)
    not_run = _NOT_RUN.search(output[:_HEAD]) is not None
    is_failed = (bool(failed) or code not in (None, 0)) and not not_run
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n…\n{text[-_TAIL:]}"
    return replace(call, output=text, failed=is_failed)


def _output_of(output: str) -> tuple[str, int | None]:
    """Return the text of an output and the exit code that it names."""
    if output.startswith("{"):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(output)
            code = (parsed.get("metadata") or {}).get("exit_code")
            return str(parsed.get("output") or ""), code if isinstance(code, int) else None
    found = _EXIT.search(output[:400])
    return output, int(found[1] or found[2]) if found else None
