"""Files of an earlier version: their notes are counted and categorized as new ones are."""

import json

import structlog

from butlers.db import queries
from butlers.db.sqlite import Row
from butlers.errors import Unavailable
from butlers.notebook import store, terms
from butlers.notebook.categories import categorize
from butlers.notebook.handle import Notebook
from butlers.notebook.model import AgentMemory
from butlers.notebook.tokens import term_counts

_QUERIES = queries.load(__file__)
_log = structlog.get_logger(__name__)
VERSION = 1
"""Higher whenever terms or categories of a text are no longer what they were; see `set_version`."""

_AT_ONCE = 200


def renew_notes(db: Notebook) -> None:
    """Every note of the file follows this version; a file that cannot be written stays as it is.

    Others may use the file meanwhile. Cut off, it begins again and passes over what is done.
    """
    try:
        if _version(db) < VERSION:
            _renew_all(db)
            db.sqlite.execute(_QUERIES["set_version"])
    except Unavailable as error:
        _log.warning("notes are found as an earlier version counted them", error=str(error))


def _version(db: Notebook) -> int:
    row = db.sqlite.fetch_one(_QUERIES["get_version"])
    return 0 if row is None else int(row[0])


def _renew_all(db: Notebook) -> None:
    after: str | None = ""
    while after is not None:
        with db.sqlite.transaction():
            rows = db.sqlite.fetch(_QUERIES["following_notes"], id=after, limit=_AT_ONCE)
            for row in rows:
                _renew(db, row)
        after = rows[-1][0] if rows else None


def _renew(db: Notebook, row: Row) -> None:
    """Change what differs; what has not been counted or categorized at all is not ours to judge."""
    memory, counted = store.note(row), row[store.COLUMNS]
    if counted is not None:
        _recount(db, memory, json.loads(counted))
    known, found = store.get_category(db, memory.id), categorize(memory.key, memory.content)
    if known not in (None, found):
        store.set_category(db, memory.id, found)


def _recount(db: Notebook, memory: AgentMemory, counted: dict[str, int]) -> None:
    counts = term_counts(memory.key, memory.content)
    if counts != counted:
        db.sqlite.execute(_QUERIES["reenter_note"], memory_id=memory.id)
        terms.count_terms(db, memory.id, counts)
