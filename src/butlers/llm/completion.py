"""What a completion is, whichever runtime gives it."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from butlers.errors import Unavailable
from butlers.kernel.text import clean

DEFAULT_SYSTEM = "Answer the request in one message. There are no tools."
"""What an agent is told in place of its own long instructions when the caller says nothing."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a completion cost, as far as the runtime says; None is not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer; when a schema was given, the text is JSON."""

    text: str
    usage: Usage
    session_id: str | None = None
    model: str = ""
    """Which model answered, where the runtime says."""


class CompletionFailed(Unavailable):
    """There is no answer; one line says why and what to do, and never repeats the prompt."""

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        self.usage = usage or Usage()
        super().__init__(reason)


class CutOff(CompletionFailed):
    """There is no answer because a limit, of time or of the model's output, was reached."""


class NotReached(CompletionFailed):
    """The runtime cannot be had for now, which says nothing about what it was asked.

    It is not there, is overloaded, refuses for reasons of its own, or did not answer in time.
    """

    def __init__(self, reason: str, usage: Usage | None = None, *, timed_out: bool = False) -> None:
        self.timed_out = timed_out
        super().__init__(reason, usage)


# What services and their command lines say when the trouble is theirs, the account's or the
# network's, and not the request's.
_OUTAGE = re.compile(
    r"\b(?:40[1-4]|408|429|5\d\d)\b|connect|network|unreachable|econn|enotfound|resolve host"
    r"|timed? ?out|rate.?limit|overload|unavailable|too many requests|capacity"
    r"|quota|credit|billing|usage.limit|limit.reached|log ?in|logged in|api.?key|authent|authoriz",
    re.IGNORECASE,
)


def failure(said: str, told: str, usage: Usage | None = None) -> CompletionFailed:
    """How a runtime failed that said something of it: unreached if its words are of an outage."""
    kind = NotReached if _OUTAGE.search(said) else CompletionFailed
    return kind(told, usage)


@runtime_checkable
class Bounded(Protocol):
    """A language model that may know how much it can read."""

    async def context_tokens(self) -> int:
        """How many tokens a question and its answer may have; 0 where nobody says."""
        ...


class LanguageModel(Protocol):
    """Something that completes a prompt."""

    name: str

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float = 300.0,
        label: str = "",
    ) -> Completion:
        """The answer to the prompt, or CompletionFailed; `label` names what asked for it.

        Services enforce a schema only if it closes every object and requires every property.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolServer:
    """An MCP server, by its address and a token for it, whose tools a session may use."""

    url: str
    token: str = field(repr=False)


@runtime_checkable
class ToolUser(LanguageModel, Protocol):
    """A language model that can be given tools."""

    def using(self, tools: ToolServer) -> LanguageModel:
        """The same model with these tools at hand, and no others."""
        ...


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """How completions are obtained: the section [runtime] of a butler's settings."""

    kind: str = "none"
    command: tuple[str, ...] = ()
    model: str = ""
    url: str = ""
    api_key_env: str = ""
    timeout_seconds: float = 300.0
    context_tokens: int = 0

    @property
    def program(self) -> str:
        """The path of the program, where the settings name one."""
        return self.command[0] if self.command else ""

    def late(self, name: str, seconds: float) -> NotReached:
        """What is said of a runtime that took longer than it was given; its own limit is named."""
        own = seconds == self.timeout_seconds
        more = "; runtime.timeout_seconds allows more" if own else ""
        return NotReached(f"{name} did not answer within {seconds:g} s{more}", timed_out=True)

    tools: ToolServer | None = None

    def api_key(self) -> str:
        """The key that the options name, or "" when they name none."""
        if not self.api_key_env:
            return ""
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise NotReached(
                f"the environment variable {self.api_key_env}, which runtime.api_key_env names, "
                "is not set; set it for the daemon, or empty runtime.api_key_env"
            )
        return key


def answered(
    name: str, text: str, usage: Usage, session_id: str | None = None, model: str = ""
) -> Completion:
    """The completion that a runtime's text makes; an empty text is none."""
    answer = clean(text).strip()
    if not answer:
        raise CompletionFailed(f"{name} gave an empty answer; it is asked again later", usage)
    return Completion(answer, usage, session_id, model)
