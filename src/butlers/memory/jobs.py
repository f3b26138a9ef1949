"""The memory's own jobs: each does its flow for every tenant, and sums up what came of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from butlers.llm import LanguageModel
from butlers.memory.flows.consolidate import consolidate_all
from butlers.memory.flows.decay_sweep import run_decay_sweep
from butlers.memory.flows.episode_cleanup import run_episode_cleanup
from butlers.memory.flows.every_tenant import TenantReports, for_every_tenant
from butlers.memory.handle import Memory
from butlers.memory.settings import ScheduleConfig
from butlers.module import Job, Rationed

_MAX_ERRORS = 20


def memory_jobs(
    memory: Callable[[], Memory], model: LanguageModel | None, schedule: ScheduleConfig
) -> list[Job]:
    """Consolidation, decay sweep and episode cleanup, at the module's own times."""

    async def consolidate() -> dict[str, Any]:
        return await _consolidate(memory(), model)

    async def decay_sweep() -> dict[str, Any]:
        return _summed(await for_every_tenant(memory(), "schedule:decay_sweep", run_decay_sweep))

    async def episode_cleanup() -> dict[str, Any]:
        return _summed(
            await for_every_tenant(memory(), "schedule:episode_cleanup", run_episode_cleanup)
        )

    return [
        Job("consolidate", schedule.consolidate, consolidate),
        Job("decay_sweep", schedule.decay_sweep, decay_sweep),
        Job("episode_cleanup", schedule.episode_cleanup, episode_cleanup),
    ]


async def _consolidate(memory: Memory, model: LanguageModel | None) -> dict[str, Any]:
    """Asked before any episode is claimed: with the budget used up there is nothing to do."""
    if isinstance(model, Rationed):
        await model.check()
    told = await consolidate_all(memory, model, "schedule:consolidate")
    errors = [f"{tenant}: {error}" for tenant, report in told.items() for error in report.errors]
    result = _result((report.as_dict() for report in told.values()), errors)
    return result | {"dry_run": True} if model is None else result


def _summed(reports: TenantReports[Any]) -> dict[str, Any]:
    errors = [f"{tenant}: {reason}" for tenant, reason in reports.failed.items()]
    return _result(map(asdict, reports.done.values()), errors)


def _result(reports: Iterable[Mapping[str, Any]], errors: list[str]) -> dict[str, Any]:
    """How many tenants there were, and the sum of every number in their reports."""
    told = list(reports)
    sums: dict[str, Any] = {"tenants": len(told)}
    for report in told:
        for name, value in report.items():
            if isinstance(value, int) and not isinstance(value, bool):
                sums[name] = sums.get(name, 0) + value
    return sums | ({"errors": errors[:_MAX_ERRORS]} if errors else {})
