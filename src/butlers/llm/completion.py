"""Completions, their failures, and the protocol of a language model."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from butlers.errors import Unavailable
from butlers.kernel.text import clean

DEFAULT_SYSTEM = "Answer the request in one message. There are no tools."
"""System text in place of an agent's own long instructions, if the caller gives none."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a completion cost; None is not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer; when a schema was given, the text is JSON."""

    text: str
    usage: Usage
    model: str = ""
    """The model that answered, if the runtime reports it."""


class CompletionFailed(Unavailable):
    """There is no answer. The message is one line and never repeats the prompt."""

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        self.usage = usage or Usage()
        super().__init__(reason)


class CutOff(CompletionFailed):
    """There is no answer because a limit, of time or of the model's output, was reached."""


class NotReached(CompletionFailed):
    """The runtime is missing, overloaded, refusing or too slow; the prompt is not to blame."""

    def __init__(self, reason: str, usage: Usage | None = None, *, timed_out: bool = False) -> None:
        self.timed_out = timed_out
        super().__init__(reason, usage)


# Messages of services and command lines about an outage, the account or the network.
_OUTAGE = re.compile(
    r"\b(?:40[1-4]|408|429|5\d\d)\b|connect|network|unreachable|econn|enotfound|resolve host"
    r"|timed? ?out|rate.?limit|overload|unavailable|too many requests|capacity"
    r"|quota|credit|billing|usage.limit|limit.reached|log ?in|logged in|api.?key|authent|authoriz",
    re.IGNORECASE,
)


def failure(reason: str, message: str, usage: Usage | None = None) -> CompletionFailed:
    """Return NotReached if the reason a runtime gave is about an outage, else CompletionFailed."""
    kind = NotReached if _OUTAGE.search(reason) else CompletionFailed
    return kind(message, usage)


@runtime_checkable
class Bounded(Protocol):
    """A language model that may know how much it can read."""

    async def context_tokens(self) -> int:
        """Return how many tokens prompt and answer may have together; 0 if unknown."""
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
        """Return the answer, or raise CompletionFailed; `label` names the caller.

        Services enforce a schema only if it closes every object and requires every property.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolServer:
    """An MCP server whose tools a session may use."""

    url: str
    token: str = field(repr=False)


@runtime_checkable
class ToolUser(LanguageModel, Protocol):
    """A language model that can be given tools."""

    def using(self, tools: ToolServer) -> LanguageModel:
        """Return the same model with these tools and no others."""
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

    tools: ToolServer | None = None

    def late(self, name: str, seconds: float) -> NotReached:
        """Return the error for a runtime that took too long."""
        own = seconds == self.timeout_seconds
        more = "; runtime.timeout_seconds allows more" if own else ""
        return NotReached(f"{name} did not answer within {seconds:g} s{more}", timed_out=True)

    def api_key(self) -> str:
        """Return the key from the environment; "" if none is named, NotReached if it is not set."""
        if not self.api_key_env:
            return ""
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise NotReached(
                f"the environment variable {self.api_key_env}, which runtime.api_key_env names, "
                "is not set; set it for the daemon, or empty runtime.api_key_env"
            )
        return key


def completion_of(name: str, text: str, usage: Usage, model: str = "") -> Completion:
    """Make a completion of a runtime's text; CompletionFailed if it is empty."""
    answer = clean(text).strip()
    if not answer:
        raise CompletionFailed(f"{name} gave an empty answer; it is asked again later", usage)
    return Completion(answer, usage, model)
