"""Write docs/settings.md from the settings models."""

from collections.abc import Iterator
from typing import get_args, get_origin

from butlers.settings.fields import Setting, SettingsTable, is_model, walk
from butlers.settings.sections import (
    BackupSection,
    ButlerSettings,
    FleetSection,
    HomeDatabaseSection,
    SessionsSection,
)

HEAD = """\
# Settings

<!-- Written by `make docs`, and checked. -->

Each butler has a file `butlers/<name>/butler.toml` in the home, which is `$BUTLERS_HOME` or
`~/.butlers`. `butlers new NAME` writes one that lists every setting with its default. Change a
setting, then restart the daemon: it reads settings when it starts.

A butler whose file has an unknown key or an invalid value does not start. `butlers status` and
`butlers doctor` name the file, the key, the value and what is valid. Other butlers are served.
A key that was a setting in the last version is ignored with a warning.

The home may also have a file `butlers.toml`:

- `[database]` is the default for every butler; a key in a `butler.toml` overrides it for that
  butler. `connections` and `memory` are shared by all butlers and go into `butlers.toml` only.
- `[server]` configures the daemon. A key in `butlers.toml` wins. Any other key may be in a
  `butler.toml`; if two butlers give it different values, only the first one by name starts. Put
  `allow_remote` into the same file as the `host` it allows.
- `[fleet]`, `[sessions]` and `[backup]` go into `butlers.toml` only.

`[butler.schedule]` has entries `name = { cron = "…", prompt = "…" }`. The entries `consolidate`,
`decay_sweep` and `episode_cleanup` run the memory's own jobs, need no prompt, and override
`[modules.memory.schedule]`. Any other entry asks its prompt in a session. Cron expressions have
five fields, or six with the seconds first, and are in UTC; an empty one means never.
"""


def settings_markdown() -> str:
    """Write the whole page."""
    of_home = [*walk(FleetSection, "fleet"), *walk(SessionsSection, "sessions")]
    of_home += walk(BackupSection, "backup")
    of_butlers = [table for table in walk(ButlerSettings, "") if table.path != "database"]
    tables = [*of_butlers, *walk(HomeDatabaseSection, "database"), *of_home]
    return "\n".join([HEAD, *(line for table in tables for line in _section(table))])


def _section(table: SettingsTable) -> Iterator[str]:
    yield from (f"## `[{table.path}]`", "", table.words, "")
    yield from ("| key | default | valid | meaning |", "|---|---|---|---|")
    for setting in table.settings:
        for key in _keys(setting):
            default = "required" if key.default is None else f"`{key.default}`"
            yield f"| `{key.name}` | {default} | {key.valid} | {key.description} |"
    yield ""


def _keys(setting: Setting) -> list[Setting]:
    """List the keys of the tables that a setting holds; the setting itself if it holds none."""
    table, suffix = setting.kind, ""
    if not is_model(table):
        items = [arg for arg in get_args(table) if is_model(arg)]
        suffix = ".<n>" if get_origin(table) is tuple else ".<task>"
        table = items[-1] if items else None
    fields = table.model_fields if is_model(table) else {}
    name = f"{setting.name}{suffix}"
    return [Setting.of(f"{name}.{key}", field) for key, field in fields.items()] or [setting]
