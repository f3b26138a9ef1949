"""The jobs of a butler: those of its modules, and the prompts of its schedule."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from butlers.errors import SettingsError
from butlers.module import Job, Module, NotRun
from butlers.settings.sections import MODULE_JOBS, ButlerSettings

RunPrompt: TypeAlias = Callable[[str, str], Awaitable[dict[str, Any]]]
"""Runs a prompt as a session, given the task's name and the prompt; what came of it."""

NO_SESSIONS = 'no session was run: runtime.kind in butler.toml is "none"'


def jobs_of(
    settings: ButlerSettings, modules: Sequence[Module], run_prompt: RunPrompt | None = None
) -> list[Job]:
    """Every job there is, by name; one whose cron is empty runs only when asked for."""
    jobs = [*_module_jobs(settings, modules), *_prompt_jobs(settings, run_prompt)]
    names = [job.name for job in jobs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError([f"schedule: two jobs are named {name}" for name in twice])
    return jobs


def _module_jobs(settings: ButlerSettings, modules: Sequence[Module]) -> Iterator[Job]:
    for module in modules:
        settable = getattr(settings.module(module.name), "butler_jobs", ())
        for job in module.jobs():
            entry = settings.butler.schedule.get(job.name) if job.name in settable else None
            yield job if entry is None else replace(job, cron=entry.cron)


def _prompt_jobs(settings: ButlerSettings, run_prompt: RunPrompt | None) -> Iterator[Job]:
    for name, entry in settings.butler.schedule.items():
        if entry.cron and name not in MODULE_JOBS:
            yield Job(name, entry.cron, partial(_run, run_prompt, name, entry.prompt))


async def _run(run_prompt: RunPrompt | None, name: str, prompt: str) -> dict[str, Any]:
    if run_prompt is None:
        raise NotRun(NO_SESSIONS)
    return await run_prompt(name, prompt)
