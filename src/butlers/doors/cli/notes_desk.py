"""What every notes command does: open the butler's notebook as one agent, ask, and let go."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from butlers.doors.cli.options import existing_home, known_butler

if TYPE_CHECKING:
    from butlers.butler.home import Home
    from butlers.notebook import (
        AgentMemory,
        EnrichedMemory,
        MemoryManager,
        SearchOptions,
        SearchResult,
    )
    from butlers.notebook.settings import NotebookModuleConfig


@dataclass(frozen=True)
class NotesDesk:
    """A butler's notebook, and the agent that a command is for."""

    home: "Home"
    butler: str
    config: "NotebookModuleConfig"
    tenant: str
    agent: str

    @property
    def owner(self) -> str:
        """The owner of the agent's notes."""
        from butlers.notebook import owner_id

        return owner_id(self.tenant, self.agent)

    @property
    def directory(self) -> Path:
        """Where the notebook's file is."""
        return self.home.butler_directory(self.butler)

    @contextmanager
    def opened(self) -> "Iterator[MemoryManager]":
        """The notebook, beside whoever else uses it; the butler's database is not needed."""
        from butlers.notebook.manager import open_manager

        manager = open_manager(self.directory, self.config)
        try:
            yield manager
        finally:
            manager.db.close()

    def limit(self, given: int | None) -> int:
        """How many notes are wanted."""
        return self.config.default_limit if given is None else given

    def named(self, manager: "MemoryManager", key: str) -> "EnrichedMemory":
        """The agent's note under this key."""
        from butlers.errors import NotFound

        found = manager.recall(self.owner, key)
        if found is None:
            raise NotFound(
                f"agent {self.agent} of tenant {self.tenant} has no note {key[:80]!r}; "
                "`butlers notes list` shows them"
            )
        return found

    def listed(
        self, manager: "MemoryManager", category: str | None, limit: int
    ) -> "list[AgentMemory]":
        """The agent's notes, of one category or of all."""
        from butlers.notebook.handle import checked_category

        chosen = checked_category(category)
        if chosen is None:
            return manager.list(self.owner, limit)
        return manager.list_by_category(self.owner, chosen, limit)

    async def search(self, query: str, wish: "SearchOptions") -> "SearchResult":
        """What a search finds; a deep one starts the butler, whose runtime and budget it uses."""
        if wish.get("mode") != "deep":
            with self.opened() as manager:
                return await manager.search(self.owner, query, wish)
        from butlers.butler.butler import opened_butler
        from butlers.notebook.module import NotebookModule

        async with opened_butler(self.home, self.butler) as butler:
            module = butler.module(NotebookModule.name)
            assert isinstance(module, NotebookModule)
            return await module.manager.search(self.owner, query, wish)

    def summarized(
        self, manager: "MemoryManager", *, everybody: bool, older_than_days: int | None
    ) -> dict[str, Any]:
        """What came of summarizing the agent's old notes, or everybody's."""
        import asyncio

        from butlers.notebook import summarize_old_memories
        from butlers.notebook.summarize import summarize_everybody

        days = self.config.summarize_after_days if older_than_days is None else older_than_days
        if everybody:
            return asyncio.run(summarize_everybody(manager.db, days))
        archived = summarize_old_memories(manager.db, self.owner, days)
        return {"agents": 1, "archived": archived, "errors": []}

    def stats(self, manager: "MemoryManager") -> dict[str, Any]:
        """How much the agent has, and the file."""
        from butlers.notebook.manager import FILE
        from butlers.notebook.stats import agent_stats, file_stats

        file = self.directory / FILE
        whole = {"path": str(file), "bytes": file.stat().st_size}
        found = asdict(agent_stats(manager.db, self.owner))
        return {**found, "file": {**whole, **asdict(file_stats(manager.db))}}

    def shown(self, note: "AgentMemory") -> dict[str, Any]:
        """A note as JSON shows it."""
        from butlers.notebook.results import Note

        return Note.of(note, self.agent).model_dump(mode="json")


def desk_of(butler: str, home: Path | None, tenant: str | None, agent: str | None) -> NotesDesk:
    """The desk of an agent; by default the one that callers without a token are."""
    from butlers.butler.tokens import validate_agent, validate_tenant
    from butlers.errors import Unavailable
    from butlers.logs import configure
    from butlers.settings.files import load_butler

    place = existing_home(home)
    file = place.butler_file(known_butler(place, butler))
    settings = load_butler(file, home_file=place.settings_file)
    configure("warning")
    if not settings.is_enabled("notebook"):
        raise Unavailable(
            f"butler {butler} does not have the notebook module; "
            "set modules.notebook.enabled = true in its butler.toml"
        )
    whose = validate_tenant(tenant) if tenant is not None else settings.butler.tenant
    who = validate_agent(agent or "") or butler
    return NotesDesk(place, butler, settings.modules.notebook, whose, who)
