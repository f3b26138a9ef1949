"""Checks of what a butler does by itself: its jobs, its clock, and what waits to be read."""

import asyncio
from collections.abc import AsyncIterator

from butlers.db.postgres import Access, Database
from butlers.doctor.finding import Finding, ok, warning
from butlers.embedding import get_embedding_engine
from butlers.host.database import replicas_of
from butlers.jobs import runs
from butlers.jobs.clock_watch import DOUBTED, ClockWatch
from butlers.jobs.policy import RunOutcome
from butlers.jobs.runs import Run
from butlers.memory.flows.conflicts import count_open
from butlers.memory.flows.doubts import count_doubts
from butlers.memory.flows.lifecycle import for_every_tenant
from butlers.memory.flows.lifecycle.episode_retention import backlog, count_unread, crowded
from butlers.memory.flows.quarantine import count_waiting
from butlers.memory.handle import Memory
from butlers.memory.settings import MemoryModuleConfig
from butlers.settings.sections import MODULE_JOBS, ButlerSettings

_READERS = "name a model in [runtime]"
_LONGEST_LOOK_SECONDS = 5.0
_LOOK = "`butlers jobs history` says more"


async def upkeep(settings: ButlerSettings, access: Access) -> list[Finding]:
    """How a butler whose database is up to date looks after itself."""
    section = settings.database
    database = await Database.open(
        access,
        pool_max=1,
        replicas=replicas_of(access, section.replica_urls, settings.butler.name),
        max_lag_seconds=section.max_lag_seconds,
    )
    try:
        findings = [await _clock(settings.butler.name, database)]
        findings += [one async for one in _replicas(settings, database)]
        findings += [one async for one in _jobs(settings, database)]
        if settings.is_enabled("memory"):
            findings += [one async for one in _unread(settings, database)]
            findings.append(await _review(settings, database))
            findings.append(await _conflicts(settings, database))
    finally:
        await database.close()
    return findings


async def _replicas(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    """Whether replicas can be read from: that one is too far behind shows only in time."""
    check, known = f"replicas of {settings.butler.name}", len(settings.database.replica_urls)
    if not known:
        return
    await database.look_at_replicas()
    await asyncio.sleep(min(settings.database.max_lag_seconds, _LONGEST_LOOK_SECONDS))
    await database.look_at_replicas()
    troubles = database.replica_troubles()
    for place, why in troubles.items():
        remedy = "check database.replica_urls and that server; till then others are read from"
        yield warning(check, f"{place}: {why}", remedy)
    if not troubles:
        yield ok(check, f"{known} can be read from")


async def _clock(name: str, database: Database) -> Finding:
    doubt = await ClockWatch(lambda: database).look()
    if doubt is None:
        return ok(f"clock of {name}", "nothing speaks against it")
    return warning(f"clock of {name}", doubt, "set it right, or say that it is")


async def _jobs(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    check = f"jobs of {settings.butler.name}"
    latest = await runs.find_latest(database, [*MODULE_JOBS, *settings.butler.schedule])
    remarkable = [run for run in latest.values() if run.remark and not _is_told(run, settings)]
    for run in remarkable:
        yield warning(check, f"{run.job} {run.remark}: {_reason(run)}", _LOOK)
    if not remarkable:
        yield ok(check, "the last runs went well" if latest else "none has run yet")


def _is_told(run: Run, settings: ButlerSettings) -> bool:
    """What kept a job from running is told as it is now: the clock, or that nobody reads."""
    is_clock = (run.error or "").startswith(DOUBTED)
    is_unread = settings.runtime.kind == "none" and run.job == "consolidate"
    return run.outcome is RunOutcome.SKIPPED and (is_clock or is_unread)


def _reason(run: Run) -> str:
    return run.error or "; ".join((run.result or {}).get("warnings", []))


def _memory(settings: ButlerSettings, database: Database) -> Memory:
    config = settings.module("memory")
    assert isinstance(config, MemoryModuleConfig)
    return Memory(database, get_embedding_engine, settings.butler.name, config)


async def _review(settings: ButlerSettings, database: Database) -> Finding:
    """What nobody is told of until a person has judged it."""
    memory, check = _memory(settings, database), f"review of {settings.butler.name}"
    counted = (await for_every_tenant(memory, "doctor", count_waiting)).done.values()
    held, proposed = (sum(counts) for counts in zip((0, 0), *counted, strict=True))
    doubted = sum((await for_every_tenant(memory, "doctor", count_doubts)).done.values())
    if not held + proposed + doubted:
        return ok(check, "nothing waits for a person's yes")
    told = f"wait for a person: {held} in quarantine, {proposed} proposed, {doubted} in doubt"
    return warning(check, told, "`butlers memory quarantine`, `proposals` and `doubts` list them")


async def _conflicts(settings: ButlerSettings, database: Database) -> Finding:
    """What is told although it excludes, or only repeats, something else."""
    memory, check = _memory(settings, database), f"conflicts of {settings.butler.name}"
    number = sum((await for_every_tenant(memory, "doctor", count_open)).done.values())
    if not number:
        return ok(check, "no two facts are known to exclude each other")
    told = f"pairs of facts that contradict or repeat each other: {number}"
    return warning(check, told, "`butlers memory conflicts` lists them, `settle` says what holds")


async def _unread(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    memory = _memory(settings, database)
    config = memory.settings
    counted = (await for_every_tenant(memory, "doctor", count_unread)).done
    check, told = f"unread of {settings.butler.name}", backlog(counted.values(), memory.now())
    is_read = settings.runtime.kind != "none" or not any(one.waiting for one in counted.values())
    if is_read:
        yield ok(check, told)
    elif config.episodes.keep_unread:
        yield warning(check, f"no model reads episodes ({told}); they are kept", _READERS)
    else:
        yield warning(check, f"no model reads episodes ({told}); they expire unread", _READERS)
    for tenant, one in counted.items():
        full = crowded(one, config.episodes)
        if full is not None:
            yield warning(check, f"tenant {tenant}: {full}", f"{_READERS}, or raise the bound")
