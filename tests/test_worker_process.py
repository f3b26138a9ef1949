"""Long texts are read in another process, which nothing outlives."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from butlers import worker_process
from butlers.errors import InvalidInput
from butlers.worker_process import LONG, read_apart
from butlers.worker_process import worker_process as within


def whoami(text: str) -> tuple[int, int, int]:
    return os.getpid(), threading.get_ident(), len(text)


def refuse(text: str) -> None:
    raise InvalidInput(f"content: found {len(text)} characters")


def end(text: str) -> int:
    if os.getpid() != int(text):
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def is_alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def until_gone(process: int) -> None:
    deadline = time.monotonic() + 20
    while is_alive(process):
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)


async def test_a_short_text_is_read_here_and_a_long_one_on_a_thread() -> None:
    here = os.getpid(), threading.get_ident()
    assert await read_apart(3, whoami, "abc") == (*here, 3)
    process, thread, _ = await read_apart(LONG, whoami, "abc")
    assert process == here[0] and thread != here[1]


@pytest.mark.slow
async def test_a_daemon_reads_a_long_text_in_a_process_that_ends_with_it() -> None:
    with within():
        process, _, length = await read_apart(LONG, whoami, "a" * 1_000_000)
        assert process != os.getpid() and length == 1_000_000
        assert (await read_apart(LONG, whoami, ""))[0] == process
        with pytest.raises(InvalidInput, match="found 7 characters"):
            await read_apart(LONG, refuse, "a" * 7)
    until_gone(process)
    assert (await read_apart(LONG, whoami, ""))[0] == os.getpid()


@pytest.mark.slow
async def test_a_process_that_was_killed_costs_no_text() -> None:
    with within():
        assert await read_apart(LONG, end, str(os.getpid())) == os.getpid()
        assert (await read_apart(LONG, whoami, ""))[0] != os.getpid()


@pytest.mark.slow
def test_the_process_ends_with_a_daemon_that_is_killed() -> None:
    program = (
        "import asyncio, os, time\n"
        "from butlers.worker_process import read_apart, worker_process\n"
        "async def main():\n"
        "    with worker_process():\n"
        "        print(await read_apart(9_999, os.getpid), flush=True)\n"
        "        time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        process = int(daemon.stdout.readline())
        assert is_alive(process) and process != daemon.pid
        daemon.kill()
    until_gone(process)
    assert worker_process._process is None
