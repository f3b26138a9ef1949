"""How runs end, in words short enough for a history."""

import json
from typing import Any

from butlers.errors import ButlersError
from butlers.jobs.policy import Outcome
from butlers.jobs.runs import Ending
from butlers.kernel.text import one_line

GONE = Ending(Outcome.FAILED, "the process that ran it ended before it was done")
STOPPED = Ending(Outcome.FAILED, "stopped before it was done")

_MAX_ERROR = 500
_MAX_RESULT = 20_000


def ending_of(result: dict[str, Any]) -> Ending:
    """How a job ended that returned; a result that lists errors is that of a failure."""
    kept = result if _fits(result) else {"left_out": "the result was too long to keep"}
    errors = result.get("errors")
    if not errors:
        return Ending(Outcome.OK, result=kept)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Ending(Outcome.FAILED, _line(str(errors[0]))[: _MAX_ERROR - len(more)] + more, kept)


def skipped(reason: Exception) -> Ending:
    """How a job ended that decided not to run."""
    return Ending(Outcome.SKIPPED, _line(str(reason)))


def failed(error: Exception) -> Ending:
    """How a job ended that raised; a stranger's message may quote what the job was reading."""
    if isinstance(error, ButlersError):
        return Ending(Outcome.FAILED, _line(str(error)) or type(error).__name__)
    return Ending(Outcome.FAILED, f"unexpected {type(error).__name__}; the log says more")


def _fits(result: dict[str, Any]) -> bool:
    return len(json.dumps(result, allow_nan=False)) <= _MAX_RESULT


def _line(text: str) -> str:
    return one_line(text)[:_MAX_ERROR]
