"""The language model a butler's settings choose, within the budget they set."""

from butlers.jobs.spending import BudgetedModel, Limits, Spending
from butlers.llm import LanguageModel, RuntimeOptions, language_model
from butlers.settings.sections import ButlerSettings


def limits_of(settings: ButlerSettings) -> Limits:
    """What a day's completions may come to."""
    budget = settings.modules.memory.consolidation
    return Limits(budget.daily_max_runs, budget.daily_max_tokens, budget.daily_max_cost_usd)


def bare_model(settings: ButlerSettings) -> LanguageModel | None:
    """The model that the settings choose, uncounted; None when they choose none."""
    runtime = settings.runtime
    return language_model(
        RuntimeOptions(
            kind=runtime.kind,
            command=runtime.command,
            binary=runtime.binary,
            model=runtime.model,
            url=runtime.url,
            api_key_env=runtime.api_key_env,
            timeout_seconds=runtime.timeout_seconds,
        )
    )


def model_of(settings: ButlerSettings, spending: Spending) -> LanguageModel | None:
    """The model that modules may ask, each completion counted; None when there is none."""
    model = bare_model(settings)
    return None if model is None else BudgetedModel(model, spending)
