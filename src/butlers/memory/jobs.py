"""The memory's own jobs: each does its flow for every tenant, and sums up what came of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from butlers.llm import LanguageModel
from butlers.memory.flows.consolidation.run import consolidate_all
from butlers.memory.flows.lifecycle import TenantReports, for_every_tenant
from butlers.memory.flows.lifecycle.decay_sweep import run_decay_sweep
from butlers.memory.flows.lifecycle.episode_retention import (
    Unread,
    backlog,
    count_unread,
    crowded,
    empty_bin,
    keep_unread,
    run_episode_cleanup,
)
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.settings import MemoryScheduleConfig
from butlers.module import HasBudget, Job, NotRun

_MAX_TOLD = 20
_NAME_ONE = "name one in [runtime] of butler.toml"
_COUNTED_ONLY = {
    "episodes_processed",
    "butlers_processed",
    "episodes_failed",
    "episodes_dead_lettered",
    "facts_checked",
    "rules_checked",
    "remaining",
    "tenants",
}
"""Numbers of a report that are no change of what is remembered."""


def memory_jobs(
    memory: Callable[[], Memory], model: LanguageModel | None, schedule: MemoryScheduleConfig
) -> list[Job]:
    """Consolidation, decay sweep and episode cleanup, at the module's own times.

    Each first moves on the expiry of what nobody has read: one of them runs often enough.
    """

    async def consolidate() -> dict[str, Any]:
        await _keep(memory(), "schedule:consolidate")
        return await _consolidate(memory(), model)

    async def decay_sweep() -> dict[str, Any]:
        await _keep(memory(), "schedule:decay_sweep")
        await _believe_clock(memory())
        return _summed(await for_every_tenant(memory(), "schedule:decay_sweep", _sweep))

    async def episode_cleanup() -> dict[str, Any]:
        return await _clean_up(memory(), "schedule:episode_cleanup")

    return [
        Job("consolidate", schedule.consolidate, consolidate),
        Job("decay_sweep", schedule.decay_sweep, decay_sweep),
        Job("episode_cleanup", schedule.episode_cleanup, episode_cleanup),
    ]


async def _keep(memory: Memory, actor: str) -> None:
    """Keep every tenant's unread episodes; a failure is logged, and left to the next job."""
    await for_every_tenant(memory, actor, keep_unread)


async def _believe_clock(memory: Memory) -> None:
    doubt = await memory.clock_doubt()
    if doubt is not None:
        raise NotRun(doubt)


async def _consolidate(memory: Memory, model: LanguageModel | None) -> dict[str, Any]:
    """Asked before any episode is claimed: with the budget used up there is nothing to do."""
    if model is None:
        counted = await for_every_tenant(memory, "schedule:consolidate", count_unread)
        waiting = backlog(counted.done.values(), memory.now())
        raise NotRun(f"no model ({waiting}); {_NAME_ONE}")
    if isinstance(model, HasBudget):
        await model.check()
    told = await consolidate_all(memory, model, "schedule:consolidate")
    errors = [f"{tenant}: {error}" for tenant, report in told.items() for error in report.errors]
    return _result((report.as_dict() for report in told.values()), errors)


async def _clean_up(memory: Memory, actor: str) -> dict[str, Any]:
    kept = await for_every_tenant(memory, actor, keep_unread)
    await _believe_clock(memory)

    async def clean_up_after(memory: Memory, lineage: Lineage) -> dict[str, Any]:
        # Nothing of a tenant is removed unless what nobody has read was kept before.
        if lineage.tenant_id not in kept.done:
            await keep_unread(memory, lineage)
        return await _clean_up_after(memory, lineage)

    result = _summed(await for_every_tenant(memory, actor, clean_up_after))
    unread = await for_every_tenant(memory, actor, count_unread)
    told = list(_crowded(memory, unread.done))[:_MAX_TOLD]
    return result | ({"warnings": told} if told else {})


async def _clean_up_after(memory: Memory, lineage: Lineage) -> dict[str, Any]:
    emptied = await empty_bin(memory, lineage)
    report = await run_episode_cleanup(memory, lineage)
    return {**asdict(report), "bin_emptied": emptied}


def _crowded(memory: Memory, unread: Mapping[str, Unread]) -> Iterable[str]:
    for tenant, found in unread.items():
        told = crowded(found, memory.settings.episodes)
        if told is not None:
            yield f"{tenant}: {told}"


async def _sweep(memory: Memory, lineage: Lineage) -> dict[str, Any]:
    return asdict(await run_decay_sweep(memory, lineage))


def _summed(reports: TenantReports[dict[str, Any]]) -> dict[str, Any]:
    errors = [f"{tenant}: {reason}" for tenant, reason in reports.failed.items()]
    return _result(reports.done.values(), errors)


def _result(reports: Iterable[Mapping[str, Any]], errors: list[str]) -> dict[str, Any]:
    """How many tenants there were, and the sum of every number in their reports."""
    told = list(reports)
    sums: dict[str, Any] = {"tenants": len(told)}
    for report in told:
        for name, value in report.items():
            if isinstance(value, int) and not isinstance(value, bool):
                sums[name] = sums.get(name, 0) + value
    if not errors:
        return sums
    changed = any(value for name, value in sums.items() if name not in _COUNTED_ONLY)
    return sums | {"changed": changed, "errors": errors[:_MAX_TOLD]}
