"""Get a completion from a program: prepare directories, run it once, read what it wrote."""

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from butlers.kernel.text import one_line, replace_surrogates
from butlers.kernel.word_tables import load_tables
from butlers.llm.completion import (
    DEFAULT_SYSTEM,
    Completion,
    CompletionFailed,
    LanguageModel,
    RuntimeOptions,
    ToolServer,
    Usage,
    completion_of,
    failure,
)
from butlers.llm.envelopes import json_text
from butlers.llm.process import (
    Invocation,
    ProgramResult,
    decode_answer,
    find_program,
    read_answer,
    run,
)
from butlers.llm.redaction import Redaction

RUNTIMES = load_tables(__file__, "runtimes.toml")
"""How each runtime is called."""
_ALWAYS = frozenset(RUNTIMES["inherited"])
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
TOOLS = "butlers"
"""The name under which a program knows the server of its tools."""
TOKEN_VARIABLE = "BUTLERS_SESSION_TOKEN"
SCHEMA_FILE, SYSTEM_FILE, OUTPUT_FILE = "{schema_file}", "{system_file}", "{output_file}"
_SCHEMA_REQUEST = (
    "Answer with one JSON value and nothing else: no explanation and no code fence. "
    "It must fit this JSON Schema:\n"
)


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and the directories of its run, which starts in `directory`, an empty one."""

    prompt: str
    system: str
    schema: Mapping[str, Any] | None
    label: str
    directory: Path
    files: Path
    scratch: Path

    def write(self, name: str, text: str) -> Path:
        """Write a file for the program; return its path."""
        path = self.files / name
        path.write_text(text, encoding="utf-8", errors="replace")
        return path

    def write_system(self, hint: str = "") -> Path:
        """Write the system text, or the default, and a hint."""
        return self.write("system.txt", (self.system or DEFAULT_SYSTEM) + hint)

    def environment(self, names: Sequence[str] = (), prefix: str = "\0") -> dict[str, str]:
        """Return the program's environment: a few of our variables, and those by name or prefix."""
        wanted = _ALWAYS | set(names)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name in wanted or name.startswith(prefix)
        }
        own = {"TERM": "dumb", "TMPDIR": str(self.scratch)}
        return inherited | own | {"BUTLERS_TRIGGER": one_line(self.label)}


def variables_of(tools: ToolServer | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a program reaches its tools; no command line shows a token."""
    if tools is None:
        return {}
    # The tools are on this machine: no proxy is needed.
    direct = [environment.get("NO_PROXY") or environment.get("no_proxy") or "", *_THIS_MACHINE]
    exempt = ",".join(filter(None, direct))
    return {TOKEN_VARIABLE: tools.token, "NO_PROXY": exempt, "no_proxy": exempt}


class ProgramRuntime(ABC):
    """Runs a program once for each completion; subclasses say how to call it and read it."""

    name: str

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        label: str = "",
    ) -> Completion:
        """Return the program's answer; the time limit is the caller's, else the runtime's."""
        prefix = "butlers-completion-"
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as root:
            directories = [Path(root, name) for name in ("work", "files", "scratch")]
            for directory in directories:
                directory.mkdir()
            request = Request(prompt, system, schema, label, *directories)
            environment = self._environment(request)
            argv = self._argv(request, environment)
            stdin = replace_surrogates(self._stdin(request)).encode()
            seconds = timeout_seconds or self._options.timeout_seconds
            late = self._options.late(self.name, seconds)
            directory = request.directory
            result = await run(
                Invocation(self.name, argv, stdin, directory, environment, seconds, late)
            )
            return self._completion(request, result, Redaction.of(environment, prompt, system))

    async def context_tokens(self) -> int:
        """Return the setting: a program cannot be asked."""
        return self._options.context_tokens

    def _stdin(self, request: Request) -> str:
        """Return what the program reads."""
        return request.prompt

    @abstractmethod
    def _environment(self, request: Request) -> dict[str, str]:
        """Return every variable the program sees."""

    @abstractmethod
    def _argv(self, request: Request, environment: Mapping[str, str]) -> Sequence[str]:
        """Return the program and its arguments."""

    @abstractmethod
    def _completion(
        self, request: Request, result: ProgramResult, redaction: Redaction
    ) -> Completion:
        """Read the answer; CompletionFailed when there is none."""


class AgentRuntime(ProgramRuntime):
    """Runs the command line of an agent, which can be given tools."""

    def using(self, tools: ToolServer) -> LanguageModel:
        """Return the same runtime with these tools, allowed without asking, and no others."""
        return type(self)(replace(self._options, tools=tools))

    @property
    def _program(self) -> str:
        return find_program(next(iter(self._options.command), self.name))


class CommandRuntime(ProgramRuntime):
    """Runs a command template: the prompt on standard input, the answer on standard output."""

    name = "command"

    def _environment(self, request: Request) -> dict[str, str]:
        key = self._options.api_key()
        return request.environment() | ({self._options.api_key_env: key} if key else {})

    def _argv(self, request: Request, environment: Mapping[str, str]) -> list[str]:
        if not self._options.command:
            raise CompletionFailed("runtime.command is empty; it must name a program")
        values = {
            "{model}": self._options.model,
            SCHEMA_FILE: str(request.write("schema.json", json_text(request.schema or {}))),
            SYSTEM_FILE: str(request.write("system.txt", request.system)),
            OUTPUT_FILE: str(request.files / "output"),
        }
        program, *arguments = self._options.command
        for placeholder, value in values.items():
            arguments = [argument.replace(placeholder, value) for argument in arguments]
        return [find_program(program), *arguments]

    def _stdin(self, request: Request) -> str:
        """Return the prompt, with the system text and schema that the template has no file for."""
        parts = [request.prompt]
        if request.system and not self._has(SYSTEM_FILE):
            parts.insert(0, request.system)
        if request.schema is not None and not self._has(SCHEMA_FILE):
            parts.append(f"{_SCHEMA_REQUEST}{json_text(request.schema)}\n")
        return "\n\n".join(parts)

    def _completion(
        self, request: Request, result: ProgramResult, redaction: Redaction
    ) -> Completion:
        """Read standard output, or the file that the template names."""
        if result.exit_code != 0:
            reason = redaction.line(result.complaint) or "no output"
            raise failure(result.complaint, f"the command {result.ending}: {reason}")
        if self._has(OUTPUT_FILE):
            text = read_answer("the command", request.files / "output")
        else:
            text = decode_answer("the command", result.stdout)
        return completion_of("the command", text, Usage())

    def _has(self, placeholder: str) -> bool:
        return any(placeholder in argument for argument in self._options.command[1:])
