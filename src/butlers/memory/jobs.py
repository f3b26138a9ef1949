"""The memory's own jobs: each runs a flow for every tenant, and adds up the reports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from butlers.llm import LanguageModel
from butlers.memory.flows.check import NIGHTLY, StoreCheck
from butlers.memory.flows.consolidation.run import consolidate_all
from butlers.memory.flows.lifecycle import TenantReports, for_every_tenant
from butlers.memory.flows.lifecycle.decay_sweep import run_decay_sweep
from butlers.memory.flows.lifecycle.episode_retention import (
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

_MOST_LISTED = 20
_NO_CHANGE = {
    "episodes_processed", "butlers_processed", "episodes_failed", "episodes_dead_lettered",
    "facts_checked", "rules_checked", "remaining", "tenants",
}  # fmt: skip
"""Numbers of a report that are no change of what is remembered."""


def memory_jobs(
    memory: Callable[[], Memory], model: LanguageModel | None, schedule: MemoryScheduleConfig
) -> list[Job]:
    """Return consolidation, decay sweep, episode cleanup and check, at their scheduled times.

    Each of the first three extends the expiry of unread episodes: one of them runs often enough.
    """

    async def consolidate() -> dict[str, Any]:
        return await _consolidate(memory(), model, "schedule:consolidate")

    async def decay_sweep() -> dict[str, Any]:
        return await _sweep(memory(), "schedule:decay_sweep")

    async def episode_cleanup() -> dict[str, Any]:
        return await _clean_up(memory(), "schedule:episode_cleanup")

    async def check_store() -> dict[str, Any]:
        report = await StoreCheck(memory(), limit=NIGHTLY).run()
        lines = report.lines[:_MOST_LISTED]
        return {"checked": report.checked, **({"errors": lines} if lines else {})}

    return [
        Job("consolidate", schedule.consolidate, consolidate),
        Job("decay_sweep", schedule.decay_sweep, decay_sweep),
        Job("episode_cleanup", schedule.episode_cleanup, episode_cleanup),
        Job("check_store", schedule.check_store, check_store),
    ]


async def _consolidate(memory: Memory, model: LanguageModel | None, actor: str) -> dict[str, Any]:
    """Consolidate every tenant; check the budget before any episode is claimed."""
    await for_every_tenant(memory, actor, keep_unread)
    if model is None:
        counted = await for_every_tenant(memory, actor, count_unread)
        waiting = backlog(counted.done.values(), memory.now())
        raise NotRun(f"no model ({waiting}); name one in [runtime] of butler.toml")
    if isinstance(model, HasBudget):
        await model.check()
    reports = await consolidate_all(memory, model, actor)
    errors = [f"{tenant}: {error}" for tenant, report in reports.items() for error in report.errors]
    return _result((report.as_dict() for report in reports.values()), errors)


async def _sweep(memory: Memory, actor: str) -> dict[str, Any]:
    async def sweep(memory: Memory, lineage: Lineage) -> dict[str, Any]:
        return asdict(await run_decay_sweep(memory, lineage))

    await for_every_tenant(memory, actor, keep_unread)
    await _check_clock(memory)
    return _summed(await for_every_tenant(memory, actor, sweep))


async def _clean_up(memory: Memory, actor: str) -> dict[str, Any]:
    kept = await for_every_tenant(memory, actor, keep_unread)
    await _check_clock(memory)

    async def clean_up(memory: Memory, lineage: Lineage) -> dict[str, Any]:
        # Nothing of a tenant is removed unless its unread episodes were kept before.
        if lineage.tenant_id not in kept.done:
            await keep_unread(memory, lineage)
        emptied = await empty_bin(memory, lineage)
        return {**asdict(await run_episode_cleanup(memory, lineage)), "bin_emptied": emptied}

    result = _summed(await for_every_tenant(memory, actor, clean_up))
    unread, settings = await for_every_tenant(memory, actor, count_unread), memory.settings.episodes
    described = {tenant: crowded(counted, settings) for tenant, counted in unread.done.items()}
    warnings = [f"{tenant}: {warning}" for tenant, warning in described.items() if warning]
    return result | ({"warnings": warnings[:_MOST_LISTED]} if warnings else {})


async def _check_clock(memory: Memory) -> None:
    doubt = await memory.clock_doubt()
    if doubt is not None:
        raise NotRun(doubt)


def _summed(reports: TenantReports[dict[str, Any]]) -> dict[str, Any]:
    errors = [f"{tenant}: {reason}" for tenant, reason in reports.failed.items()]
    return _result(reports.done.values(), errors)


def _result(reports: Iterable[Mapping[str, Any]], errors: list[str]) -> dict[str, Any]:
    """Return how many tenants there were, and the sum of every number in their reports."""
    sums = {"tenants": 0}
    for report in reports:
        sums["tenants"] += 1
        for name, value in report.items():
            if isinstance(value, int) and not isinstance(value, bool):
                sums[name] = sums.get(name, 0) + value
    if not errors:
        return sums
    changed = any(value for name, value in sums.items() if name not in _NO_CHANGE)
    return sums | {"changed": changed, "errors": errors[:_MOST_LISTED]}
