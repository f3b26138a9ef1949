"""The commented files a home begins with, written from the models so that they cannot drift."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Literal, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from butlers.settings.faults import is_section, leaf_fields, valid_text
from butlers.settings.sections import ButlerSettings, HomeSettings
from butlers.settings.toml_text import toml_string, toml_value

WIDTH = 100
# The settings most worth knowing stand in a new file as they are; the others are commented out.
ACTIVE = frozenset(
    {
        "modules.memory.enabled",
        "modules.memory.embedding_model",
        "modules.memory.embedding_dimensions",
        "modules.memory.episodes.default_ttl_days",
        "modules.memory.episodes.max_entries",
        "modules.memory.facts.retrieval_confidence_threshold",
        "modules.memory.facts.expiry_confidence_threshold",
        "modules.memory.rules.promote_to_established",
        "modules.memory.rules.promote_to_proven",
        "modules.memory.rules.harmful_to_antipattern",
        "modules.memory.retrieval.default_limit",
        "modules.memory.retrieval.default_mode",
        "modules.memory.retrieval.context_token_budget",
        "modules.memory.retrieval.score_weights",
    }
)
# A table whose keys are the user's own, with what it holds in a new file.
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
    "[database] is what a butler uses unless its own butler.toml says otherwise."
)
NOTES = {
    "butler.schedule": (
        "consolidate, decay_sweep and episode_cleanup run the memory's own jobs, and their cron "
        "here wins over [modules.memory.schedule]; any other entry runs its prompt as a session. "
        'cron = "" means never.'
    ),
    "server": (
        "One process serves all butlers of a home: what butlers.toml says there wins, and butlers "
        "that set the same key must agree. allow_remote stands in the same file as host."
    ),
}


def butler_toml(name: str, description: str = "") -> str:
    """A new butler's file: every setting there is, with its default and a line of meaning."""
    own = {"butler.name": toml_string(name), "butler.description": toml_string(description)}
    return _joined([*_comment(BUTLER_HEAD), *_sections(ButlerSettings, "", own)])


def home_toml() -> str:
    """A new home's file: every setting that holds for all butlers, commented out."""
    return _joined([*_comment(HOME_HEAD), *_sections(HomeSettings, "", {})])


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _sections(model: type[BaseModel], path: str, own: Mapping[str, str]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if is_section(field.annotation):
            yield from _section(field.annotation, f"{path}{name}", own)
        elif f"{path}{name}" in TABLES:
            yield from _header(f"{path}{name}", "")
            yield from TABLES[f"{path}{name}"]


def _section(model: type[BaseModel], path: str, own: Mapping[str, str]) -> Iterator[str]:
    values = [name for name in leaf_fields(model) if f"{path}.{name}" not in TABLES]
    if values:
        yield from _header(path, model.__doc__ or "")
    for name in values:
        yield from _setting(f"{path}.{name}", name, model.model_fields[name], own)
    yield from _sections(model, f"{path}.", own)


def _header(path: str, words: str) -> Iterator[str]:
    yield from ("", *_comment(f"{words} {NOTES.get(path, '')}".strip()), f"[{path}]")


def _setting(key: str, name: str, field: FieldInfo, own: Mapping[str, str]) -> Iterator[str]:
    yield from _comment(f"{field.description} {_choices(field)}".strip())
    if key in own:
        yield f"{name} = {own[key]}"
    else:
        yield f"{'' if key in ACTIVE else '#'}{name} = {toml_value(field.get_default())}"


def _choices(field: FieldInfo) -> str:
    if get_origin(field.annotation) is not Literal:
        return ""
    return valid_text(field.annotation, ()).capitalize() + "."


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
