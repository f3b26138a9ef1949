"""Erase a person, a session or everything of a tenant, and sign a receipt for it.

The memory comes first, in one transaction; then notes, sessions and files; then the database is
rewritten. A note of what was begun stays until all is done: the next erasure finishes it.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

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
from butlers.portability.native import NOTE, find_notes, notebook_of
from butlers.portability.traces import Sought, Traces
from butlers.sessions.log import KEPT_SESSIONS

SESSION, INJECTION = "session", "injection"
_SESSION_TEXTS = ("id", "asked", "project", "reason", "agent")


@dataclass(frozen=True, slots=True)
class Beside:
    """What was found outside the memory: notes, sessions and injections, traces in files."""

    notes: list[dict[str, Any]]
    sessions: list[str]
    injections: list[UUID]
    traces: Traces

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind."""
        counts = {NOTE: len(self.notes), SESSION: len(self.sessions)}
        counts[INJECTION] = len(self.injections)
        return {kind: number for kind, number in counts.items() if number} | self.traces.counts


def check(wanted: ErasureRequest) -> None:
    """Raise InvalidInput unless exactly one thing is to be erased, and a name is long enough."""
    choices = [wanted.about, wanted.entity_id, wanted.session, wanted.everything]
    if sum(map(bool, choices)) != 1:
        raise InvalidInput("found none or several of about, entity, session, all; valid is one")
    if wanted.about and not Mentions([wanted.about]).names:
        raise InvalidInput(
            f"about: found {wanted.about!r:.60}; valid is a name of 2 letters or more"
        )


async def preview(butler: Butler, wanted: ErasureRequest, lineage: Lineage) -> dict[str, Any]:
    """List and count what would be erased; change nothing."""
    check(wanted)
    selection = await memories.preview(butler.memory, wanted, lineage)
    beside = await find_beside(butler, wanted, Gone.of(selection), lineage)
    rows = [
        (kind, id, "a name in it is replaced by its hash", "") for kind, id in selection.reworded
    ]
    rows += [(NOTE, note["id"], "it names them", note["key"]) for note in beside.notes]
    rows += [(SESSION, id, "in the session log", "") for id in beside.sessions]
    rows += [(INJECTION, str(id), "a session was given it", "") for id in beside.injections]
    for entry in beside.traces.sessions:
        rows.append(("waiting_session", entry.session, "it is in the spool", entry.file.name))
    listed = [asdict(memory) for memory in selection.found.values()]
    listed += [dict(zip(("kind", "id", "why", "says"), row, strict=True)) for row in rows]
    return {"counts": selection.counts | beside.counts, "found": listed}


async def erase(butler: Butler, wanted: ErasureRequest, lineage: Lineage) -> dict[str, Any]:
    """Erase for good; return the signed receipt."""
    check(wanted)
    await _end_what_was_begun(butler)
    begun = await _write_down(butler, wanted, lineage)
    selection = await memories.erase(butler.memory, wanted, lineage)
    beside = await _erase_beside(butler, wanted, Gone.of(selection), lineage)
    left = await butler.scrub() if selection.counts else []
    begun.unlink(missing_ok=True)
    receipt = _receipt(butler, wanted, lineage, selection, beside) | {"not_rewritten": left}
    return sign_receipt(butler.home, receipt, butler.memory.now())


def _receipt(
    butler: Butler, wanted: ErasureRequest, lineage: Lineage, selection: Selection, beside: Beside
) -> dict[str, Any]:
    """Return the content of a receipt, with hashes in place of names."""
    erased = [{"kind": f.kind, "id": f.id, "sha256": f.sha256} for f in selection.found.values()]
    erased += [{"kind": NOTE, "id": note["id"], "sha256": _hash(note)} for note in beside.notes]
    asked = {"about": wanted.about, "entity": wanted.entity_id, "session": wanted.session}
    hashes = {name: _hash(str(value)) for name, value in asked.items() if value}
    return {
        "butler": butler.name,
        "tenant": lineage.tenant_id,
        "by": lineage.actor,
        "asked": hashes or {"everything": True},
        "counts": selection.counts | beside.counts,
        "erased": erased,
    }


@dataclass(frozen=True, slots=True)
class Gone:
    """What the memory erased: names, and the ids of memories."""

    mentions: Mentions
    memories: frozenset[str]

    @classmethod
    def of(cls, selection: Selection) -> "Gone":
        """Return what a selection erases."""
        return cls(selection.mentions, frozenset(str(one.id) for one in selection.found.values()))

    def names_any(self, ids: Iterable[UUID]) -> bool:
        """Whether one of these memories was erased."""
        return not self.memories.isdisjoint(map(str, ids))


async def find_beside(
    butler: Butler, wanted: ErasureRequest, gone: Gone, lineage: Lineage
) -> Beside:
    """Find what names them outside the memory."""
    mentions = gone.mentions

    def is_meant(row: Mapping[str, Any]) -> bool:
        is_named = wanted.everything or row["id"] == wanted.session or mentions.in_value(row)
        return is_named and not wanted.keeps(str(row["id"]))

    named = await find_notes(butler, lineage, is_meant)
    records = await butler.session_log.find(lineage.tenant_id, KEPT_SESSIONS)
    texts = [{name: getattr(record, name) for name in _SESSION_TEXTS} for record in records]
    sessions = [session["id"] for session in texts if is_meant(session)]
    since = datetime.min.replace(tzinfo=UTC)
    given = await butler.injections.since(lineage.tenant_id, since)
    injections = [one.id for one in given if is_meant(one.texts) or gone.names_any(one.memory_ids)]
    sought = _sought(butler, wanted, mentions, lineage)
    return Beside(named, sessions, injections, await asyncio.to_thread(traces.find, sought))


async def _erase_beside(
    butler: Butler, wanted: ErasureRequest, gone: Gone, lineage: Lineage
) -> Beside:
    beside = await find_beside(butler, wanted, gone, lineage)
    notebook = notebook_of(butler)
    if notebook is not None and beside.notes:
        await notebook.apart(notes.erase, notebook, [note["id"] for note in beside.notes])
    await butler.injections.erase(lineage.tenant_id, beside.injections)
    await butler.session_log.erase(lineage.tenant_id, beside.sessions)
    sought = _sought(butler, wanted, gone.mentions, lineage)
    await asyncio.to_thread(traces.remove, sought, beside.traces)
    return beside


def _sought(butler: Butler, wanted: ErasureRequest, mentions: Mentions, lineage: Lineage) -> Sought:
    return Sought(
        butler.home, butler.name, lineage.tenant_id, mentions, wanted.session, wanted.everything
    )


async def _write_down(butler: Butler, wanted: ErasureRequest, lineage: Lineage) -> Path:
    """Write a note of what is begun, with all its names: after a crash some would be gone."""
    selection = await memories.preview(butler.memory, wanted, lineage)
    begun = {"wanted": asdict(wanted), "names": selection.names}
    begun["memories"] = sorted(Gone.of(selection).memories)
    begun |= {"tenant": lineage.tenant_id, "actor": lineage.actor}
    file = _notes_of(butler) / f"{_hash(begun)[7:23]}.json"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    replace_file(file, json.dumps(begun, default=str))
    return file


async def _end_what_was_begun(butler: Butler) -> None:
    """Finish erasures that were interrupted, before or after the memory was erased."""
    for file in sorted(_notes_of(butler).glob("*.json")):
        begun = json.loads(file.read_text("utf-8"))
        lineage = Lineage(begun["tenant"], begun["actor"])
        entity_id = begun["wanted"]["entity_id"]
        wanted = ErasureRequest(**{**begun["wanted"], "entity_id": entity_id and UUID(entity_id)})
        with suppress(NotFound):  # the entity is gone, and so is what was about it
            await memories.erase(butler.memory, wanted, lineage)
        gone = Gone(Mentions(begun["names"]), frozenset(begun.get("memories", ())))
        await _erase_beside(butler, wanted, gone, lineage)
        await butler.scrub()
        file.unlink(missing_ok=True)


def _notes_of(butler: Butler) -> Path:
    return butler.home.butler_directory(butler.name) / "erasing"


def _hash(value: Any) -> str:
    written = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"


_SIGNED_BY, _SIGNATURE = "signed_by", "signature"


def sign_receipt(home: Home, content: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return a signed receipt with this content."""
    key = _key(home)
    public = key.public_key().public_bytes_raw()
    receipt = {"receipt": "butlers-erasure", "version": 1, "at": now.isoformat(), **content}
    receipt[_SIGNED_BY] = f"ed25519:{base64.b64encode(public).decode()}"
    signature = key.sign(_canonical(receipt))
    return {**receipt, _SIGNATURE: base64.b64encode(signature).decode()}


def verify_receipt(home: Home, receipt: Any) -> str:
    """Say which home signed a receipt; InvalidInput if it is none or was changed."""
    try:
        signed = {name: value for name, value in receipt.items() if name != _SIGNATURE}
        public = base64.b64decode(signed[_SIGNED_BY].removeprefix("ed25519:"), validate=True)
        signature = base64.b64decode(receipt[_SIGNATURE], validate=True)
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _canonical(signed))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise InvalidInput("this is not a receipt of `butlers erase`") from None
    except InvalidSignature:
        raise InvalidInput("the receipt was changed after it was signed") from None
    own = _key(home).public_key().public_bytes_raw()
    return "signed by this home" if public == own else "signed, but by another home"


def _key(home: Home) -> Ed25519PrivateKey:
    """Return the home's key; create it when it is first needed."""
    file = home.root / "receipts.key"
    if not file.exists():
        key = base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()
        with suppress(FileExistsError):  # another process was quicker
            create_file(file, f"{key}\n")
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(file.read_text("ascii")))


def _canonical(receipt: dict[str, Any]) -> bytes:
    return json.dumps(receipt, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
