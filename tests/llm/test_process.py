"""Programs that misbehave: they are stopped, and nothing of them is left."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from butlers.llm.process import MAX_OUTPUT_BYTES
from llm.models import failure, python


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_output_without_end_is_stopped(stream: str):
    code = f"import sys\nwhile True: sys.{stream}.write('x' * 65536)"
    started = time.monotonic()
    assert f"more than {MAX_OUTPUT_BYTES // 1024**2} MB" in await failure(python(code))
    assert time.monotonic() - started < 20


async def test_a_large_answer_within_the_limit_arrives_whole():
    size = MAX_OUTPUT_BYTES - 10
    assert len((await python(f"print('x' * {size})").complete("x")).text) == size


async def test_a_program_that_reads_nothing_may_answer():
    assert (await python("print('fine')").complete("x" * 2_000_000)).text == "fine"


FAMILY = """
import os, signal, subprocess, sys, time
late = "import signal, time, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \\
    "open(sys.argv[1], 'w').close(); time.sleep(float(sys.argv[3])); open(sys.argv[2], 'w').close()"
subprocess.Popen([sys.executable, "-I", "-c", late, *sys.argv[1:4]])
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("answer", flush=True)
if sys.argv[4] == "stay":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
"""


class Family:
    """A program whose own child ignores requests to end and would write a file later."""

    def __init__(self, directory: Path, manner: str) -> None:
        self.born, self.late = directory / "born", directory / "late"
        self.model = python(FAMILY, str(self.born), str(self.late), "4", manner)

    async def is_born(self) -> None:
        while not self.born.exists():
            await asyncio.sleep(0.02)

    async def is_gone(self) -> None:
        assert self.born.exists()
        # A process that was killed takes a moment to go; one that was not stays for seconds.
        patience = time.monotonic() + 1
        while processes_mentioning(str(self.born)) and time.monotonic() < patience:
            await asyncio.sleep(0.02)
        assert processes_mentioning(str(self.born)) == []
        await asyncio.sleep(0.1)
        assert not self.late.exists()


def processes_mentioning(text: str) -> list[int]:
    """Processes, zombies among them, whose command line mentions the text or whose parent is us."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if text.encode() in command or (state == "Z" and int(parent) == os.getpid()):
            found.append(int(entry.name))
    return found


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def family(tmp_path: Path) -> Callable[[str], Family]:
    return lambda manner: Family(tmp_path, manner)


@linux
async def test_a_slow_program_is_ended_with_all_its_children(family: Callable[[str], Family]):
    slow = family("stay")
    assert "did not answer within 1 s" in await failure(slow.model, timeout_seconds=1.0)
    await slow.is_gone()


@linux
async def test_cancellation_ends_the_program_with_all_its_children(
    family: Callable[[str], Family], scratch: Path
):
    cancelled = family("stay")
    task = asyncio.create_task(cancelled.model.complete("x"))
    await cancelled.is_born()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await cancelled.is_gone()
    assert {entry.name for entry in scratch.iterdir()} == {"born"}


@linux
async def test_an_impatient_second_cancellation_leaves_nothing_either(
    family: Callable[[str], Family],
):
    cancelled = family("stay")
    task = asyncio.create_task(cancelled.model.complete("x"))
    await cancelled.is_born()
    task.cancel()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.3)
    await cancelled.is_gone()


@linux
async def test_a_child_left_behind_holds_up_no_answer_and_is_ended(
    family: Callable[[str], Family],
):
    quick = family("leave")
    started = time.monotonic()
    assert (await quick.model.complete("x")).text == "answer"
    assert time.monotonic() - started < 3.5
    await quick.is_gone()


async def test_one_time_limit_holds_and_is_named_if_it_is_the_runtimes_own():
    model = python("import time; time.sleep(60)", timeout_seconds=0.3)
    assert "within 0.3 s; runtime.timeout_seconds allows more" in await failure(model)
    told = await failure(model, timeout_seconds=0.5)
    assert "within 0.5 s" in told and "runtime.timeout_seconds" not in told
