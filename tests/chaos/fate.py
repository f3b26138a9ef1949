"""Importing this counts every statement of the process; at the one that STEP says it is killed.

A statement counts twice: before it is sent and after it is answered. So a process is also killed
between a commit and the answer to whoever asked for it. 0 kills nothing. Vectors are made of words'
hashes, because loading the model would take most of a round.
"""

import itertools
import os
import signal
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from asyncpg import connection

from butlers.embedding import EmbeddingEngine

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


def _embedded(text: str | None) -> list[float]:
    vector = [0.0] * EmbeddingEngine.dimensions
    for word in (text or " ").lower().split() or [" "]:
        vector[zlib.crc32(word.encode()) % len(vector)] += 1.0
    length = sum(value * value for value in vector) ** 0.5
    return [value / length for value in vector]


async def _embed_async(engine: EmbeddingEngine, text: str | None) -> list[float]:
    return _embedded(text)


async def _embed_batch_async(
    engine: EmbeddingEngine, texts: Sequence[str | None]
) -> list[list[float]]:
    return [_embedded(text) for text in texts]


EmbeddingEngine.embed_async = _embed_async  # type: ignore[method-assign]
EmbeddingEngine.embed_batch_async = _embed_batch_async  # type: ignore[method-assign]
