"""Export, import and erase a tenant's notes."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any
from urllib.parse import quote, unquote

from butlers.db import queries
from butlers.db.sqlite import Value
from butlers.errors import ButlersError, Conflict, InvalidInput
from butlers.notebook.core import adopt_notes
from butlers.notebook.handle import Notebook, checked_agent, checked_content, checked_key, owner_id
from butlers.notebook.model import AgentMemory

_QUERIES = queries.load(__file__)
COLUMNS = tuple(field.name.removesuffix("_id") for field in fields(AgentMemory))
"""The exported columns of a note; index, weights and references are computed again."""

_AT_ONCE = 500
_TEXTS = tuple(name for name in COLUMNS if name not in ("txid", "archived"))


def export_notes(db: Notebook, tenant: str) -> Iterator[dict[str, Any]]:
    """Yield every note of a tenant, by agent and key."""
    after = ("", "")
    prefix = f"{quote(tenant, safe='')}/"
    while True:
        rows = db.sqlite.fetch(
            _QUERIES["following"], agent_id=prefix, owner=after[0], key=after[1], limit=_AT_ONCE
        )
        for row in rows:
            note = dict(zip(COLUMNS, row, strict=True))
            yield {**note, "agent": unquote(str(note["agent"])[len(prefix) :])}
        if not rows:
            return
        after = (rows[-1][1], rows[-1][2])


def fault(note: dict[str, Any]) -> str:
    """Describe what is wrong with a note to import; empty if nothing is."""
    unknown = sorted(note.keys() - set(COLUMNS))
    if unknown:
        return f"a note has no {', '.join(unknown)}"
    missing = [name for name in _TEXTS if not isinstance(note.get(name), str)]
    if missing:
        return f"a note needs {', '.join(missing)} as text"
    is_known = note["status"] in ("pending", "confirmed") and note.get("archived") in (0, 1)
    return "" if is_known else "status is pending or confirmed, archived 0 or 1"


def bring(db: Notebook, tenant: str, notes: Iterable[tuple[int, dict[str, Any]]]) -> int:
    """Import notes with their line numbers, all or none; return how many were new."""
    stored = 0
    with db.sqlite.transaction():
        for number, note in notes:
            try:
                stored += _bring_one(db, tenant, note)
            except ButlersError as error:
                raise InvalidInput(f"line {number}: {error}; no note was written") from error
    adopt_notes(db)
    return stored


def _bring_one(db: Notebook, tenant: str, note: dict[str, Any]) -> int:
    owner = checked_agent(owner_id(tenant, note["agent"]))
    row: dict[str, Value] = {**{name: note.get(name) for name in COLUMNS}, "agent": owner}
    row["key"] = checked_key(note["key"], db.limits)
    row["content"] = checked_content(note["content"], db.limits)
    known = db.sqlite.fetch_one(_QUERIES["known"], id=note["id"], agent_id=owner, key=row["key"])
    if known is None:
        db.sqlite.execute(_QUERIES["insert"], **row)
        return 1
    if known != (note["id"], owner):
        raise Conflict(f"there is another note under {note['key'][:80]!r}")
    return 0


def find(
    db: Notebook, tenant: str, wanted: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """List the notes of a tenant that the predicate accepts."""
    return [note for note in export_notes(db, tenant) if wanted(note)]


def erase(db: Notebook, ids: Iterable[str]) -> None:
    """Delete notes and overwrite their pages in the file, index included."""
    sqlite = db.sqlite
    sqlite.execute(_QUERIES["overwrite"])
    with sqlite.transaction():
        sqlite.execute(_QUERIES["delete"], ids=json.dumps(list(ids)))
        sqlite.execute(_QUERIES["optimize"])
    sqlite.execute(_QUERIES["vacuum"])
    sqlite.execute(_QUERIES["checkpoint"])
