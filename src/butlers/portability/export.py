"""Everything a butler keeps for a tenant, as lines of JSON that another home can read.

The first line says what the others hold, the last how many there are and what they hash to. The
same memory is always the same bytes: no line says when, where or for whom it was written.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

from butlers.host.butler import Butler
from butlers.memory.flows import portable
from butlers.memory.model import Lineage
from butlers.notebook import portable as notes
from butlers.notebook.module import NotebookModule

FORMAT, VERSION = "butlers_export", 1
NOTE, END = "note", "end"


async def export_lines(butler: Butler, lineage: Lineage) -> AsyncIterator[bytes]:
    """The lines of an export, each with its end, none of them held for long."""
    digest, number = hashlib.sha256(), 0
    async for line in _lines(butler, lineage):
        digest.update(line)
        number += 1
        yield line
    yield _line(END, _json({"lines": number, "sha256": digest.hexdigest()}))


async def _lines(butler: Butler, lineage: Lineage) -> AsyncIterator[bytes]:
    kinds = await portable.columns(butler.memory, lineage) | {NOTE: list(notes.COLUMNS)}
    yield _line(FORMAT, _json({"version": VERSION, "kinds": kinds}))
    async for kind, row in portable.export_rows(butler.memory, lineage):
        yield _line(kind, row)
    notebook = notebook_of(butler)
    if notebook is not None:
        db = notebook.manager.db
        for note in await db.apart(lambda: list(notes.export_notes(db, lineage.tenant_id))):
            yield _line(NOTE, _json(note))


def notebook_of(butler: Butler) -> NotebookModule | None:
    """The butler's notebook; None where it has none."""
    if not butler.settings.is_enabled(NotebookModule.name):
        return None
    module = butler.module(NotebookModule.name)
    assert isinstance(module, NotebookModule)
    return module


def _line(kind: str, written: str) -> bytes:
    return f'{{"{kind}": {written}}}\n'.encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
