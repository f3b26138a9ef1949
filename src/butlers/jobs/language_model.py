"""The language model a butler's settings choose, its completions counted."""

from collections.abc import Mapping
from typing import Any

from butlers.jobs.spending import Outcome, Spending
from butlers.kernel.sections import Limits
from butlers.llm import (
    Completion,
    CompletionFailed,
    LanguageModel,
    RuntimeOptions,
    Usage,
    language_model,
)
from butlers.settings.sections import ButlerSettings


def limits_of(settings: ButlerSettings) -> tuple[Limits, str]:
    """What a day's completions for modules may come to, and which section says so."""
    told = (module.limits() for module in settings.modules.each())
    return next((limits for limits in told if limits is not None), (Limits(), ""))


def model_of(settings: ButlerSettings, spending: Spending) -> "CountedModel | None":
    """The model that the settings choose, each completion counted; None when there is none."""
    chosen = settings.runtime.model_dump(exclude={"context_timeout_seconds"})
    model = language_model(RuntimeOptions(**chosen))
    return None if model is None else CountedModel(model, spending)


class CountedModel:
    """A language model whose every completion is counted first, and refused beyond the budget."""

    def __init__(self, model: LanguageModel, spending: Spending) -> None:
        self.name = model.name
        self._model = model
        self._spending = spending

    async def check(self) -> None:
        """Raise BudgetExhausted if no completion may be asked for now."""
        await self._spending.check()

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float = 300.0,
        label: str = "",
    ) -> Completion:
        """The model's answer; BudgetExhausted before it is asked if the budget is used up."""
        number = await self._spending.reserve(self.name, label, timeout_seconds)
        outcome, usage = Outcome.FAILED, Usage()
        try:
            completion = await self._model.complete(
                prompt, system=system, schema=schema, timeout_seconds=timeout_seconds, label=label
            )
            outcome, usage = Outcome.OK, completion.usage
        except CompletionFailed as failure:
            usage = failure.usage
            raise
        finally:
            # Also when the caller gave up waiting: the completion was asked for and counts.
            await self._spending.settle(number, outcome, usage)
        return completion
