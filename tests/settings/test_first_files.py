"""The files a home begins with, and the reference, say what the models say."""

import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from butlers.settings.files import load_butler, load_home
from butlers.settings.first_files import butler_toml, home_toml
from butlers.settings.sections import ButlerSettings, HomeSettings
from references.settings import settings_markdown
from settings.test_sections import crons

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
def test_a_new_file_holds_the_plan_as_written():
    new = butler_toml("general")
    for line in PLAN.splitlines()[1:]:
        assert line in new.splitlines()


def test_a_new_file_says_what_the_defaults_are(file):
    file.write_text(butler_toml("general", 'Runs "the" house\n[at] C:\\'))
    schedule = tomllib.loads(PLAN)["butler"]["schedule"]
    expected = defaults(description='Runs "the" house\n[at] C:\\', schedule=schedule)
    assert load_butler(file) == expected
    assert crons(load_butler(file)) == crons(defaults())


def test_a_new_file_with_every_setting_uncommented_says_the_same(file):
    file.write_text(uncommented(butler_toml("general")))
    schedule = tomllib.loads(PLAN)["butler"]["schedule"]
    settings = load_butler(file)
    assert settings == defaults(schedule=schedule)
    assert unset(settings) == []


def test_a_new_home_file_says_what_the_defaults_are(tmp_path):
    file = tmp_path / "butlers.toml"
    file.write_text(home_toml())
    assert load_home(file) == HomeSettings()
    file.write_text(uncommented(home_toml()))
    assert load_home(file) == HomeSettings()
    assert unset(load_home(file)) == []


def uncommented(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(
        line[1:] if line.startswith("#") and line[1:2] != " " else line for line in lines
    )


def unset(settings: BaseModel, path: str = "") -> list[str]:
    """The settings that the file did not give, by their dotted keys."""
    missing = [
        f"{path}{key}" for key in type(settings).model_fields.keys() - settings.model_fields_set
    ]
    for key, value in settings:
        if isinstance(value, BaseModel):
            missing += unset(value, f"{path}{key}.")
    return missing


def test_the_reference_is_up_to_date():
    reference = Path(__file__).parents[2] / "docs" / "settings.md"
    assert reference.read_text("utf-8") == settings_markdown()


def test_every_setting_is_described():
    assert undescribed(ButlerSettings) == []


def undescribed(model: type[BaseModel]) -> list[str]:
    found = [name for name, field in model.model_fields.items() if not field.description]
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += undescribed(field.annotation)
    return found
