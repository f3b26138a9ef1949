"""Completions from a language model, whichever runtime gives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from butlers.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Usage:
    """What a completion cost, as far as the runtime says."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer and what it cost."""

    text: str
    usage: Usage
    session_id: str | None = None


class CompletionFailed(Unavailable):
    """No usable answer came."""


class LanguageModel(Protocol):
    """Something that completes prompts."""

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
        """The answer to a prompt."""
        ...
