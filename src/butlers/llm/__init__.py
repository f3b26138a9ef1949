"""Completions: a prompt goes out to a language model, an answer comes back, no more happens.

A session may use tools on the way, but only those of the one server it is handed.
"""

from butlers.errors import InvalidInput
from butlers.llm.claude import ClaudeRuntime
from butlers.llm.codex import CodexRuntime
from butlers.llm.command import CommandRuntime
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
    """The model that the options choose, or None when they choose none."""
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
