"""The statements that read and write notes and their categories."""

import json
from collections.abc import Mapping
from dataclasses import astuple

from butlers.db import queries
from butlers.db.queries import NamedQuery
from butlers.db.sqlite import MissingTable, Row, Value
from butlers.notebook.handle import Notebook
from butlers.notebook.model import (
    AgentMemory,
    CategoryResult,
    EnrichedMemory,
    MemoryCategory,
    MemoryStatus,
)

_QUERIES = queries.load(__file__)
COLUMNS = 9
"""How many columns of a row make a note."""

_VOCABULARY_TERMS = 50


def kept_rows(db: Notebook, query: NamedQuery, **values: Value) -> list[Row]:
    """Every row; none where the notebook goes on without the tables they would be in."""
    try:
        return db.sqlite.fetch(query, **values)
    except MissingTable:
        return []


def note(row: Row) -> AgentMemory:
    """The note in the first columns of a row."""
    note_id, owner, key, content, txid, status, archived, created_at, updated_at = row[:COLUMNS]
    known = MemoryStatus(status or MemoryStatus.PENDING)
    times = (created_at or "", updated_at or "")
    return AgentMemory(note_id, owner, key, content, txid, known, bool(archived), *times)


def enriched(memory: AgentMemory, found: CategoryResult | None) -> EnrichedMemory:
    """The note with its category, where it has one."""
    category = () if found is None else astuple(found)
    return EnrichedMemory(*astuple(memory), *category)


def upsert(db: Notebook, agent_id: str, key: str, content: str) -> AgentMemory:
    """Make or change the agent's note under this key; it is live afterwards."""
    (row,) = db.sqlite.fetch(
        _QUERIES["upsert_note"],
        id=str(db.new_id()),
        agent_id=agent_id,
        key=key,
        content=content,
        now=db.now_text(),
    )
    return note(row)


def get(db: Notebook, agent_id: str, key: str) -> AgentMemory | None:
    """The agent's note under this key, archived or not."""
    row = db.sqlite.fetch_one(_QUERIES["get_note"], agent_id=agent_id, key=key)
    return None if row is None else note(row)


def recent(db: Notebook, agent_id: str, limit: int) -> list[AgentMemory]:
    """The agent's live notes, the last changed first."""
    rows = db.sqlite.fetch(_QUERIES["recent_notes"], agent_id=agent_id, limit=limit)
    return [note(row) for row in rows]


def recent_of_category(db: Notebook, agent_id: str, category: str, limit: int) -> list[AgentMemory]:
    """The agent's live notes of a category; none where categories are not kept."""
    query = _QUERIES["recent_notes_of_category"]
    rows = kept_rows(db, query, agent_id=agent_id, category=category, limit=limit)
    return [note(row) for row in rows]


def get_category(db: Notebook, memory_id: str) -> CategoryResult | None:
    """The category a note was given; none where categories are not kept."""
    rows = kept_rows(db, _QUERIES["get_category"], memory_id=memory_id)
    return CategoryResult(MemoryCategory(rows[0][0]), rows[0][1]) if rows else None


def set_category(db: Notebook, memory_id: str, found: CategoryResult) -> None:
    """Keep the category of a note."""
    db.sqlite.execute(
        _QUERIES["set_category"],
        memory_id=memory_id,
        category=found.category,
        confidence=found.confidence,
        now=db.now_text(),
    )


def set_embedding(db: Notebook, memory_id: str, weights: Mapping[str, float]) -> None:
    """Keep the TF-IDF weights of a note, and its heaviest terms to read."""
    heaviest = sorted(weights, key=lambda term: (-weights[term], term))[:_VOCABULARY_TERMS]
    db.sqlite.execute(
        _QUERIES["set_embedding"],
        memory_id=memory_id,
        vector=json.dumps(weights, ensure_ascii=False),
        vocabulary=",".join(heaviest),
        now=db.now_text(),
    )
