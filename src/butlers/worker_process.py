"""Read long texts in another process: a search in one holds the interpreter, and with it everybody.

Only a daemon has that process, started by the first long text; other programs use a thread.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import TypeVar

from butlers.kernel.throttle import FairQueue

LONG = 4_000
"""Characters from which on a text is read apart; shorter ones take a few milliseconds."""
_NICE = 5
_turns = FairQueue()
_process: ProcessPoolExecutor | None = None

T = TypeVar("T")


async def read_apart(length: int, work: Callable[..., T], *given: object) -> T:
    """Run a function of a module on texts of a length, apart from this thread if they are long.

    Tenants take turns. What it gets, returns or raises goes to the other process and back.
    """
    if length < LONG:
        return work(*given)
    async with _turns.turn():
        try:
            return await asyncio.get_running_loop().run_in_executor(_process, work, *given)
        except BrokenProcessPool:  # it was killed, perhaps for its memory
            _start()
            return await asyncio.to_thread(work, *given)


@contextmanager
def worker_process() -> Iterator[None]:
    """Within this block read long texts in a process, which ends with it or with this one."""
    global _process  # noqa: PLW0603
    _start()
    try:
        yield
    finally:
        ended, _process = _process, None
        running = list((ended and ended._processes or {}).values())
        if ended:
            ended.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.kill()


def _start() -> None:
    global _process  # noqa: PLW0603
    _process = ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """Leave the processors to who waits for answers, and signals to the daemon; end with it."""
    os.nice(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent := parent_process():
        ends = [parent.sentinel]
        threading.Thread(target=lambda: wait(ends) and os._exit(0), daemon=True).start()
