"""The frame of every runtime that is a program: a workplace, one run in it, what the run left."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from butlers.kernel.text import replace_surrogates
from butlers.llm.completion import Completion, RuntimeOptions
from butlers.llm.environment import Workplace, workplace
from butlers.llm.process import Finished, Invocation, run
from butlers.llm.redaction import Redaction


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, and where; with a schema the answer is to be JSON."""

    prompt: str
    system: str
    schema: Mapping[str, Any] | None
    label: str
    place: Workplace


class ProgramRuntime(ABC):
    """Runs a program once for each completion; each kind says how it is called and understood."""

    name: str

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
        with workplace() as place:
            request = Request(prompt, system, schema, label, place)
            environment = self._environment(request)
            invocation = Invocation(
                self.name,
                self._argv(request, environment),
                replace_surrogates(self._stdin(request)).encode(),
                place.directory,
                environment,
                min(timeout_seconds, self._options.timeout_seconds),
            )
            finished = await run(invocation)
            redaction = Redaction.of(environment, prompt, system)
            return self._completion(request, finished, redaction)

    def _stdin(self, request: Request) -> str:
        """What the program reads."""
        return request.prompt

    @abstractmethod
    def _environment(self, request: Request) -> dict[str, str]:
        """Every variable the program sees."""

    @abstractmethod
    def _argv(self, request: Request, environment: Mapping[str, str]) -> Sequence[str]:
        """The program and its arguments."""

    @abstractmethod
    def _completion(self, request: Request, left: Finished, redaction: Redaction) -> Completion:
        """What the program left, understood; CompletionFailed when it is no answer."""
