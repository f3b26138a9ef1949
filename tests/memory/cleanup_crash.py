"""A process that cleans up and is killed at a chosen step; the parent says which, line by line.

    python cleanup_crash.py RUNTIME_DSN        stdin: STEP INSTANT     stdout: killed | STEPS

Steps are those of `consolidation_crash.py`.
"""

import asyncio
import os
import signal
import sys
from datetime import datetime

from butlers.db.postgres import Access, Database, Transaction
from butlers.memory.flows.lifecycle import episode_retention
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from conftest import ToyEmbedder
from memory.consolidation_crash import STATEMENTS, Fate


async def clean_up(dsns: str, step: int, at: datetime) -> int:
    fate, lineage = Fate(step), Lineage("acme", "jobs")
    for name in STATEMENTS:
        setattr(Transaction, name, fate.before(getattr(Transaction, name)))
    Database.transaction = fate.around_commits(Database.transaction)  # type: ignore[method-assign]
    episode_retention.BATCH = episode_retention.KEEP_BATCH = 2
    database = await Database.open(Access(*dsns.split()), pool_max=2)
    memory = Memory(database, ToyEmbedder, "general", now=lambda: at)
    await episode_retention.keep_unread(memory, lineage)
    await episode_retention.empty_bin(memory, lineage)
    await episode_retention.run_episode_cleanup(memory, lineage)
    await database.close()
    return fate.seen


def main() -> None:
    for line in sys.stdin:
        step, instant = line.split()
        child = os.fork()
        if child == 0:
            seen = asyncio.run(clean_up(sys.argv[1], int(step), datetime.fromisoformat(instant)))
            print(seen, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            print("killed", flush=True)
        elif status != 0:
            print("failed", flush=True)


if __name__ == "__main__":
    main()
