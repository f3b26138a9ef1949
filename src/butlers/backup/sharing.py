"""Which home keeps a database that several serve: the one that kept it last, or who comes first.

It is on record in the database itself, as a run of a job, so that each is kept once.
"""

import socket
from collections.abc import Mapping
from datetime import datetime, timedelta

from butlers.db.postgres import Database
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.jobs import runs
from butlers.jobs.policy import Cause, RunOutcome
from butlers.jobs.runs import Ending, Hold, Run

_JOB = ".backup"
_KEPT_RUNS = 20
GRACE = timedelta(minutes=15)
"""How long after its time a backup is left to the home that made the last one."""


async def kept_elsewhere(
    home: Home, butlers: Mapping[str, Butler], tick: datetime, now: datetime
) -> dict[str, str] | None:
    """The butlers whose databases another home keeps this time, and which; None while one waits."""
    here, found = f"{socket.gethostname()}:{home.root}", {}
    for name, butler in butlers.items():
        if butler.settings.database.url and butler.is_open:
            keeper = await _keeper(butler.database, here, tick, now)
            if keeper is None:
                return None
            if keeper != here:
                found[name] = keeper
    return found


async def _keeper(database: Database, here: str, tick: datetime, now: datetime) -> str | None:
    """Who keeps a database this time: we, if nobody else does or should."""
    async with database.system_transaction() as tx:
        await runs.take_turn(tx, job=_JOB)
        last = (await runs.find_latest(database, [_JOB])).get(_JOB)
        if last is not None and last.fire_at >= tick:
            return last.worker
        if not is_ours(last, here, tick, now):
            return None
        claim = await runs.start(tx, _JOB, tick, Cause.SCHEDULE, Hold(here, now, now))
        await runs.settle(tx, claim, Ending(RunOutcome.OK), now)
        await runs.prune(tx, job=_JOB, kept=_KEPT_RUNS)
    return here


def is_ours(last: Run | None, here: str, tick: datetime, now: datetime) -> bool:
    """Whether to keep what nobody has kept yet: if we did last, or whoever did is late."""
    return last is None or last.worker == here or now - tick >= GRACE
