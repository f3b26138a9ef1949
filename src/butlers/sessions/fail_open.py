"""The one place that swallows errors of memory, so that no session fails or waits long for it.

An operation that breaks an invariant is rolled back as a whole before its error arrives here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from butlers.errors import IntegrityViolation, Unavailable

log = structlog.get_logger(__name__)

T = TypeVar("T")
Default = TypeVar("Default")

# Operations nobody waits for any more; referenced, or they could be collected half done.
_abandoned: set["asyncio.Future[object]"] = set()


async def forgiven(
    what: str, operation: Callable[[], Awaitable[T]], *, otherwise: Default, seconds: float
) -> T | Default:
    """Return the operation's result; log a failure or delay and return `otherwise` instead."""

    async def begun() -> T:
        return await operation()

    task = asyncio.ensure_future(begun())
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            # Not waited for: a database that hangs also hangs on the way out.
            _abandoned.add(task)  # type: ignore[arg-type]
            task.add_done_callback(_forget)
            task.cancel()
    if not task.done():
        log.warning("memory is too slow; the session goes on", what=what, seconds=seconds)
        return otherwise
    try:
        return task.result()
    except Exception as error:  # noqa: BLE001  whatever it is, the session matters more
        # Other messages quote what a caller sent.
        reason = str(error) if isinstance(error, Unavailable) else type(error).__name__
        write = log.error if isinstance(error, IntegrityViolation) else log.warning
        write("memory failed; the session goes on", what=what, reason=reason, exc_info=error)
        return otherwise


def _forget(task: "asyncio.Future[T]") -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not complain
