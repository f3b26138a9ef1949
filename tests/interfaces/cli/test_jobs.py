"""`butlers jobs` and `butlers cost`, beside a daemon and without one."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, until, up
from interfaces.furnished import furnished_home

BUTLER = """
[butler.schedule]
decay_sweep = { cron = "* * * * * *" }
episode_cleanup = { cron = "" }
consolidate = { cron = "0 0 29 2 *" }
greet = { cron = "0 9 * * 1", prompt = "Greet me" }

[runtime]
kind = "command"
command = ["sh", "-c", '''while [ -e HOME/wait ]; do sleep 0.1; done; echo 'ANSWER' ''']
"""
ANSWER = '{"new_facts": [], "updated_facts": [], "new_rules": [], "confirmations": []}'


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general", "kitchen") as home:
        home.create_butler("general")
        home.create_butler("kitchen")
        home.butler_file("kitchen").write_text(
            BUTLER.replace("HOME", str(home.root)).replace("ANSWER", ANSWER)
        )
        yield home


@pytest.fixture(scope="module")
def daemon(home: Home) -> Iterator[Daemon]:
    with up(home) as daemon:
        yield daemon


def jobs(home: Home, *arguments: str, code: int = 0, **how: Any) -> str:
    told = butlers("jobs", *arguments, "--home", home.root, **how)
    assert told.returncode == code, told.stderr
    assert "Traceback" not in told.stderr
    return told.stdout if code == 0 else told.stdout + told.stderr


def query(home: Home, butler: str, statement: str, *values: object) -> Any:
    async def fetch() -> Any:
        connection = await asyncpg.connect(DatabaseServer(home).running_url(butler))
        try:
            return await connection.fetchval(statement, *values)
        finally:
            await connection.close()

    return asyncio.run(fetch())


@pytest.mark.contract("P3")
def test_without_a_daemon_jobs_are_listed_run_and_remembered(home: Home) -> None:
    listed = jobs(home).splitlines()
    assert listed[0].split("  ")[0] == "job"
    assert all(title in listed[0] for title in ("cron", "next run", "last run", "outcome"))
    assert [line.split()[0] for line in listed[1:]] == [
        "consolidate", "decay_sweep", "episode_cleanup", "check_store",
    ]  # fmt: skip
    assert all("never" in line for line in listed[1:])
    assert "decay_sweep: ok in" in jobs(home, "run", "decay_sweep")
    (run,) = json.loads(jobs(home, "history", "decay_sweep", "--json"))
    assert (run["cause"], run["outcome"], run["attempt"]) == ("request", "ok", 1)
    planned = {job["name"]: job for job in json.loads(jobs(home, "--json"))}
    assert planned["decay_sweep"]["last"] == run
    assert planned["decay_sweep"]["next_at"].endswith("T03:00:00+00:00")
    assert planned["consolidate"]["last"] is None


@pytest.mark.contract("P3", "L23", "R32.1", "N4.2")
def test_the_daemon_keeps_the_schedule_of_each_butler(home: Home, daemon: Daemon) -> None:
    def ran() -> int:
        count = "select count(*) from job_runs where job = 'decay_sweep' and outcome = 'ok'"
        return int(query(home, "kitchen", count))

    until(lambda: ran() >= 2)
    planned = {job["name"]: job for job in json.loads(jobs(home, "-b", "kitchen", "--json"))}
    assert list(planned) == [
        "consolidate", "decay_sweep", "episode_cleanup", "check_store", "greet",
    ]  # fmt: skip
    assert planned["decay_sweep"]["last"]["worker"].endswith(f":{daemon.process.pid}")
    assert (planned["episode_cleanup"]["cron"], planned["episode_cleanup"]["next_at"]) == ("", None)
    assert planned["greet"]["cron"] == "0 9 * * 1"
    assert planned["consolidate"]["last"] is None
    assert "error" not in {json.loads(line)["level"] for line in daemon.log.splitlines()}


@pytest.mark.contract("L23")
def test_beside_a_daemon_a_job_runs_now_and_its_cost_is_told(home: Home, daemon: Daemon) -> None:
    told = json.loads(jobs(home, "run", "greet", "--butler", "kitchen", "--json"))
    assert (told["outcome"], told["result"]["answer"]) == ("ok", ANSWER)
    assert "episode_cleanup: ok" in jobs(home, "-b", "kitchen", "run", "episode_cleanup")
    assert query(home, "kitchen", "select count(*) from episodes") == 1
    told = jobs(home, "run", "consolidate", "-b", "kitchen")
    assert "episodes processed 1" in " ".join(told.split())
    cost = butlers("cost", "--butler", "kitchen", "--home", home.root, "--json")
    assert cost.returncode == 0, cost.stderr
    spent = json.loads(cost.stdout)
    assert spent["days"][0]["runs"] == spent["total"]["runs"] == 2
    assert (spent["today"]["runs"], spent["limits"]["runs"]) == (1, 48)
    shown = butlers("cost", "--butler", "kitchen", "--home", home.root).stdout.splitlines()
    assert all(title in shown[0] for title in ("day", "runs", "failed", "tokens", "cost (USD)"))
    assert shown[-1].startswith("today: 1 of 48 runs (daily_max_runs); 0 tokens, no limit")


@pytest.fixture
def slow(home: Home) -> Iterator["subprocess.Popen[bytes]"]:
    """A command that runs a job which goes on until it is stopped."""
    (home.root / "wait").touch()
    command = ["-m", "butlers", "jobs", "run", "greet", "-b", "kitchen", "--home", str(home.root)]
    with subprocess.Popen(
        [sys.executable, *command],
        env=ENVIRONMENT,
        # Tests started in the background of a shell are deaf to Ctrl-C, and so are their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            yield process
        finally:
            (home.root / "wait").unlink()


def test_a_job_that_is_under_way_is_not_run_beside_itself(
    home: Home, daemon: Daemon, slow: "subprocess.Popen[bytes]"
) -> None:
    running = "select count(*) from job_runs where job = 'greet' and outcome = 'running'"
    until(lambda: query(home, "kitchen", running) == 1 or slow.poll() is not None)
    refused = jobs(home, "run", "greet", "-b", "kitchen", code=1)
    worker = f"{socket.gethostname()}:{slow.pid}"
    assert refused.startswith(f"butlers: greet is being run by {worker};")
    assert f"running by {worker}" in " ".join(jobs(home, "-b", "kitchen").split())
    slow.send_signal(signal.SIGINT)
    assert slow.wait(timeout=30) != 0
    (last, *_) = json.loads(jobs(home, "history", "greet", "-b", "kitchen", "--json"))
    assert (last["outcome"], last["error"]) == ("failed", "stopped before it was done")


def test_a_job_that_fails_ends_the_command_with_an_error(home: Home, daemon: Daemon) -> None:
    file = home.butler_file("kitchen")
    kept = file.read_text()
    file.write_text(kept.replace('["sh", "-c"', '["false", "-c"'))
    try:
        told = jobs(home, "run", "greet", "-b", "kitchen", code=1)
    finally:
        file.write_text(kept)
    assert "greet: failed in" in told


def test_without_a_runtime_a_prompt_is_skipped(home: Home, daemon: Daemon) -> None:
    file = home.butler_file("kitchen")
    kept = file.read_text()
    file.write_text(kept.replace('kind = "command"', 'kind = "none"'))
    try:
        told = json.loads(jobs(home, "run", "greet", "-b", "kitchen", "--json"))
    finally:
        file.write_text(kept)
    assert told["outcome"] == "skipped"
    assert 'runtime.kind in butler.toml is "none"' in told["error"]


def test_a_job_that_does_not_exist_is_refused_in_one_line(home: Home) -> None:
    told = jobs(home, "run", "fly", code=1)
    assert told.splitlines() == [
        "butlers: there is no job 'fly'; "
        "there are: consolidate, decay_sweep, episode_cleanup, check_store"
    ]
