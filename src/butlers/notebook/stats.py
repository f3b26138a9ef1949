"""How much a notebook holds, and whose it is."""

from dataclasses import dataclass

from butlers.db import queries
from butlers.notebook.handle import Notebook, checked_agent
from butlers.notebook.store import kept_rows

_QUERIES = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class FileStats:
    """What the whole file holds."""

    agents: int
    notes: int


@dataclass(frozen=True, slots=True)
class AgentStats:
    """What one agent has written."""

    notes: int
    archived: int
    categories: dict[str, int]
    last_change: str | None


def file_stats(db: Notebook) -> FileStats:
    """How many agents have notes in this file, and how many live notes there are."""
    (row,) = db.sqlite.fetch(_QUERIES["count_file"])
    return FileStats(*row)


def agent_stats(db: Notebook, agent_id: str) -> AgentStats:
    """How many notes an agent has, of which categories, and when one changed last."""
    owner = checked_agent(agent_id)
    with db.sqlite.snapshot():
        ((notes, archived, last_change),) = db.sqlite.fetch(_QUERIES["count_notes"], agent_id=owner)
        categories: dict[str, int] = dict(
            kept_rows(db, _QUERIES["count_categories"], agent_id=owner)
        )
        return AgentStats(notes, archived, categories, last_change)


def find_owners(db: Notebook) -> list[str]:
    """The `agent_id` of everybody who ever wrote a note."""
    return [owner for (owner,) in db.sqlite.fetch(_QUERIES["find_owners"])]
