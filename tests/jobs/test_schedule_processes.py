"""The schedule kept by real processes, some of which are killed."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from butlers.db.postgres import Access
from interfaces.daemons import ENVIRONMENT, until

WORKER = Path(__file__).parent / "schedule_worker.py"


class Workers:
    """Processes that keep the same schedule and write into one file."""

    def __init__(self, dsns: str, file: Path) -> None:
        self._dsns = dsns
        self._file = file
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, cron: str, lease: float, seconds: float) -> subprocess.Popen[bytes]:
        arguments = [self._dsns, cron, str(lease), str(seconds), str(self._file)]
        process = subprocess.Popen([sys.executable, WORKER, *arguments], env=ENVIRONMENT)
        self.processes.append(process)
        until(lambda: self.said("ready", process.pid))
        return process

    def said(self, word: str, pid: int | None = None) -> int:
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return sum(line == f"{word} {pid}" if pid else line.startswith(word) for line in lines)

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(timeout=20)


@pytest.fixture
def workers(
    core_access: Access, core_owner: asyncpg.Connection, tmp_path: Path
) -> Iterator[Workers]:
    workers = Workers(f"{core_access.owner_dsn} {core_access.runtime_dsn}", tmp_path / "work")
    yield workers
    workers.stop()


async def in_a_moment(owner: asyncpg.Connection) -> str:
    """A cron expression for one instant, soon; known already, however late a process comes."""
    now = datetime.now(UTC)
    soon = now + timedelta(seconds=2)
    cron = f"{soon.second} {soon.minute} {soon.hour} {soon.day} {soon.month} *"
    await owner.execute("insert into job_schedules values ('work', $1, $2)", cron, now)
    return cron


@pytest.mark.contract("L23")
async def test_processes_that_keep_one_schedule_run_each_tick_once(
    workers: Workers, core_owner: asyncpg.Connection
) -> None:
    for _ in range(3):
        workers.start("* * * * * *", lease=5, seconds=0.05)
    until(lambda: workers.said("ended") >= 5)
    workers.stop()
    runs = await core_owner.fetch("select fire_at, outcome, attempt, result from job_runs")
    assert {run["attempt"] for run in runs} == {1}
    began = workers.said("began")
    assert began == workers.said("ended")
    assert Counter(run["outcome"] for run in runs)["ok"] == began
    assert len({run["fire_at"] for run in runs}) == len(runs)


@pytest.mark.contract("L23")
async def test_the_run_of_a_killed_process_is_taken_over(
    workers: Workers, core_owner: asyncpg.Connection
) -> None:
    cron = await in_a_moment(core_owner)
    first = workers.start(cron, lease=2, seconds=60)
    until(lambda: workers.said("began", first.pid))
    first.kill()
    second = workers.start(cron, lease=2, seconds=0.1)
    until(lambda: workers.said("ended", second.pid))
    workers.stop()
    runs = await core_owner.fetch("select outcome, attempt, worker, result from job_runs")
    assert [(run["outcome"], run["attempt"]) for run in runs] == [("ok", 2)]
    assert runs[0]["worker"].endswith(f":{second.pid}")
    assert workers.said("began") == 2


async def test_a_live_process_keeps_its_run_for_longer_than_the_lease(
    workers: Workers, core_owner: asyncpg.Connection
) -> None:
    cron = await in_a_moment(core_owner)
    workers.start(cron, lease=2, seconds=6)
    workers.start(cron, lease=2, seconds=6)
    until(lambda: workers.said("ended"))
    workers.stop()
    runs = await core_owner.fetch("select outcome, attempt from job_runs")
    assert [(run["outcome"], run["attempt"]) for run in runs] == [("ok", 1)]
    assert workers.said("began") == 1


async def test_a_process_that_is_told_to_stop_says_so(
    workers: Workers, core_owner: asyncpg.Connection
) -> None:
    cron = await in_a_moment(core_owner)
    process = workers.start(cron, lease=30, seconds=60)
    until(lambda: workers.said("began"))
    workers.stop()
    assert process.returncode == 0
    run = await core_owner.fetchrow("select outcome, error from job_runs")
    assert run is not None
    assert dict(run) == {"outcome": "failed", "error": "stopped before it was done"}
