"""How much a notebook holds, and whose it is."""

from typing import Any

from butlers.db import queries
from butlers.notebook.handle import Notebook, checked_agent
from butlers.notebook.store import kept_rows

_QUERIES = queries.load(__file__)


def file_stats(db: Notebook) -> dict[str, Any]:
    """How many agents have notes in this file, and how many live notes there are."""
    (row,) = db.sqlite.fetch(_QUERIES["count_file"])
    return dict(zip(("agents", "notes"), row, strict=True))


def agent_stats(db: Notebook, agent_id: str) -> dict[str, Any]:
    """How many notes an agent has, of which categories, and when one changed last."""
    owner = {"agent_id": checked_agent(agent_id)}
    with db.sqlite.snapshot():
        ((notes, archived, changed),) = db.sqlite.fetch(_QUERIES["count_notes"], **owner)
        found: dict[str, int] = dict(kept_rows(db, _QUERIES["count_categories"], **owner))
    return {"notes": notes, "archived": archived, "categories": found, "last_change": changed}


def find_owners(db: Notebook) -> list[str]:
    """The `agent_id` of everybody who ever wrote a note."""
    return [owner for (owner,) in db.sqlite.fetch(_QUERIES["find_owners"])]
