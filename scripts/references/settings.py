"""The reference of all settings, written from the models."""

from collections.abc import Iterator

from butlers.settings.database import HomeDatabaseSection
from butlers.settings.fields import SettingsTable, walk
from butlers.settings.sections import (
    BackupSection,
    ButlerSettings,
    FleetSection,
    SessionsSection,
)

HEAD = """\
# Settings

<!-- Written by `make docs`, and checked. -->

Each butler has a file `butlers/<name>/butler.toml` in the home directory, which is `$BUTLERS_HOME`
or `~/.butlers`. `butlers new NAME` writes one in which every setting stands with its default.
Settings are read once, when `butlers up` starts. A butler whose file has
an unknown key or a value that is not valid does not start; `butlers status` and `butlers doctor`
tell each fault: file, key, what was found and what is valid. The others are served.

The home may also have a file `butlers.toml`, with `[server]`, `[database]`, `[fleet]` and
`[sessions]` only:

- `[database]` there is the default of every butler; a key in a `butler.toml` wins for that butler.
  `connections` and `memory` are of all butlers together, and stand in `butlers.toml` alone.
- `[server]` is for the one process that serves the home. A key in `butlers.toml` wins. A key it
  leaves out may stand in any `butler.toml`; of two butlers that give it different values only
  the first, by name, starts. `allow_remote` must stand in the same file as the `host` it allows.
- `[fleet]` names butlers of other homes, `[sessions]` says how sessions of agents arrive; both
  stand in `butlers.toml` alone.

`[butler.schedule]` holds entries `name = { cron = "…", prompt = "…" }`. The entries `consolidate`,
`decay_sweep` and `episode_cleanup` run the memory's own jobs, need no prompt, and win over
`[modules.memory.schedule]`. Any other entry runs its prompt as a session. Cron expressions have
five fields, or six with the seconds first, and are in UTC; an empty one means never.
"""


def settings_markdown() -> str:
    """The whole reference."""
    of_home = [*walk(FleetSection, "fleet"), *walk(SessionsSection, "sessions")]
    of_home += walk(BackupSection, "backup")
    of_butlers = [table for table in walk(ButlerSettings, "") if table.path != "database"]
    tables = [*of_butlers, *walk(HomeDatabaseSection, "database"), *of_home]
    return "\n".join([HEAD, *(line for table in tables for line in _section(table))])


def _section(table: SettingsTable) -> Iterator[str]:
    yield from (f"## `[{table.path}]`", "", table.words, "")
    yield from ("| key | default | valid | meaning |", "|---|---|---|---|")
    for setting in table.settings:
        for one in setting.spread():
            default = "required" if one.default is None else f"`{one.default}`"
            yield f"| `{one.name}` | {default} | {one.valid} | {one.description} |"
    yield ""
