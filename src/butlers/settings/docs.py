"""The reference of all settings, written from the models."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from butlers.kernel.sections import InlineSection
from butlers.settings.faults import is_section, leaf_fields, valid_text
from butlers.settings.fleet import FleetSection, RemoteButler
from butlers.settings.sections import ButlerSettings, ScheduleEntry
from butlers.settings.toml_text import toml_value

HEAD = """\
# Settings

<!-- Written by `python -m butlers.settings.docs docs/settings.md`, and checked. -->

Each butler has a file `butlers/<name>/butler.toml` in the home directory, which is `$BUTLERS_HOME`
or `~/.butlers`. `butlers new NAME` writes one in which every setting stands with its default.
Settings are read once, when `butlers up` starts. An unknown key or a value that is not valid stops
the start with one line for each fault: file, key, what was found and what is valid.

The home may also have a file `butlers.toml`, with `[server]`, `[database]` and `[fleet]` only:

- `[database]` there is the default of every butler; a key in a `butler.toml` wins for that butler.
- `[server]` is for the one process that serves the home. A key in `butlers.toml` wins. A key it
  leaves out may stand in any `butler.toml`; two butlers that give it different values stop the
  start. `allow_remote` must stand in the same file as the `host` it allows.
- `[fleet]` names butlers of other homes; it stands in `butlers.toml` alone.

`[butler.schedule]` holds entries `name = { cron = "…", prompt = "…" }`. The entries `consolidate`,
`decay_sweep` and `episode_cleanup` run the memory's own jobs, need no prompt, and win over
`[modules.memory.schedule]`. Any other entry runs its prompt as a session. Cron expressions have
five fields, or six with the seconds first, and are in UTC; an empty one means never.
"""


def settings_markdown() -> str:
    """The whole reference."""
    return "\n".join([HEAD, *_sections(ButlerSettings, ""), *_section(FleetSection, "fleet")])


def _sections(model: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if is_section(field.annotation):
            yield from _section(field.annotation, f"{path}{name}")


def _section(model: type[BaseModel], path: str) -> Iterator[str]:
    fields = leaf_fields(model)
    if fields:
        yield from (f"## `[{path}]`", "", model.__doc__ or "", "")
        yield from ("| key | default | valid | meaning |", "|---|---|---|---|")
        yield from (row for name, field in fields.items() for row in _rows(name, field))
        yield ""
    yield from _sections(model, f"{path}.")


def _rows(name: str, field: FieldInfo) -> Iterator[str]:
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, InlineSection):
        for key, inner in kind.model_fields.items():
            yield _row(f"{name}.{key}", inner)
    elif ScheduleEntry in get_args(kind):
        for key, inner in ScheduleEntry.model_fields.items():
            yield _row(f"{name}.<task>.{key}", inner)
    elif RemoteButler in get_args(kind):
        for key, inner in RemoteButler.model_fields.items():
            yield _row(f"{name}.<n>.{key}", inner)
    else:
        yield _row(name, field)


def _row(key: str, field: FieldInfo) -> str:
    default = "required" if field.is_required() else f"`{toml_value(field.get_default())}`"
    valid = valid_text(field.annotation, field.metadata)
    return f"| `{key}` | {default} | {valid} | {field.description} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(settings_markdown(), "utf-8")
