"""Models made of a few lines of Python, and what they give for a reason."""

import sys

import pytest

from butlers.llm import CompletionFailed, LanguageModel, RuntimeOptions, language_model


def python(code: str, *arguments: str, **options: object) -> LanguageModel:
    """A runtime whose model is a few lines of Python."""
    command = (sys.executable, "-I", "-c", code, *arguments)
    return chosen(kind="command", command=command, **options)


def chosen(**options: object) -> LanguageModel:
    model = language_model(RuntimeOptions(**options))
    assert model is not None
    return model


async def failure(model: LanguageModel, prompt: str = "Say hello.", **how: float) -> str:
    """The reason the model gives for having no answer."""
    with pytest.raises(CompletionFailed) as failed:
        await model.complete(prompt, **how)
    reason = str(failed.value)
    assert "\n" not in reason
    return reason
