"""A process that keeps a schedule of one job, for tests to run and to kill.

Arguments: DSN, cron, seconds of lease, seconds the job takes, file to write to.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from butlers.db.postgres import Access, Database
from butlers.jobs.schedule import Schedule, ScheduleIntervals
from butlers.module import Job


async def main(dsns: str, cron: str, lease: float, seconds: float, file: Path) -> None:
    async def work() -> dict[str, int]:
        with file.open("a") as out:
            out.write(f"began {os.getpid()}\n")
        await asyncio.sleep(seconds)
        with file.open("a") as out:
            out.write(f"ended {os.getpid()}\n")
        return {"pid": os.getpid()}

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    database = await Database.open(Access(*dsns.split()))
    pace = ScheduleIntervals(lease_seconds=lease, look_seconds=0.2, grace_seconds=2)
    with file.open("a") as out:
        out.write(f"ready {os.getpid()}\n")
    try:
        await Schedule(database, [Job("work", cron, work)], pace=pace).keep(stop)
    finally:
        await database.close()


if __name__ == "__main__":
    dsns, cron, lease, seconds, file = sys.argv[1:]
    asyncio.run(main(dsns, cron, float(lease), float(seconds), Path(file)))
