"""Read the tool calls that agents report to hooks, and tell which ones something is known about.

The daemon sends a digest: hashes of the commands, files and errors that memories name. With it the
hook sees by itself that nothing is known, and asks nobody. Hooks run this, so it imports little.
"""

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from butlers.sessions.command_names import keys_of_call, programs
from butlers.sessions.error_signature import error_signature

AFTER = ("PostToolUse", "PostToolUseFailure")
TOOL_EVENTS = ("PreToolUse", *AFTER)
_MAX_OUTPUT, _MAX_FILES = 20_000, 50
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_SHELLS = (["bash", "-lc"], ["bash", "-c"], ["sh", "-c"], ["zsh", "-lc"])


class AgentCall(NamedTuple):
    """A tool call of an agent: the command or the files, and the error it ended with."""

    command: str = ""
    files: tuple[str, ...] = ()
    error: str = ""
    """The signature of the error; empty before the call, or if it succeeded."""


def read_call(event: Mapping[str, Any]) -> AgentCall:
    """Read a call as Claude Code and Codex report it; what is not understood is left out."""
    given = event.get("tool_input")
    given = given if isinstance(given, dict) else {}
    command = _command(given.get("command", given.get("cmd", "")))
    files = [given.get(name) for name in ("file_path", "notebook_path")]
    files += given["files"] if isinstance(given.get("files"), list) else []
    if command.startswith("*** Begin Patch"):
        files, command = _PATCHED.findall(command), ""
    within = f"{event.get('cwd') or ''}/"
    paths = (file.removeprefix(within) for file in files if isinstance(file, str))
    error = error_signature(output_of(event))
    return AgentCall(command, tuple(paths)[:_MAX_FILES], error)


def _command(given: Any) -> str:
    if isinstance(given, list):
        words = [str(word) for word in given]
        return " ".join(words[2:] if words[:2] in _SHELLS else words)
    return given if isinstance(given, str) else ""


def output_of(event: Mapping[str, Any]) -> str:
    """Return the output of a call that failed or may have; empty if it succeeded."""
    failed, answer = event.get("error"), event.get("tool_response")
    if isinstance(failed, str):
        return failed[-_MAX_OUTPUT:]
    if isinstance(answer, dict):
        code = answer.get("exit_code", answer.get("exitCode"))
        texts = [answer.get(name) for name in ("output", "stdout", "stderr")]
        answer = "" if code == 0 else "\n".join(text for text in texts if isinstance(text, str))
    return answer[-_MAX_OUTPUT:] if isinstance(answer, str) else ""


def call_keys(event: str, call: AgentCall) -> set[str]:
    """Return the keys of a call; where the digest has none of them, nothing is known about it.

    Codex does not say whether a call failed: its output counts only if the very error is known.
    """
    if event not in AFTER:
        return keys_of_call(call.command, call.files)
    keys = failure_keys(call.error, call.command)
    return keys if event == "PostToolUseFailure" else {key for key in keys if key[0] == "!"}


def failure_keys(error: str, command: str) -> set[str]:
    """Return the keys of a failure: its error, and the programs of its command."""
    return {f"!{error}", *(f"?{program}" for program in programs(command))} if error else set()


def digest(keys: Iterable[str]) -> str:
    """Return the hashes of keys; a memory's words cannot be read from them."""
    return " ".join(sorted({f"{zlib.crc32(key.encode('utf-8', 'replace')):x}" for key in keys}))


def is_in_digest(keys: Iterable[str], hashes: str) -> bool:
    """Whether a digest has one of some keys."""
    return not {*digest(keys).split()}.isdisjoint(hashes.split())
