"""The one place that forgives: a session never fails, and never waits long, because of its memory.

What memory itself guarantees is untouched: an operation that breaks an invariant is rolled back
there as a whole, and only then forgiven here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from butlers.errors import IntegrityViolation, Unavailable

log = structlog.get_logger(__name__)

T = TypeVar("T")
Default = TypeVar("Default")

# Operations nobody waits for any more; held here, or they could vanish half done.
_abandoned: set["asyncio.Future[object]"] = set()


async def forgiven(
    what: str, operation: Callable[[], Awaitable[T]], *, otherwise: Default, seconds: float
) -> T | Default:
    """What the operation gives, or `otherwise` when it fails or takes longer than `seconds`.

    The failure is logged, without anything that was to be stored or found.
    """
    task = asyncio.ensure_future(_begun(operation))
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            _abandon(task)
    if not task.done():
        log.warning("memory is too slow; the session goes on", what=what, seconds=seconds)
        return otherwise
    try:
        return task.result()
    except Exception as error:  # noqa: BLE001  whatever it is, the session matters more
        _tell(what, error)
        return otherwise


async def _begun(operation: Callable[[], Awaitable[T]]) -> T:
    return await operation()


def _abandon(task: "asyncio.Future[T]") -> None:
    """End an operation without waiting for it: a database that hangs also hangs on the way out."""
    _abandoned.add(task)  # type: ignore[arg-type]
    task.add_done_callback(_forget)
    task.cancel()


def _forget(task: "asyncio.Future[T]") -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that nobody complains that it was not


def _tell(what: str, error: Exception) -> None:
    # Other messages quote what a caller sent.
    reason = str(error) if isinstance(error, Unavailable) else type(error).__name__
    tell = log.error if isinstance(error, IntegrityViolation) else log.warning
    tell("memory failed; the session goes on", what=what, reason=reason, exc_info=error)
