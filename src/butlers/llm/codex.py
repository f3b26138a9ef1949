"""Completions from the Codex command line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from butlers.llm.completion import DEFAULT_SYSTEM, Completion, CompletionFailed, Usage, answered
from butlers.llm.envelopes import count, mapping, parse_object, text_of
from butlers.llm.environment import Workplace, api_key, minimal_environment
from butlers.llm.process import Finished, find_program, read_answer
from butlers.llm.program import ProgramRuntime, Request
from butlers.llm.redaction import Redaction
from butlers.llm.schema import strict, without_added_nulls

KEY_VARIABLE = "CODEX_API_KEY"

_NAMES = ("CODEX_HOME", KEY_VARIABLE)
_FLAGS = (
    *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--color", "never"),
    *("--ignore-user-config", "--ignore-rules", "--sandbox", "read-only"),
)
# Whatever lets the model act, and whatever tells it more than it is asked.
_FEATURES_OFF = (
    *("shell_tool", "unified_exec", "code_mode_host", "apps", "browser_use", "computer_use"),
    *("goals", "hooks", "image_generation", "memories", "multi_agent", "plugins", "sleep_tool"),
    *("shell_snapshot", "skill_search", "tool_suggest", "view_image"),
    # Waiting for a network that is gone is the caller's to do.
    "unbounded_connection_retries",
)
_SETTINGS = (
    'web_search="disabled"',
    'history.persistence="none"',
    "project_doc_max_bytes=0",
    "agents.enabled=false",
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    "include_collaboration_mode_instructions=false",
    "include_environment_context=false",
    "include_permissions_instructions=false",
    "skills.bundled.enabled=false",
    "skills.include_instructions=false",
    "tools.experimental_request_user_input.enabled=false",
    *(f"features.{name}=false" for name in _FEATURES_OFF),
)


class CodexRuntime(ProgramRuntime):
    """Runs `codex exec` with its tools off, in a read-only sandbox, without a stored session."""

    name = "codex"

    def _environment(self, place: Workplace, label: str) -> dict[str, str]:
        environment = minimal_environment(place, label, names=_NAMES, prefix="OPENAI_")
        key = api_key(self._options)
        if key:
            environment[KEY_VARIABLE] = key
        if environment.get(KEY_VARIABLE):
            # With a key nothing of the user's own home is needed.
            home = place.files / "home"
            home.mkdir()
            environment["CODEX_HOME"] = str(home)
        return environment

    def _argv(
        self, place: Workplace, environment: Mapping[str, str], request: Request
    ) -> Sequence[str]:
        program = find_program(self._options.binary or self.name, "runtime.binary")
        argv = [program, *_FLAGS, *_overrides(place, environment, request.system)]
        if self._options.model:
            argv += ["--model", self._options.model]
        if request.schema is not None:
            schema_file = place.write("schema.json", json.dumps(strict(request.schema)))
            argv += ["--output-schema", str(schema_file)]
        return [*argv, "--output-last-message", str(_answer_file(place)), "-"]

    def _completion(
        self, request: Request, finished: Finished, place: Workplace, redaction: Redaction
    ) -> Completion:
        """The last message of the session."""
        answer = _answer(finished, place, redaction)
        return answer if request.schema is None else _fitted(answer, request.schema)


def _overrides(place: Workplace, environment: Mapping[str, str], system: str) -> Iterator[str]:
    for setting in _SETTINGS:
        yield from ("-c", setting)
    instructions = place.write("system.txt", system or DEFAULT_SYSTEM)
    yield from ("-c", f"model_instructions_file={json.dumps(str(instructions))}")
    # The program itself no longer reads this variable.
    if url := environment.get("OPENAI_BASE_URL"):
        yield from ("-c", f"openai_base_url={json.dumps(url)}")


def _answer_file(place: Workplace) -> Path:
    return place.files / "answer.txt"


def _answer(finished: Finished, place: Workplace, redaction: Redaction) -> Completion:
    events = list(_events(finished.stdout))
    usage = _usage(events)
    if finished.exit_code != 0:
        said = redaction.line(_failure(events) or finished.complaint)
        raise CompletionFailed(f"codex {finished.ending}: {said}", usage)
    text = read_answer("codex", _answer_file(place), usage)
    return answered("codex", text, usage, _thread(events))


def _fitted(completion: Completion, schema: Mapping[str, Any]) -> Completion:
    text = without_added_nulls(completion.text, schema)
    return Completion(text, completion.usage, completion.session_id)


def _events(stdout: bytes) -> Iterator[Mapping[str, Any]]:
    for line in stdout.decode("utf-8", "replace").split("\n"):
        event = parse_object(line)
        if event is not None:
            yield event


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


def _thread(events: Sequence[Mapping[str, Any]]) -> str | None:
    threads = (text_of(event.get("thread_id")) for event in events)
    return next(filter(None, threads), None)
