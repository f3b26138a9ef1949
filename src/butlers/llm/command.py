"""Completions from any program that reads a prompt and writes an answer."""

from collections.abc import Mapping
from typing import Any

from butlers.llm.completion import Completion, CompletionFailed, Usage, answered, failure
from butlers.llm.envelopes import json_text
from butlers.llm.process import Finished, decoded_answer, find_program, read_answer
from butlers.llm.program import ProgramRuntime, Request
from butlers.llm.redaction import Redaction

SCHEMA_FILE, SYSTEM_FILE, OUTPUT_FILE = "{schema_file}", "{system_file}", "{output_file}"


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
        return [
            find_program(program, "runtime.command"),
            *(_filled(argument, values) for argument in arguments),
        ]

    def _stdin(self, request: Request) -> str:
        """The prompt, with whatever else the template has no place for."""
        parts = [request.prompt]
        if request.system and not self._has(SYSTEM_FILE):
            parts.insert(0, request.system)
        if request.schema is not None and not self._has(SCHEMA_FILE):
            parts.append(_asking_for(request.schema))
        return "\n\n".join(parts)

    def _completion(self, request: Request, left: Finished, redaction: Redaction) -> Completion:
        """What the program wrote, to its file where the template names one."""
        if left.exit_code != 0:
            said = redaction.line(left.complaint) or "it said nothing"
            raise failure(left.complaint, f"the command {left.ending}: {said}")
        if self._has(OUTPUT_FILE):
            text = read_answer("the command", request.files / "output")
        else:
            text = decoded_answer("the command", left.stdout)
        return answered("the command", text, Usage())

    def _has(self, placeholder: str) -> bool:
        return any(placeholder in argument for argument in self._options.command[1:])


def _asking_for(schema: Mapping[str, Any]) -> str:
    return (
        "Answer with one JSON value and nothing else: no explanation and no code fence. "
        f"It must fit this JSON Schema:\n{json_text(schema)}\n"
    )


def _filled(argument: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        argument = argument.replace(placeholder, value)
    return argument
