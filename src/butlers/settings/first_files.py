"""Write the first, commented `butler.toml` and `butlers.toml` from the models."""

import textwrap
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from butlers.settings.fields import Setting, SettingsTable, toml_value, walk
from butlers.settings.sections import ButlerSettings, HomeSettings

WIDTH = 100
# Settings that a new file sets; the others are commented out.
_ACTIVE = {
    "modules.memory": "enabled embedding_model embedding_dimensions",
    "modules.memory.episodes": "default_ttl_days max_entries",
    "modules.memory.facts": "retrieval_confidence_threshold expiry_confidence_threshold",
    "modules.memory.rules": "promote_to_established promote_to_proven harmful_to_antipattern",
    "modules.memory.retrieval": "default_limit default_mode context_token_budget score_weights",
}
ACTIVE = frozenset(f"{table}.{key}" for table, keys in _ACTIVE.items() for key in keys.split())
# Tables with keys of the user's choice, and their lines in a new file.
TABLES = {
    "butler.schedule": (
        'consolidate = { cron = "0 */6 * * *", prompt = "Run memory consolidation" }',
        'decay_sweep = { cron = "0 3 * * *", prompt = "Run confidence decay sweep" }',
        'episode_cleanup = { cron = "0 4 * * *", prompt = "Expire old episodes" }',
    )
}
BUTLER_HEAD = (
    "Settings of one butler. A line that begins with # and no space is a setting at its default: "
    "remove the # to change it. Settings are read when the butler starts."
)
HOME_HEAD = (
    "Settings for every butler of this home. A line that begins with # and no space is a setting "
    "at its default: remove the # to change it. [server] here wins over [server] of any butler; "
    "[database] is the default of every butler; connections and memory can only be set here."
)
NOTES = {
    "butler.schedule": (
        "consolidate, decay_sweep and episode_cleanup run the memory's own jobs, and their cron "
        "here wins over [modules.memory.schedule]. Any other entry runs its prompt in a session. "
        'cron = "" means never.'
    ),
    "server": (
        "One process serves all butlers of a home: butlers.toml wins, and butlers that set the "
        "same key must agree. Set allow_remote in the same file as host."
    ),
}


def butler_toml(name: str, description: str = "") -> str:
    """Write a new butler's file: every setting with its default and its meaning."""
    own = {"butler.name": toml_value(name), "butler.description": toml_value(description)}
    return _file(BUTLER_HEAD, ButlerSettings, own)


def home_toml() -> str:
    """Write a new home's file: every setting for all butlers, commented out."""
    return _file(HOME_HEAD, HomeSettings, {})


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
