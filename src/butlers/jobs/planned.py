"""The jobs of a butler: those of its modules, and the prompts of its schedule."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

from butlers.errors import SettingsError
from butlers.module import Job, Module
from butlers.settings.sections import ButlerSettings, ScheduledTask

RunPrompt: TypeAlias = Callable[[str, str], Awaitable[dict[str, Any]]]
"""Runs a prompt as a session, given the task's name and the prompt; what came of it."""

NO_SESSIONS = 'no session was run: runtime.kind in butler.toml is "none"'


class NotRun(Exception):
    """A job decided not to run; the message says why."""


def jobs_of(
    settings: ButlerSettings, modules: Sequence[Module], run_prompt: RunPrompt | None = None
) -> list[Job]:
    """Every job there is, by name; one whose cron is empty runs only when asked for."""
    tasks = settings.tasks()
    prompts = [_prompt_job(task, run_prompt) for task in tasks if task.module is None]
    jobs = [*_module_jobs(settings, modules, tasks), *prompts]
    names = [job.name for job in jobs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError([f"schedule: two jobs are named {name}" for name in twice])
    return jobs


def _module_jobs(
    settings: ButlerSettings, modules: Sequence[Module], tasks: Sequence[ScheduledTask]
) -> Iterator[Job]:
    crons = {(task.module, task.name): task.cron for task in tasks}
    for module in modules:
        # What the settings can set they decide, even if it is never.
        settable = dict(getattr(settings.module(module.name), "schedule", ()))
        for job in module.jobs():
            otherwise = "" if job.name in settable else job.cron
            yield Job(job.name, crons.get((module.name, job.name), otherwise), job.run)


def _prompt_job(task: ScheduledTask, run_prompt: RunPrompt | None) -> Job:
    async def run() -> dict[str, Any]:
        if run_prompt is None:
            raise NotRun(NO_SESSIONS)
        return await run_prompt(task.name, task.prompt)

    return Job(task.name, task.cron, run)
