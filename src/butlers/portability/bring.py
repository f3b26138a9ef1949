"""An export of ours enters a tenant: checked whole, then written, then embedded."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from butlers.errors import InvalidInput
from butlers.host.butler import Butler
from butlers.memory.flows import portable
from butlers.memory.model import Lineage
from butlers.notebook import portable as notes
from butlers.portability import lines
from butlers.portability.export import NOTE, notebook_of

OnStep = Callable[[str, int, int], None]
"""Told what is being done, and how far it is: so much of so much."""


def unwatched(step: str, done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(slots=True)
class Imported:
    """What came of an import, by kind: what was stored, what was there, what could not be used."""

    source: str
    stored: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


async def bring_export(
    butler: Butler, file: Path, lineage: Lineage, on_step: OnStep = unwatched
) -> Imported:
    """Bring in an export; importing it again changes nothing, or ends what was cut off."""
    known = await portable.columns(butler.memory, lineage) | {NOTE: list(notes.COLUMNS)}
    on_step("checking", 0, 0)
    counts = await asyncio.to_thread(lines.check, file, known)
    notebook = notebook_of(butler)
    if counts.get(NOTE) and notebook is None:
        raise InvalidInput(
            f"the file has {counts[NOTE]} notes, and butler {butler.name} has no notebook; set "
            "modules.notebook.enabled = true in its butler.toml. Nothing was written"
        )
    on_step("storing", 0, sum(counts.values()))
    memories = (one for one in lines.rows(file) if one.kind != NOTE)
    brought = await portable.bring(butler.memory, memories, lineage)
    done = Imported("butlers", brought.stored, brought.known)
    if notebook is not None and counts.get(NOTE):
        db = notebook.manager.db
        told = ((one.number, one.row) for one in lines.rows(file) if one.kind == NOTE)
        stored = await db.apart(notes.bring, db, lineage.tenant_id, told)
        done.stored[NOTE], done.known[NOTE] = stored, counts[NOTE] - stored
    await embed(butler, lineage, on_step)
    return done


async def embed(butler: Butler, lineage: Lineage, on_step: OnStep) -> None:
    """Give a vector to everything that has none."""
    await portable.embed_brought(
        butler.memory, lineage, lambda done, total: on_step("embedding", done, total)
    )
