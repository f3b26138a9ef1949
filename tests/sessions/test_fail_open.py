"""The place that forgives: it logs, it does not wait, and nothing is left half done."""

import asyncio
import time
from collections.abc import Iterator

import asyncpg
import pytest
from structlog.testing import capture_logs

from butlers.errors import IntegrityViolation, InvalidInput, Unavailable
from butlers.memory.flows.remember import store_episode
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewEpisode
from butlers.sessions.fail_open import forgiven

SECRET = "what the memory says"


async def given() -> str:
    return "answer"


def failing(error: Exception):
    async def operation() -> str:
        raise error

    return operation


@pytest.fixture
def logged() -> Iterator[list]:
    with capture_logs() as lines:
        yield lines


async def test_what_goes_well_is_given_and_not_spoken_of(logged: list) -> None:
    assert await forgiven("test", given, otherwise="", seconds=1) == "answer"
    assert logged == []


@pytest.mark.contract("R24.1", "R24.2")
@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Unavailable("the database does not answer"), "warning"),
        (InvalidInput(SECRET), "warning"),
        (IntegrityViolation(SECRET), "error"),
        (ZeroDivisionError(SECRET), "warning"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_failure_is_logged_without_content_and_forgiven(
    logged: list, error: Exception, level: str
) -> None:
    assert await forgiven("test", failing(error), otherwise="none", seconds=1) == "none"
    (line,) = logged
    assert line["log_level"] == level
    assert line["what"] == "test"
    known = isinstance(error, Unavailable)
    assert line["reason"] == (str(error) if known else type(error).__name__)


@pytest.mark.contract("R24.1")
async def test_nobody_waits_for_an_operation_that_does_not_even_end_when_told_to(
    logged: list,
) -> None:
    stubborn = asyncio.Event()

    async def operation() -> str:
        while not stubborn.is_set():
            try:
                await stubborn.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    started = time.monotonic()
    assert await forgiven("test", operation, otherwise="none", seconds=0.05) == "none"
    assert time.monotonic() - started < 0.5
    assert [line["log_level"] for line in logged] == ["warning"]
    stubborn.set()
    await asyncio.sleep(0.01)


async def test_a_caller_who_is_cancelled_takes_the_operation_along() -> None:
    ended = asyncio.Event()

    async def operation() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    waiting = asyncio.create_task(forgiven("test", operation, otherwise=None, seconds=60))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(ended.wait(), 1)


@pytest.mark.contract("R24.2", "N4.4")
async def test_what_breaks_an_invariant_is_forgiven_here_and_undone_there(
    memory: Memory, lineage: Lineage, owner: asyncpg.Connection, logged: list
) -> None:
    await store_episode(memory, NewEpisode("one that may stay", "general"), lineage)
    # The audit stream refuses the event, after the row itself was written.
    await owner.execute("alter table memory_events add constraint closed check (false) not valid")
    new = NewEpisode(SECRET, "general")
    try:
        stored = await forgiven(
            "test", lambda: store_episode(memory, new, lineage), otherwise=None, seconds=10
        )
    finally:
        await owner.execute("alter table memory_events drop constraint closed")
    assert stored is None
    assert await owner.fetchval("select count(*) from episodes") == 1
    assert [line["reason"] for line in logged] == ["IntegrityViolation"]
