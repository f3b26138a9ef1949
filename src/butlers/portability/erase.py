"""Erasing somebody from everything a butler keeps for a tenant, and the receipt for it.

The memory comes first, in one transaction; notes, sessions and files follow, and in the end the
database is written anew. What was begun is written down until all of it is done, so that the next
erasure of the butler ends what a crash cut off.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from butlers.atomic_files import create_file, replace_file
from butlers.errors import InvalidInput, NotFound
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.kernel.mentions import Mentions
from butlers.memory.flows import erase as memories
from butlers.memory.model import Lineage
from butlers.memory.policy.erasure import ErasureRequest, Selection
from butlers.notebook import portable as notes
from butlers.portability import traces
from butlers.portability.native import NOTE, notebook_of
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
    return sign_receipt(butler.home, told, butler.memory.now())


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


_SIGNED_BY, _SIGNATURE = "signed_by", "signature"


def sign_receipt(home: Home, told: dict[str, Any], now: datetime) -> dict[str, Any]:
    """A receipt of what is told."""
    key = _key(home)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    receipt = {"receipt": "butlers-erasure", "version": 1, "at": now.isoformat(), **told}
    receipt[_SIGNED_BY] = f"ed25519:{base64.b64encode(public).decode()}"
    signature = key.sign(_canonical(receipt))
    return {**receipt, _SIGNATURE: base64.b64encode(signature).decode()}


def verify_receipt(home: Home, receipt: Any) -> str:
    """In words whose receipt it is; InvalidInput where it is nobody's, or was changed."""
    try:
        told = {name: value for name, value in receipt.items() if name != _SIGNATURE}
        public = base64.b64decode(told[_SIGNED_BY].removeprefix("ed25519:"), validate=True)
        signature = base64.b64decode(receipt[_SIGNATURE], validate=True)
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _canonical(told))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise InvalidInput("the receipt is not one of butlers") from None
    except InvalidSignature:
        raise InvalidInput("the receipt was changed after it was signed") from None
    own = _key(home).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return "signed by this home" if public == own else "signed, but by another home"


def _key(home: Home) -> Ed25519PrivateKey:
    """The home's own key, made when it is first needed."""
    file = home.root / "receipts.key"
    try:
        return _read(file)
    except FileNotFoundError:
        made = base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()
        with contextlib.suppress(FileExistsError):  # another process was quicker
            create_file(file, f"{made}\n")
        return _read(file)


def _read(file: Path) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(file.read_text("ascii")))


def _canonical(receipt: dict[str, Any]) -> bytes:
    return json.dumps(receipt, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
