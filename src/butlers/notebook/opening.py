"""A butler's notebook, opened as its settings say."""

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import structlog

from butlers.clock import Clock, utc_now
from butlers.errors import ButlersError
from butlers.ids import NewId, new_id
from butlers.llm import LanguageModel
from butlers.notebook.handle import Limits
from butlers.notebook.manager import MemoryManager
from butlers.notebook.model import MemoryManagerOptions
from butlers.notebook.reranking import reranking_with
from butlers.notebook.schema import open_notebook
from butlers.notebook.settings import NotebookModuleConfig
from butlers.notebook.stats import find_owners
from butlers.notebook.summarize import summarize_old_memories

_log = structlog.get_logger(__name__)
FILE = "notes.sqlite"
"""The name of a notebook's file in its butler's directory."""


def open_manager(
    directory: Path,
    config: NotebookModuleConfig,
    *,
    clock: Clock = utc_now,
    new_id: NewId = new_id,
    model: LanguageModel | None = None,
    worker: Executor | None = None,
) -> MemoryManager:
    """The notebook of the butler whose directory this is; deep searches ask `model`."""
    limits = Limits(config.max_key_chars, config.max_content_chars)
    db = open_notebook(directory / FILE, clock=clock, new_id=new_id, limits=limits, worker=worker)
    options: MemoryManagerOptions = {
        "cache": {"max_size": config.cache_max_size, "ttl_ms": config.cache_ttl_seconds * 1000}
    }
    if model is not None:
        options["deep_search_fn"] = reranking_with(model, config.deep_search_timeout_seconds)
    try:
        return MemoryManager(db, options)
    except BaseException:
        db.close()
        raise


async def summarize_everybody(manager: MemoryManager, older_than_days: int) -> dict[str, Any]:
    """Summarize the old notes of every agent; one agent that fails keeps no other from it."""
    db = manager.db
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
