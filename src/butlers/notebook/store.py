"""Statements that read, write and count notes and their categories."""

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple
from typing import Any

from butlers.db import queries
from butlers.db.queries import NamedQuery
from butlers.db.sqlite import MissingTable, Row, Value
from butlers.notebook.handle import Notebook, checked_agent
from butlers.notebook.model import (
    AgentMemory,
    CategoryResult,
    EnrichedMemory,
    MemoryCategory,
    MemoryStatus,
)

_QUERIES = queries.load(__file__)
COLUMNS = 9
"""How many columns of a row belong to the note."""

_VOCABULARY_TERMS = 50


def kept_rows(db: Notebook, query: NamedQuery, **values: Value) -> list[Row]:
    """Fetch rows of an optional table; none if the table does not exist."""
    try:
        return db.sqlite.fetch(query, **values)
    except MissingTable:
        return []


def note(row: Row) -> AgentMemory:
    """Build a note from the first columns of a row."""
    note_id, owner, key, content, txid, status, archived, created_at, updated_at = row[:COLUMNS]
    known = MemoryStatus(status or MemoryStatus.PENDING)
    times = (created_at or "", updated_at or "")
    return AgentMemory(note_id, owner, key, content, txid, known, bool(archived), *times)


def enriched(memory: AgentMemory, result: CategoryResult | None) -> EnrichedMemory:
    """Add its category to a note."""
    category = () if result is None else astuple(result)
    return EnrichedMemory(*astuple(memory), *category)


def upsert(db: Notebook, agent_id: str, key: str, content: str) -> AgentMemory:
    """Create or change the agent's note under this key; it is live afterwards."""
    values = {"agent_id": agent_id, "key": key, "content": content, "now": db.now_text()}
    (row,) = db.sqlite.fetch(_QUERIES["upsert_note"], id=str(db.new_id()), **values)
    return note(row)


def get(db: Notebook, agent_id: str, key: str) -> AgentMemory | None:
    """Read the agent's note under this key, archived or not."""
    row = db.sqlite.fetch_one(_QUERIES["get_note"], agent_id=agent_id, key=key)
    return None if row is None else note(row)


def recent(
    db: Notebook, agent_id: str, limit: int, category: str | None = None
) -> list[AgentMemory]:
    """List the agent's live notes, all or of a category, last changed first."""
    owned: dict[str, Value] = {"agent_id": agent_id, "limit": limit}
    if category is None:
        rows = db.sqlite.fetch(_QUERIES["recent_notes"], **owned)
    else:
        rows = kept_rows(db, _QUERIES["recent_notes_of_category"], category=category, **owned)
    return [note(row) for row in rows]


def get_category(db: Notebook, memory_id: str) -> CategoryResult | None:
    """Read the category of a note; None without the table of categories."""
    rows = kept_rows(db, _QUERIES["get_category"], memory_id=memory_id)
    return CategoryResult(MemoryCategory(rows[0][0]), rows[0][1]) if rows else None


def set_category(db: Notebook, memory_id: str, result: CategoryResult) -> None:
    """Store the category of a note."""
    values = {"memory_id": memory_id, "now": db.now_text(), **asdict(result)}
    db.sqlite.execute(_QUERIES["set_category"], **values)


def set_embedding(db: Notebook, memory_id: str, weights: Mapping[str, float]) -> None:
    """Store the TF-IDF weights of a note, and its heaviest terms for people."""
    heaviest = sorted(weights, key=lambda term: (-weights[term], term))[:_VOCABULARY_TERMS]
    values = {"vector": json.dumps(weights, ensure_ascii=False), "vocabulary": ",".join(heaviest)}
    db.sqlite.execute(_QUERIES["set_embedding"], memory_id=memory_id, now=db.now_text(), **values)


def file_stats(db: Notebook) -> dict[str, Any]:
    """Count the agents and the live notes of the file."""
    (row,) = db.sqlite.fetch(_QUERIES["count_file"])
    return dict(zip(("agents", "notes"), row, strict=True))


def agent_stats(db: Notebook, agent_id: str) -> dict[str, Any]:
    """Count an agent's notes by category, with the time of the last change."""
    owner = {"agent_id": checked_agent(agent_id)}
    with db.sqlite.snapshot():
        ((notes, archived, changed),) = db.sqlite.fetch(_QUERIES["count_notes"], **owner)
        rows = kept_rows(db, _QUERIES["count_categories"], **owner)
    return {"notes": notes, "archived": archived, "categories": dict(rows), "last_change": changed}


def find_owners(db: Notebook) -> list[str]:
    """List the `agent_id` of everybody who ever wrote a note."""
    return [owner for (owner,) in db.sqlite.fetch(_QUERIES["find_owners"])]
