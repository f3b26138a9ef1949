"""The agents that a butler can be connected to: a table each, described in README.md beside it."""

import difflib
import glob
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from butlers.errors import InvalidInput
from butlers.kernel.word_tables import load_tables

SNIPPET = "mcp-json"
"""The name under which settings are printed for an agent without a table."""


@dataclass(frozen=True, slots=True)
class Agent:
    """What is known about an agent: its files, its events, and what it cannot do."""

    name: str
    table: Mapping[str, Any]

    @property
    def is_found(self) -> bool:
        """Whether this machine has its program, or this user its directory."""
        directories = map(self._expanded, self.table.get("directories", ()))
        programs = map(shutil.which, self.table.get("commands", ()))
        return any(programs) or any(directory.is_dir() for directory in directories)

    @property
    def has_hooks(self) -> bool:
        """Whether it runs our hook, by its settings or in a file of ours."""
        return bool({"hooks", "files"} & self.table.keys())

    @property
    def transcripts(self) -> Path | None:
        """The directory of its sessions, if it has one that is searched."""
        table = self.table.get("transcripts", {})
        return self._expanded(table["directory"]) if "pattern" in table else None

    def memories(self) -> list[Path]:
        """List the directories of notes that it takes by itself, the latest first."""
        pattern = str(self._expanded(self.table["memories"])) if "memories" in self.table else ""
        found = [Path(place) for place in glob.glob(pattern) if any(Path(place).glob("*.md"))]
        return sorted(found, key=lambda place: place.stat().st_mtime, reverse=True)

    def file(self, part: str, project: Path | None) -> Path | None:
        """Return the settings file for a part of a connection: the first that exists, or is read.

        Without a project it is the user's. None if the agent reads no such file.
        """
        names = self.table.get(part, {}).get("project" if project else "user", ())
        files = [project / name if project else self._expanded(name) for name in names]
        return next((file for file in files if file.exists()), files[0] if files else None)

    def own_file(self, table: Mapping[str, Any], project: Path | None, server: str) -> Path:
        """Return where a file of ours goes that this agent runs."""
        name = table["project" if project else "user"].replace("{server}", server)
        return project / name if project else self._expanded(name)

    def _expanded(self, name: str, environment: Mapping[str, str] = os.environ) -> Path:
        """Return a path of the user, in the directories that the environment chooses."""
        for variable, prefixes in self.table.get("variables", {}).items():
            for prefix in prefixes if environment.get(variable) else ():
                if f"{name}/".startswith(f"{prefix}/"):
                    return Path(environment[variable] + name.removeprefix(prefix))
        if self.table.get("application_support") and sys.platform == "darwin":
            name = name.replace("~/.config", "~/Library/Application Support", 1)
        return Path(environment.get("HOME") or Path.home()) / name.removeprefix("~/")


@cache
def agent_names() -> list[str]:
    """List the agents by name, those with a table of their own first."""
    names = (file.stem for file in Path(__file__).parent.glob("*.toml"))
    return sorted(names, key=lambda name: (name == SNIPPET, name))


@cache
def load_agent(name: str) -> Agent:
    """Load an agent's table; InvalidInput names those there are, and the nearest."""
    if name not in agent_names():
        near = difflib.get_close_matches(name, agent_names(), 1, 0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InvalidInput(f"agent: found {name!r}; {hint}valid: {', '.join(agent_names())}")
    return Agent(name, load_tables(__file__, f"{name}.toml"))
