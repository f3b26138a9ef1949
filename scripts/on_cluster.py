"""Run tests over a distributed database: a Citus cluster on loopback, for one run.

    python scripts/on_cluster.py DIRECTORY [arguments of pytest]

DIRECTORY holds Citus built for the embedded PostgreSQL, and `cluster`, which starts it.
"""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg

WORKERS = 3
"""The last of them is not added to the cluster: tests let it join later."""


def main(citus: str, *arguments: str) -> int:
    """Return the status of pytest, once the cluster is stopped again."""
    with tempfile.TemporaryDirectory(prefix="butlers-cluster-") as directory:
        os.chmod(directory, 0o755)
        port = _free_ports()
        command = [sys.executable, str(Path(citus) / "cluster"), directory]
        command += ["--port", str(port), "--workers", str(WORKERS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
            try:
                assert cluster.stdout is not None
                url, *workers, spare = cluster.stdout.readline().split()
                asyncio.run(_join(url, workers))
                cluster_of_run = {
                    "BUTLERS_TEST_CLUSTER": url,
                    "BUTLERS_TEST_CLUSTER_DIRECTORY": directory,
                    "BUTLERS_TEST_CLUSTER_SPARE": spare,
                }
                # An interrupt reaches pytest as well, which ends in order and is waited for.
                signal.signal(signal.SIGINT, lambda *_: None)
                tests = [sys.executable, "-m", "pytest", *arguments]
                environment = {**os.environ, **cluster_of_run}
                return subprocess.run(tests, env=environment, check=False).returncode
            finally:
                cluster.send_signal(signal.SIGTERM)


def _free_ports() -> int:
    """Return the first of as many free ports in a row as there are servers."""
    while True:
        # Below the ports of outgoing connections, which other tests open meanwhile.
        first = random.randrange(20_000, 32_000)
        if all(_is_free(first + number) for number in range(1 + WORKERS)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def _join(url: str, workers: list[str]) -> None:
    """Add the workers to the coordinator's `postgres` database, as the owner of a cluster does."""
    coordinator = await asyncpg.connect(url)
    for worker in workers:
        host, _, port = worker.partition(":")
        there = await asyncpg.connect(url, host=host, port=int(port))
        await there.execute("create extension if not exists citus")
        await there.close()
    await coordinator.execute("create extension if not exists citus")
    own = int(url.rpartition(":")[2].partition("/")[0])
    await coordinator.fetchval("select citus_set_coordinator_host('127.0.0.1', $1)", own)
    for worker in workers:
        host, _, port = worker.partition(":")
        await coordinator.fetchval("select citus_add_node($1, $2)", host, int(port))
    # As few as let every node hold several: what many would show is the same, only later.
    await coordinator.execute("alter system set citus.shard_count = 4")
    await coordinator.fetchval("select pg_reload_conf()")
    await coordinator.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
