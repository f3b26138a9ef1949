"""What a butler's file says: overrides, modules and the schedule."""

import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from butlers.errors import NotFound
from butlers.host.registry import KNOWN
from butlers.jobs.policy import jobs_of
from butlers.memory.settings import MemoryModuleConfig
from butlers.module import ButlerEnvironment
from butlers.settings.files import load_butler
from butlers.settings.sections import ButlerSettings
from host.toy_modules import settings_for, toy

PLAN = (Path(__file__).parents[1] / "data" / "memory_plan.toml").read_text("utf-8")


@pytest.fixture
def file(tmp_path):
    return butler_file(tmp_path, "general")


def butler_file(home: Path, name: str, text: str = "") -> Path:
    file = home / "butlers" / name / "butler.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    return file


def defaults(**butler) -> ButlerSettings:
    return ButlerSettings.model_validate({"butler": {"name": "general", **butler}})


@pytest.mark.contract("P4")
def test_the_plan_parses_to_the_defaults(file):
    file.write_text(PLAN)
    settings = load_butler(file)
    assert settings.modules.memory == MemoryModuleConfig()
    assert settings == defaults(schedule=tomllib.loads(PLAN)["butler"]["schedule"])


@pytest.mark.contract("R23.1")
def test_an_empty_file_is_a_butler_with_all_defaults(file):
    assert load_butler(file) == defaults()


@pytest.mark.contract("R23.2", "P4")
def test_a_file_overrides_the_defaults(file):
    changed = PLAN.replace("default_limit = 20", "default_limit = 3").replace("= 7\n", "= 30\n")
    file.write_text(changed)
    memory = load_butler(file).module("memory")
    assert isinstance(memory, MemoryModuleConfig)
    assert memory.retrieval.default_limit == 3
    assert memory.episodes.default_ttl_days == 30


def test_the_password_of_the_database_is_in_no_representation(file):
    file.write_text("[database]\nurl = 'postgresql://bob:hunter2@db/x'\n")
    settings = load_butler(file)
    assert "hunter2" in settings.database.url
    assert "hunter2" not in repr(settings) + str(settings)


class CalendarSettings(BaseModel):
    """Settings of a module the house is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    days: int = 7


def test_a_module_the_house_is_given_has_its_section():
    calendar = toy("calendar", settings_model=CalendarSettings)
    modules = {"calendar": {"days": 3}, "memory": {"enabled": False}}
    settings = settings_for(calendar, modules=modules)
    assert settings.module("calendar") == CalendarSettings(days=3)
    assert settings.is_enabled("calendar")
    assert not settings.is_enabled("memory")
    with pytest.raises(NotFound):
        settings.module("diary")


def crons(settings: ButlerSettings) -> dict[str, str]:
    """When each job runs that the butler has by these settings; none that never does."""
    enabled = (name for name in KNOWN if settings.is_enabled(name))
    modules = [KNOWN[name](ButlerEnvironment("general"), settings.module(name)) for name in enabled]
    return {job.name: job.cron for job in jobs_of(settings, modules) if job.cron}


@pytest.mark.contract("P3")
def test_the_memory_jobs_run_every_six_hours_and_daily():
    assert crons(defaults()) == {
        "consolidate": "0 */6 * * *",
        "decay_sweep": "0 3 * * *",
        "episode_cleanup": "0 4 * * *",
        "check_store": "30 4 * * *",
    }


@pytest.mark.contract("P3", "L23")
def test_the_schedule_of_the_butler_wins_and_other_entries_are_prompts(file):
    file.write_text("""
        [butler.schedule]
        consolidate = { cron = "*/5 * * * *", prompt = "ignored" }
        episode_cleanup = { cron = "" }
        report = { cron = "0 9 * * 1", prompt = "Report the week" }
        [modules.memory.schedule]
        consolidate = "0 1 * * *"
        decay_sweep = "0 2 * * *"
        [modules.notebook]
        enabled = true
    """)
    assert crons(load_butler(file)) == {
        "consolidate": "*/5 * * * *",
        "decay_sweep": "0 2 * * *",
        "check_store": "30 4 * * *",
        "summarize": "30 4 * * *",
        "report": "0 9 * * 1",
    }


def test_a_disabled_memory_has_no_jobs(file):
    file.write_text(PLAN.replace("enabled = true", "enabled = false"))
    assert crons(load_butler(file)) == {}
