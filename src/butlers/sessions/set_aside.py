"""Sessions that were set aside in the spool, as the inbox lists them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from butlers.sessions.spool_entries import SpoolEntries


def list_sessions_aside(home: Path, butler: str) -> list[dict[str, Any]]:
    """List the sessions of a butler that could not be stored and wait for a person."""
    entries = SpoolEntries(home).set_aside_before()
    unknown = dict.fromkeys(("memory_type", "subject", "predicate", "origin", "stored_by"))
    return [
        unknown
        | {"kind": "session", "id": entry.session, "content": f"session {entry.session}"}
        | {"other": str(entry.file), "why": str(entry.told.get("why"))}
        | {"since": datetime.fromtimestamp(entry.left_at, UTC)}
        for entry in entries
        if entry.butler == butler
    ]
