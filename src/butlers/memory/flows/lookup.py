"""Find a memory or entity by id, the beginning of an id, or a key, and load one in detail."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.errors import Conflict, InvalidInput
from butlers.kernel.json_values import as_json
from butlers.memory.flows.browse import MAX_LIMIT, FactFilter, PageRequest, list_page
from butlers.memory.flows.entities import get_entity
from butlers.memory.flows.history import explain_memory, memory_history
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, EventSubject, Lineage, MemoryRef, MemoryType, Then
from butlers.memory.policy import naming
from butlers.memory.policy.confidence import Waning
from butlers.memory.policy.entity_resolution import NameMatch
from butlers.memory.policy.inputs import (
    MAX_PREDICATE,
    MAX_SCOPE,
    MAX_SUBJECT,
    checked_line,
    checked_word,
)
from butlers.memory.store import browse, entities, facts
from butlers.memory.store.facts import FactKey

SHORTEST = 6
"""The least number of digits of a partial id."""

VALID_ID = f"valid is an id, or at least its first {SHORTEST} digits (0 to 9, a to f)"
_SHOWN = 5
_OWN = (NameMatch.EXACT, NameMatch.ALIAS)
_WHOLE = 32
_UNFADING = timedelta(days=365)
_BEGINNING = re.compile(rf"[0-9a-f]{{{SHORTEST},{_WHOLE}}}")


@dataclass(frozen=True, slots=True)
class KnownId:
    """The type and id of a memory or entity."""

    kind: EventSubject
    id: UUID


async def find_known(
    memory: Memory, given: str | UUID, kind: str | None, lineage: Lineage
) -> KnownId | None:
    """Find the memory or entity of an id or partial id, past ones too; several are a Conflict."""
    digits = checked_beginning(given).replace("-", "")
    low, high = (UUID(digits.ljust(_WHOLE, digit)) for digit in "0f")
    wanted = None if kind is None else checked_word("memory_type", kind, EventSubject)
    async with memory.transaction(lineage) as tx:
        rows = await browse.find_between(tx, low=low, high=high, limit=_SHOWN)
    known = [KnownId(EventSubject(row["kind"]), row["id"]) for row in rows]
    known = [one for one in known if wanted in (None, one.kind)]
    if len(known) > 1:
        named = ", ".join(f"{one.kind} {one.id}" for one in known)
        raise Conflict(
            f"memory_id: {given} may mean {named}; name the kind, or give more of the id"
        )
    return known[0] if known else None


async def find_memory(
    memory: Memory, given: str | UUID, memory_type: str | None, lineage: Lineage
) -> MemoryRef | None:
    """Find the memory of an id or partial id; None for an entity."""
    wanted = None if memory_type is None else checked_word("memory_type", memory_type, MemoryType)
    known = await find_known(memory, given, wanted, lineage)
    if known is None or known.kind.value not in set(MemoryType):
        return None
    return MemoryRef(MemoryType(known.kind), known.id)


async def find_fact_by_key(
    memory: Memory,
    subject: str,
    predicate: str,
    scope: str,
    entity_id: UUID | None,
    lineage: Lineage,
) -> dict[str, Any] | None:
    """Return the current fact under a key, or None. It does not count as a use."""
    wanted = FactKey(
        checked_line("scope", scope, MAX_SCOPE),
        checked_line("predicate", predicate, MAX_PREDICATE),
        checked_line("subject", subject, MAX_SUBJECT),
        entity_id,
    )
    async with memory.transaction(lineage) as tx:
        wanted = await _with_entity(tx, wanted)
        holder = await facts.get_active(tx, at=memory.now(), **asdict(wanted))
        found = await facts.find(tx, ids=[holder["id"]], now=memory.now()) if holder else []
    return as_json({"memory_type": MemoryType.FACT, **found[0]}) if found else None


async def _with_entity(tx: Transaction, key: FactKey) -> FactKey:
    """Add the entity to a key, if its subject names exactly one."""
    if key.entity_id is not None:
        return key
    name = naming.as_name(key.subject)
    rows = await entities.find_by_name(tx, name=name, entity_type=None, favoured=(), limit=2)
    own = [row["id"] for row in rows if row["name_match"] in _OWN]
    return replace(key, entity_id=own[0]) if len(own) == 1 else key


async def scopes_of(
    memory: Memory, ids: Collection[UUID], lineage: Lineage
) -> Mapping[UUID, set[str]]:
    """Return the scopes of memories, those in the bin included; none for an unknown id.

    An entity is in every scope that a fact about it is in.
    """
    scopes: defaultdict[UUID, set[str]] = defaultdict(set)
    async with memory.transaction(lineage) as tx:
        for row in await browse.find_scopes(tx, ids=list(ids)):
            scopes[row["id"]].add(row["scope"])
    return scopes


def checked_beginning(given: str | UUID) -> str:
    """Check an id or partial id and return its digits."""
    digits = str(given).strip().lower().replace("-", "")
    if _BEGINNING.fullmatch(digits) is None:
        raise InvalidInput(f"memory_id: found {str(given)[:80]!r}; {VALID_ID}")
    return str(UUID(digits)) if len(digits) == _WHOLE else digits


def whole_id(given: str | UUID) -> UUID | None:
    """Return the id, or None for a partial one."""
    digits = str(given).replace("-", "")
    return UUID(digits) if len(digits) == _WHOLE else None


async def memory_detail(
    memory: Memory, ref: MemoryRef, lineage: Lineage, then: Then = NOW
) -> dict[str, Any] | None:
    """Return a memory with what explains it, its events, and a forecast of its confidence."""
    explained = await explain_memory(memory, ref.type, ref.id, lineage, then)
    if explained is None:
        return None
    events = await memory_history(memory, ref.id, lineage, then)
    stored_by = events[0]["actor"] if events else None
    forecast = _forecast(explained, memory.now())
    return {**explained, "stored_by": stored_by, "events": events, "forecast": forecast}


async def entity_detail(memory: Memory, entity_id: UUID, lineage: Lineage) -> dict[str, Any] | None:
    """Return an entity with the newest facts about it, past ones included, and its events."""
    entity = await get_entity(memory, entity_id, lineage)
    if entity is None:
        return None
    wanted = PageRequest(limit=MAX_LIMIT)
    known = await list_page(memory, FactFilter(entity_id=entity_id), wanted, lineage)
    return {
        "entity": entity,
        "facts": known.items,
        "more_facts": known.next_cursor is not None,
        "events": await memory_history(memory, entity_id, lineage),
    }


def _forecast(explained: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    """Return the decay curve from the last confirmation to expiry; empty for the past."""
    row = explained["memory"]
    if row.get("state") not in ("active", "fading") or "decay_rate" not in row:
        return []
    waning = Waning.of({**row, "last_confirmed_at": _instant(row["last_confirmed_at"])})
    start = min(waning.confirmed_at or now, now)
    end = max(_instant(explained["expires_at"]) or start + _UNFADING, now + timedelta(days=1))
    return [{"at": at.isoformat(), "confidence": left} for at, left in waning.curve(start, end)]


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
