"""Completions by a language model: Claude Code, Codex, any command, or a server by HTTP.

A model may call tools only of the one server it is given.
"""

from butlers.errors import InvalidInput
from butlers.llm.claude import ClaudeRuntime
from butlers.llm.codex import CodexRuntime
from butlers.llm.completion import Bounded as Bounded
from butlers.llm.completion import Completion as Completion
from butlers.llm.completion import CompletionFailed as CompletionFailed
from butlers.llm.completion import CutOff as CutOff
from butlers.llm.completion import LanguageModel as LanguageModel
from butlers.llm.completion import NotReached as NotReached
from butlers.llm.completion import RuntimeOptions as RuntimeOptions
from butlers.llm.completion import ToolServer as ToolServer
from butlers.llm.completion import ToolUser as ToolUser
from butlers.llm.completion import Usage as Usage
from butlers.llm.program import CommandRuntime


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
