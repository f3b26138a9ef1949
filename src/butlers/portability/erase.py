"""Erasing somebody from everything a butler keeps for a tenant, and the receipt for it.

The memory comes first, in one transaction; notes, sessions and files follow, and in the end the
database is written anew. What was begun is written down until all of it is done, so that the next
erasure of the butler ends what a crash cut off.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.atomic_files import replace_file
from butlers.errors import InvalidInput, NotFound
from butlers.host.butler import Butler
from butlers.kernel.mentions import Mentions
from butlers.memory.flows import erase as memories
from butlers.memory.model import Lineage
from butlers.memory.policy.erasure import ErasureRequest, Selection
from butlers.notebook import portable as notes
from butlers.portability import receipts, traces
from butlers.portability.export import NOTE, notebook_of
from butlers.portability.traces import Sought, Traces
from butlers.sessions.log import KEPT_SESSIONS

SESSION = "session"


@dataclass(frozen=True, slots=True)
class Beside:
    """What is found beside the memory: notes, sessions on record, traces in files."""

    notes: list[dict[str, Any]]
    sessions: list[str]
    traces: Traces

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind."""
        told = {NOTE: len(self.notes), SESSION: len(self.sessions)}
        return {kind: number for kind, number in told.items() if number} | self.traces.counts


def check(wanted: ErasureRequest) -> None:
    """InvalidInput unless one thing is to be erased, and it is one that can be."""
    given = [wanted.about, wanted.entity_id, wanted.session, wanted.everything]
    if sum(map(bool, given)) != 1:
        raise InvalidInput("found none or several of about, entity, session, all; valid is one")
    if wanted.about and not Mentions([wanted.about]).names:
        raise InvalidInput(
            f"about: found {wanted.about!r:.60}; valid is a name of 2 letters or more"
        )


async def preview(butler: Butler, wanted: ErasureRequest, lineage: Lineage) -> dict[str, Any]:
    """What would be erased, listed and counted; nothing is changed."""
    check(wanted)
    selection = await memories.preview(butler.memory, wanted, lineage)
    beside = await _find_beside(butler, wanted, selection.mentions, lineage)
    listed = [asdict(one) for one in selection.found.values()]
    listed += [
        {"kind": kind, "id": id, "why": "a name in it gives way to its hash", "says": ""}
        for kind, id in selection.reworded
    ]
    listed += [
        {"kind": NOTE, "id": one["id"], "why": "it names them", "says": one["key"]}
        for one in beside.notes
    ]
    listed += [
        {"kind": SESSION, "id": one, "why": "on record", "says": ""} for one in beside.sessions
    ]
    listed += [
        {"kind": "waiting_session", "id": one.session, "why": "it waits", "says": one.file.name}
        for one in beside.traces.sessions
    ]
    return {"counts": selection.counts | beside.counts, "found": listed}


async def erase(butler: Butler, wanted: ErasureRequest, lineage: Lineage) -> dict[str, Any]:
    """Erase for good; the receipt."""
    check(wanted)
    await _end_what_was_begun(butler)
    begun = await _write_down(butler, wanted, lineage)
    selection = await memories.erase(butler.memory, wanted, lineage)
    beside = await _erase_beside(butler, wanted, selection.mentions, lineage)
    left = await butler.scrub() if selection.counts else []
    begun.unlink(missing_ok=True)
    told = _receipt(butler, wanted, lineage, selection, beside) | {"not_rewritten": left}
    return receipts.signed(butler.home, told, butler.memory.now())


def _receipt(
    butler: Butler, wanted: ErasureRequest, lineage: Lineage, selection: Selection, beside: Beside
) -> dict[str, Any]:
    """What a receipt says; of whom only a hash."""
    erased = [{"kind": f.kind, "id": f.id, "sha256": f.sha256} for f in selection.found.values()]
    erased += [{"kind": NOTE, "id": one["id"], "sha256": _hash(one)} for one in beside.notes]
    asked = {"about": wanted.about, "entity": wanted.entity_id, "session": wanted.session}
    return {
        "butler": butler.name,
        "tenant": lineage.tenant_id,
        "by": lineage.actor,
        "asked": {name: _hash(str(value)) for name, value in asked.items() if value}
        or {"everything": True},
        "counts": selection.counts | beside.counts,
        "erased": erased,
    }


async def _find_beside(
    butler: Butler, wanted: ErasureRequest, mentions: Mentions, lineage: Lineage
) -> Beside:
    def is_meant(told: Mapping[str, Any]) -> bool:
        if wanted.keeps(str(told["id"])):
            return False
        return wanted.everything or told["id"] == wanted.session or mentions.in_value(told)

    notebook, found = notebook_of(butler), list[dict[str, Any]]()
    if notebook is not None:
        db = notebook.manager.db
        found = await db.apart(notes.find, db, lineage.tenant_id, is_meant)
    known = await butler.session_log.find(lineage.tenant_id, KEPT_SESSIONS)
    sessions = [one.id for one in known if is_meant(_texts(one.shown()))]
    sought = _sought(butler, wanted, mentions, lineage)
    return Beside(found, sessions, await asyncio.to_thread(traces.find, sought))


async def _erase_beside(
    butler: Butler, wanted: ErasureRequest, mentions: Mentions, lineage: Lineage
) -> Beside:
    beside = await _find_beside(butler, wanted, mentions, lineage)
    notebook = notebook_of(butler)
    if notebook is not None and beside.notes:
        db = notebook.manager.db
        await db.apart(notes.erase, db, [one["id"] for one in beside.notes])
    await butler.session_log.erase(lineage.tenant_id, beside.sessions)
    sought = _sought(butler, wanted, mentions, lineage)
    await asyncio.to_thread(traces.remove, sought, beside.traces)
    return beside


def _sought(butler: Butler, wanted: ErasureRequest, mentions: Mentions, lineage: Lineage) -> Sought:
    return Sought(
        butler.home, butler.name, lineage.tenant_id, mentions, wanted.session, wanted.everything
    )


async def _write_down(butler: Butler, wanted: ErasureRequest, lineage: Lineage) -> Path:
    """Note what is begun, with every name there is for it: after a crash some would be gone."""
    found = await memories.preview(butler.memory, wanted, lineage)
    told = {"wanted": asdict(wanted), "names": found.names}
    told |= {"tenant": lineage.tenant_id, "actor": lineage.actor}
    file = _notes_of(butler) / f"{_hash(told)[7:23]}.json"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    replace_file(file, json.dumps(told, default=str))
    return file


async def _end_what_was_begun(butler: Butler) -> None:
    """End erasures that were cut off, before or after the memory was erased."""
    for file in sorted(_notes_of(butler).glob("*.json")):
        told = json.loads(file.read_text("utf-8"))
        lineage = Lineage(told["tenant"], told["actor"])
        entity_id = told["wanted"]["entity_id"]
        wanted = ErasureRequest(**{**told["wanted"], "entity_id": entity_id and UUID(entity_id)})
        with suppress(NotFound):  # the entity is gone, and so is what was about it
            await memories.erase(butler.memory, wanted, lineage)
        await _erase_beside(butler, wanted, Mentions(told["names"]), lineage)
        await butler.scrub()
        file.unlink(missing_ok=True)


def _notes_of(butler: Butler) -> Path:
    return butler.home.butler_directory(butler.name) / "erasing"


def _texts(session: Mapping[str, Any]) -> dict[str, Any]:
    return {name: session[name] for name in ("id", "asked", "project", "reason", "agent")}


def _hash(told: Any) -> str:
    written = told if isinstance(told, str) else json.dumps(told, sort_keys=True, default=str)
    return f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"
