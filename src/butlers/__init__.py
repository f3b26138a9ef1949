"""Butlers: memory for AI agents.

    async with butlers.open_memory() as memory:
        await memory.store_fact("Ann", "allergy", "peanuts")

What is offered here is imported when it is first asked for, so that importing `butlers` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from butlers.errors import (
        ButlersError,
        Conflict,
        IntegrityViolation,
        InvalidInput,
        NotFound,
        SettingsError,
        Unavailable,
    )
    from butlers.interfaces.python import (
        ButlerMemory,
        Context,
        MergeReport,
        Recalled,
        StoredBatch,
        StoredEpisode,
        StoredFact,
        StoredRule,
        open_memory,
    )

__version__ = "0.1.0"
__all__ = [
    "ButlerMemory",
    "ButlersError",
    "Conflict",
    "Context",
    "IntegrityViolation",
    "InvalidInput",
    "MergeReport",
    "NotFound",
    "Recalled",
    "SettingsError",
    "StoredBatch",
    "StoredEpisode",
    "StoredFact",
    "StoredRule",
    "Unavailable",
    "__version__",
    "open_memory",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    errors = import_module("butlers.errors")
    place = errors if hasattr(errors, name) else import_module("butlers.interfaces.python")
    return getattr(place, name)
