"""Completions from any program that reads a prompt and writes an answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from butlers.kernel.text import replace_surrogates
from butlers.llm.answer_file import decoded_answer, read_answer
from butlers.llm.completion import Completion, CompletionFailed, RuntimeOptions, Usage, answered
from butlers.llm.envelopes import json_text
from butlers.llm.environment import Workplace, api_key, minimal_environment, workplace
from butlers.llm.process import Invocation, find_program, run
from butlers.llm.redaction import Redaction
from butlers.llm.schema import instruction

MODEL, SCHEMA_FILE, SYSTEM_FILE, OUTPUT_FILE = (
    "{model}",
    "{schema_file}",
    "{system_file}",
    "{output_file}",
)


@dataclass(frozen=True, slots=True)
class _Request:
    prompt: str
    system: str
    schema: Mapping[str, Any] | None


class CommandRuntime:
    """Runs a command template: the prompt on standard input, the answer on standard output."""

    name = "command"

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float = 300.0,
        label: str = "",
    ) -> Completion:
        """What the program answers."""
        request = _Request(prompt, system, schema)
        with workplace() as place:
            environment = self._environment(place, label)
            invocation = Invocation(
                self.name,
                self._argv(place, request),
                replace_surrogates(self._stdin(request)).encode(),
                place.directory,
                environment,
                min(timeout_seconds, self._options.timeout_seconds),
            )
            text = await self._answer(invocation, place, Redaction.of(environment, prompt, system))
        return answered("the command", text, Usage())

    async def _answer(self, invocation: Invocation, place: Workplace, redaction: Redaction) -> str:
        finished = await run(invocation)
        if finished.exit_code != 0:
            said = redaction.line(finished.complaint) or "it said nothing"
            raise CompletionFailed(f"the command {finished.ending}: {said}")
        if self._has(OUTPUT_FILE):
            return read_answer("the command", place.files / "output")
        return decoded_answer("the command", finished.stdout)

    def _environment(self, place: Workplace, label: str) -> dict[str, str]:
        environment = minimal_environment(place, label)
        key = api_key(self._options)
        return environment | ({self._options.api_key_env: key} if key else {})

    def _argv(self, place: Workplace, request: _Request) -> list[str]:
        if not self._options.command:
            raise CompletionFailed("runtime.command is empty; it must name a program")
        values = {
            MODEL: self._options.model,
            SCHEMA_FILE: str(place.write("schema.json", json_text(request.schema or {}))),
            SYSTEM_FILE: str(place.write("system.txt", request.system)),
            OUTPUT_FILE: str(place.files / "output"),
        }
        program, *arguments = self._options.command
        return [
            find_program(program, "runtime.command"),
            *(_filled(argument, values) for argument in arguments),
        ]

    def _stdin(self, request: _Request) -> str:
        """The prompt, with whatever else the template has no place for."""
        parts = [request.prompt]
        if request.system and not self._has(SYSTEM_FILE):
            parts.insert(0, request.system)
        if request.schema is not None and not self._has(SCHEMA_FILE):
            parts.append(instruction(request.schema))
        return "\n\n".join(parts)

    def _has(self, placeholder: str) -> bool:
        return any(placeholder in argument for argument in self._options.command[1:])


def _filled(argument: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        argument = argument.replace(placeholder, value)
    return argument
