"""Merge old notes with the same key prefix into one summary, and archive them."""

import json
import re
from collections import defaultdict
from datetime import UTC, timedelta
from typing import Any

import structlog

from butlers.db import queries
from butlers.errors import ButlersError, InvalidInput
from butlers.notebook import core, store
from butlers.notebook.handle import Notebook, checked_agent
from butlers.notebook.model import AgentMemory, to_text
from butlers.notebook.store import find_owners

_QUERIES = queries.load(__file__)
_log = structlog.get_logger(__name__)
OLDER_THAN_DAYS = 30
_MAX_DAYS = 36_500
_FEWEST_NOTES = 2
_PREFIX = re.compile(r"([^:/.]+)[:/.]")
_NO_PREFIX = "general"
_SUMMARIES = "summary:"


def summarize_old_memories(
    db: Notebook, agent_id: str, older_than_days: int = OLDER_THAN_DAYS
) -> int:
    """Summarize and archive the agent's old notes, by prefix; return how many were archived."""
    if not 0 <= older_than_days <= _MAX_DAYS:
        raise InvalidInput(f"older_than_days is {older_than_days}; give 0 to {_MAX_DAYS}")
    now = db.clock().astimezone(UTC)
    old = {"agent_id": checked_agent(agent_id), "before": to_text(now - timedelta(older_than_days))}
    groups = defaultdict(list)
    for (key,) in db.sqlite.fetch(_QUERIES["old_keys"], **old, summaries=_SUMMARIES):
        match = _PREFIX.match(key)
        groups[f"{_SUMMARIES}{match[1] if match else _NO_PREFIX}:{now.date()}"].append(key)
    return sum(_summarize(db, summary, keys, **old) for summary, keys in groups.items())


async def summarize_everybody(db: Notebook, older_than_days: int) -> dict[str, Any]:
    """Summarize the old notes of every agent; a failure of one does not stop the others."""
    report: dict[str, Any] = {"agents": 0, "archived": 0, "errors": []}
    for owner in await db.apart(find_owners, db):
        try:
            archived = await db.apart(summarize_old_memories, db, owner, older_than_days)
        except ButlersError as error:
            _log.warning("notes of one agent were not summarized", owner=owner, error=str(error))
            report["errors"].append(f"{owner}: {error}")
        else:
            report["agents"] += 1
            report["archived"] += archived
    return report


def _summarize(db: Notebook, summary: str, keys: list[str], agent_id: str, before: str) -> int:
    """Archive a group into its summary of the day; return how many notes, 0 for a single one."""
    wanted = json.dumps(keys, ensure_ascii=False)
    with db.sqlite.transaction():
        # Read again under the write lock: a note changed meanwhile is not old.
        query = _QUERIES["old_notes"]
        rows = db.sqlite.fetch(query, agent_id=agent_id, before=before, keys=wanted)
        notes = [store.note(row) for row in rows]
        if len(notes) < _FEWEST_NOTES:
            return 0
        _add_to_summary(db, agent_id, summary, notes)
        ids = json.dumps([memory.id for memory in notes])
        db.sqlite.execute(_QUERIES["archive_notes"], ids=ids)
    return len(notes)


def _add_to_summary(db: Notebook, agent_id: str, key: str, notes: list[AgentMemory]) -> None:
    """Append the notes to the summary; start another page when one is full."""
    page, text = _last_page(db, agent_id, key)
    for memory in notes:
        entry = f"[{memory.key}] {memory.content}"
        if text and len(text) + 1 + len(entry) > db.limits.max_content_chars:
            core.write(db, agent_id, _page_key(key, page), text)
            page, text = page + 1, ""
        text = f"{text}\n{entry}" if text else entry
    core.write(db, agent_id, _page_key(key, page), text)


def _last_page(db: Notebook, agent_id: str, key: str) -> tuple[int, str]:
    page, text = 1, ""
    while (found := store.get(db, agent_id, _page_key(key, page))) is not None:
        page, text = page + 1, found.content
    return max(1, page - 1), text


def _page_key(key: str, page: int) -> str:
    return key if page == 1 else f"{key}:{page}"
