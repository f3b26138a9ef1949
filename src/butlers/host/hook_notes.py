"""Record the starts and prompts that hooks noted as without memory, as failed injections."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from butlers.auth.rights import Caller
from butlers.errors import InvalidInput, NotFound
from butlers.host.butler import Butler
from butlers.sessions.injection_log import Occasion
from butlers.sessions.injections import InjectionEvent
from butlers.sessions.session_alerts import PROMPT
from butlers.sessions.transcripts import utc_instant

Note = Mapping[str, Any]


async def record_notes(butler: Butler, caller: Caller, notes: Iterable[Note]) -> None:
    """Record these notes; those that are recorded already are left alone."""
    dated = {
        uuid5(NAMESPACE_OID, repr(note)): (utc_instant(note.get("at")), note) for note in notes
    }
    failures = {
        id: (at, _occasion(note)) for id, (at, note) in dated.items() if at and note.get("session")
    }
    new = await butler.injections.unknown(caller.tenant_id, failures)
    for session in sorted({failures[id][1].session_id for id in new}):
        await _ensure_session(butler, caller, session)
    await butler.injections.record_failures(caller, {id: failures[id] for id in new})


def _occasion(note: Note) -> Occasion:
    event = InjectionEvent.PROMPT if note.get("event") == PROMPT else InjectionEvent.START
    return Occasion(str(note["session"]), event=event, reason=str(note.get("why") or "not known"))


async def _ensure_session(butler: Butler, caller: Caller, session: str) -> None:
    """Add a session that got nothing so far to the log; one that is there stays as it is."""
    try:
        found = (await butler.session_log.get(caller.tenant_id, session)).id
    except (NotFound, InvalidInput):
        found = ""
    if found != session:
        await butler.session_log.note_agent(caller, session)
