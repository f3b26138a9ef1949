"""Completions by a language model: Claude Code, Codex, any command, or a server by HTTP.

A model may call tools only of the one server it is given.
"""

from butlers.errors import InvalidInput
from butlers.llm.claude import ClaudeRuntime
from butlers.llm.codex import CodexRuntime
from butlers.llm.completion import (
    Bounded,
    Completion,
    CompletionFailed,
    CutOff,
    LanguageModel,
    NotReached,
    RuntimeOptions,
    ToolServer,
    ToolUser,
    Usage,
)
from butlers.llm.program import CommandRuntime

__all__ = [
    "Bounded",
    "Completion",
    "CompletionFailed",
    "CutOff",
    "LanguageModel",
    "NotReached",
    "RuntimeOptions",
    "ToolServer",
    "ToolUser",
    "Usage",
    "language_model",
]


def language_model(options: RuntimeOptions) -> LanguageModel | None:
    """Return the model that the options choose; None for kind "none"."""
    if options.kind == "none":
        return None
    if options.kind == "http":
        # An HTTP client takes longer to import than everything else here together.
        from butlers.llm.http import HttpRuntime  # noqa: PLC0415

        return HttpRuntime(options)
    for program in (ClaudeRuntime, CodexRuntime, CommandRuntime):
        if options.kind == program.name:
            return program(options)
    raise InvalidInput(
        f"runtime.kind is {options.kind!r}; valid is none, claude, codex, command or http"
    )
