"""Everything there is to know of one memory or entity; asking is not counted as a use."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from butlers.memory.flows.browse import MAX_LIMIT, FactFilter, PageRequest, browse_facts
from butlers.memory.flows.entities import get_entity
from butlers.memory.flows.history import explain_memory, memory_history
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, Lineage, MemoryRef, Then
from butlers.memory.policy.forecast import Waning

_UNFADING = timedelta(days=365)
_IN_USE = ("active", "fading")


async def memory_detail(
    memory: Memory, ref: MemoryRef, lineage: Lineage, then: Then = NOW
) -> dict[str, Any] | None:
    """A memory with all that explains it, its events, and how its confidence will go."""
    explained = await explain_memory(memory, ref.type, ref.id, lineage, then)
    if explained is None:
        return None
    events = await memory_history(memory, ref.id, lineage, then)
    stored_by = events[0]["actor"] if events else None
    forecast = _forecast(explained, memory.now())
    return {**explained, "stored_by": stored_by, "events": events, "forecast": forecast}


async def entity_detail(memory: Memory, entity_id: UUID, lineage: Lineage) -> dict[str, Any] | None:
    """An entity with the newest facts about it, past ones included, and its events."""
    entity = await get_entity(memory, entity_id, lineage)
    if entity is None:
        return None
    wanted = PageRequest(limit=MAX_LIMIT)
    known = await browse_facts(memory, FactFilter(entity_id=entity_id), wanted, lineage)
    return {
        "entity": entity,
        "facts": known.items,
        "more_facts": known.next_cursor is not None,
        "events": await memory_history(memory, entity_id, lineage),
    }


def _forecast(explained: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    """The decay curve from the last confirmation to the day it expires; none for the past."""
    found = explained["memory"]
    if found.get("state") not in _IN_USE or "decay_rate" not in found:
        return []
    waning = Waning.of({**found, "last_confirmed_at": _instant(found["last_confirmed_at"])})
    start = min(waning.confirmed_at or now, now)
    end = max(_instant(explained["expires_at"]) or start + _UNFADING, now + timedelta(days=1))
    curve = waning.curve(start, end)
    return [{"at": at.isoformat(), "confidence": left} for at, left in curve]


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
