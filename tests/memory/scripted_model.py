"""A language model that answers from a script, and remembers what it was asked."""

import json
from collections.abc import Callable
from typing import Any

from butlers.llm import Completion, CompletionFailed, Usage

NOTHING: dict[str, list[Any]] = {
    "new_facts": [],
    "updated_facts": [],
    "new_rules": [],
    "confirmations": [],
}


def answer(**lists: list[Any]) -> str:
    """An answer with these lists, the others empty."""
    return json.dumps({**NOTHING, **lists})


def fact(subject: str, predicate: str, content: str, **more: Any) -> dict[str, Any]:
    """A new fact as a model writes it."""
    return {"subject": subject, "predicate": predicate, "content": content, **more}


class ScriptedModel:
    """Gives its answers in order, the last for ever; an exception is raised, a callable asked."""

    name = "scripted"

    def __init__(self, *answers: str | Exception | Callable[[str], Any]) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []
        self.calls: list[dict[str, Any]] = []

    async def complete(self, prompt: str, **options: Any) -> Completion:
        self.prompts.append(prompt)
        self.calls.append(options)
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(said, Exception):
            raise said
        if callable(said):
            said = said(prompt)
        if not isinstance(said, str):
            said = await said
        return Completion(said, Usage(10, 5, 0.001))


def failing() -> ScriptedModel:
    """A model whose every session fails."""
    return ScriptedModel(CompletionFailed("the session ended with status 1"))
