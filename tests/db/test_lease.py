"""What is held on lease is renewed in time, and let go of whatever happens."""

import asyncio
import time

import pytest

from butlers.db.lease import Renewal, to_its_end
from butlers.errors import Conflict, Unavailable

SECONDS = 0.3


class Held:
    """A lease in no database: when it was renewed, and whether it still can be."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.renewed_at = [time.monotonic()]
        self._answers = iter(answers)

    async def renew(self) -> bool:
        answer = next(self._answers, True)
        if isinstance(answer, Exception):
            raise answer
        self.renewed_at.append(time.monotonic())
        return answer

    def renewal(self) -> Renewal:
        return Renewal("a toy", SECONDS, self.renew, "it is lost")


async def working(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


async def test_it_is_renewed_well_before_it_ends():
    held = Held()
    assert await held.renewal().while_held(working(4 * SECONDS)) == "done"
    times = [*held.renewed_at, time.monotonic()]
    assert max(after - before for before, after in zip(times, times[1:], strict=False)) < SECONDS
    assert len(held.renewed_at) > 4


async def test_nothing_is_renewed_once_the_work_is_done():
    held = Held()
    await held.renewal().while_held(working(0))
    await asyncio.sleep(SECONDS)
    assert len(held.renewed_at) == 1


@pytest.mark.parametrize(
    "answers",
    [[False], [True, False], [Unavailable("away")] * 9],
    ids=["taken over", "later", "database away for as long as it lasts"],
)
async def test_losing_it_ends_the_work(answers):
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(Conflict, match="it is lost"):
        async with asyncio.timeout(10):
            await Held(*answers).renewal().while_held(endless())
    assert ended.is_set()


async def test_a_database_that_is_away_for_a_moment_costs_nothing():
    held = Held(Unavailable("away"), True, Unavailable("away"))
    assert await held.renewal().while_held(working(2 * SECONDS)) == "done"


async def test_what_the_work_raises_is_raised():
    async def failing() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        await Held().renewal().while_held(failing())


async def test_letting_go_is_not_cut_short_however_often_it_is_cancelled():
    let_go = asyncio.Event()

    async def letting_go() -> None:
        await asyncio.sleep(SECONDS)
        let_go.set()

    task = asyncio.create_task(to_its_end(letting_go()))
    for _ in range(3):
        await asyncio.sleep(0.02)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert let_go.is_set()


async def test_work_to_its_end_answers_and_fails_as_itself():
    assert await to_its_end(working(0)) == "done"
    with pytest.raises(Unavailable):
        await to_its_end(Held(Unavailable("away")).renew())
