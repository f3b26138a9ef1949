"""Write the first, commented `butler.toml` and `butlers.toml` from the models."""

import textwrap
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from butlers.kernel.word_tables import load_tables
from butlers.settings.fields import Setting, SettingsTable, toml_value, walk
from butlers.settings.sections import ButlerSettings, HomeSettings

WIDTH = 100
_TEXTS = load_tables(__file__)
ACTIVE = frozenset(
    f"{path}.{key}" for path, keys in _TEXTS["active"].items() for key in keys.split()
)
TABLES, NOTES = _TEXTS["tables"], _TEXTS["notes"]


def butler_toml(name: str, description: str = "") -> str:
    """Write a new butler's file: every setting with its default and its meaning."""
    own = {"butler.name": toml_value(name), "butler.description": toml_value(description)}
    return _file(_TEXTS["butler_head"], ButlerSettings, own)


def home_toml() -> str:
    """Write a new home's file: every setting for all butlers, commented out."""
    return _file(_TEXTS["home_head"], HomeSettings, {})


def _file(head: str, model: type[BaseModel], own: Mapping[str, str]) -> str:
    tables = [line for table in walk(model, "") for line in _section(table, own)]
    return "\n".join([*_comment(head), *tables]) + "\n"


def _section(table: SettingsTable, own: Mapping[str, str]) -> Iterator[str]:
    yield from _header(table.path, table.words)
    keys = {f"{table.path}.{setting.name}": setting for setting in table.settings}
    for key, setting in keys.items():
        if key not in TABLES:
            yield from _setting(key, setting, own)
    for key in keys.keys() & TABLES.keys():
        yield from (*_header(key, ""), *TABLES[key])


def _header(path: str, words: str) -> Iterator[str]:
    yield from ("", *_comment(f"{words} {NOTES.get(path, '')}".strip()), f"[{path}]")


def _setting(key: str, setting: Setting, own: Mapping[str, str]) -> Iterator[str]:
    is_choice = setting.valid.startswith("one of")
    choices = f"{setting.valid.capitalize()}." if is_choice else ""
    yield from _comment(f"{setting.description} {choices}".strip())
    if key in own:
        yield f"{setting.name} = {own[key]}"
    else:
        yield f"{'' if key in ACTIVE else '#'}{setting.name} = {setting.default}"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
