"""Importing this counts every statement of the process; at the one that STEP says it is killed.

A statement counts twice: before it is sent and after it is answered. So a process is also killed
between a commit and the answer to whoever asked for it. 0 kills nothing.
"""

import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

from asyncpg import connection

STEP = 0
_steps = itertools.count(1)


def _tick() -> None:
    if next(_steps) == STEP:
        os.kill(os.getpid(), signal.SIGKILL)


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    async def counted(*given: Any, **named: Any) -> Any:
        _tick()
        result = await function(*given, **named)
        _tick()
        return result

    return counted


# `execute` also begins and ends transactions; `_execute` is below every kind of fetch; what is
# prepared is Alembic's.
for name in ("execute", "_execute", "_prepare"):
    setattr(connection.Connection, name, _counted(getattr(connection.Connection, name)))
