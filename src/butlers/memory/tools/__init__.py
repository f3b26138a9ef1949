"""The nineteen tools, each a thin door to a flow."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from butlers.llm import LanguageModel
from butlers.memory.settings import MemoryModuleConfig
from butlers.memory.tools.calling import Desk
from butlers.memory.tools.entities import EntityTools
from butlers.memory.tools.feedback import FeedbackTools
from butlers.memory.tools.reading import ReadingTools
from butlers.memory.tools.upkeep import UpkeepTools
from butlers.memory.tools.writing import WritingTools
from butlers.module import Tool

Function = Callable[..., Awaitable[Any]]
# Counting a use is not a change anybody would miss.
READING = frozenset(
    {"memory_search", "memory_recall", "memory_get", "memory_stats", "memory_context"}
    | {"entity_get", "entity_resolve"}
)


def memory_tools(
    desk: Desk, settings: MemoryModuleConfig, model: Callable[[], LanguageModel | None]
) -> list[Tool]:
    """Every tool, bound to a desk; defaults that are settings show in the signatures."""
    writing, reading, feedback = WritingTools(desk), ReadingTools(desk), FeedbackTools(desk)
    entities, upkeep = EntityTools(desk), UpkeepTools(desk, model)
    retrieval = settings.retrieval
    functions: list[Function] = [
        writing.memory_store_episode,
        writing.memory_store_fact,
        writing.memory_store_rule,
        with_defaults(
            reading.memory_search,
            mode=retrieval.default_mode,
            min_confidence=settings.facts.retrieval_confidence_threshold,
        ),
        reading.memory_recall,
        reading.memory_get,
        feedback.memory_confirm,
        feedback.memory_mark_helpful,
        feedback.memory_mark_harmful,
        feedback.memory_forget,
        reading.memory_stats,
        with_defaults(reading.memory_context, token_budget=retrieval.context_token_budget),
        entities.entity_create,
        entities.entity_get,
        entities.entity_update,
        entities.entity_resolve,
        entities.entity_merge,
        upkeep.memory_run_consolidation,
        with_defaults(upkeep.memory_run_episode_cleanup, max_entries=settings.episodes.max_entries),
    ]
    return [
        Tool(_name(function), function, reads_only=_name(function) in READING)
        for function in functions
    ]


def with_defaults(function: Function, **defaults: Any) -> Function:
    """The same function, with other defaults where the caller leaves an argument out."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(default=defaults.get(name, parameter.default))
        for name, parameter in signature.parameters.items()
    ]

    @wraps(function)
    async def call(**arguments: Any) -> Any:
        return await function(**{**defaults, **arguments})

    vars(call)["__signature__"] = signature.replace(parameters=parameters)
    return call


def _name(function: Function) -> str:
    return str(getattr(function, "__name__", ""))
