"""Entities: who and what facts are about; create, read and change them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.kernel.secrets import Secrets
from butlers.memory.flows import entity_linking
from butlers.memory.flows.authority import refuse_entity_of_others
from butlers.memory.handle import Memory
from butlers.memory.model import EntityType, Event, EventType, Lineage, Trust
from butlers.memory.policy import entities as policy
from butlers.memory.policy import inputs
from butlers.memory.store import entities


async def create_entity(
    memory: Memory,
    canonical_name: str,
    entity_type: str,
    aliases: Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
    lineage: Lineage,
) -> UUID:
    """Create an entity and return its id; one of the same type and name is a Conflict.

    An entity of that name that was created implicitly is updated instead, unless the caller is of
    low trust. Locks the names; links
    facts that bear them. Records `entity_created` or `entity_updated`.
    """
    kind = inputs.checked_word("entity_type", entity_type, EntityType)
    now, secrets = memory.now(), memory.settings.secrets
    new = _checked_fields(secrets, canonical_name, aliases or (), metadata or {})
    new["entity_type"] = kind.value
    names = (new["canonical_name"], *new["aliases"])
    async with memory.begin(lineage) as work:
        await entity_linking.hold_names(work.tx, names)
        event = await _claimed(work.tx, new, now) if lineage.trust >= Trust.STATED else None
        if event is None:
            event = Event(EventType.ENTITY_CREATED, memory.new_id(), new)
            by = {"id": event.subject_id, "trust": lineage.trust}
            if not await entities.insert(work.tx, now=now, **by, **new):
                raise _taken(new, await _bearer(work.tx, new))
        await work.record(event, now)
        assert event.subject_id is not None, "it is about the entity"
        await entity_linking.adopt_named(work, event.subject_id, names)
    return event.subject_id


async def _claimed(tx: Transaction, new: Row, now: datetime) -> Event | None:
    """Update the one entity of this name that was created implicitly, if there is one."""
    bearers = await entities.hold_bearers_alone(tx, names=[new["canonical_name"]])
    if len(bearers) != 1 or not await entities.is_unclaimed(tx, id=bearers[0]["id"]):
        return None
    before = (await entities.hold(tx, bearers[0]["id"]))[bearers[0]["id"]]
    other = await _bearer(tx, new)
    if other is not None and other["id"] != before["id"]:
        return None
    await entities.update(tx, before["id"], {**before, **new}, now)
    return _updated(before, dict(new))


async def get_entity(memory: Memory, entity_id: UUID, lineage: Lineage) -> dict[str, Any] | None:
    """Return an entity, or None; a merged one has `merged_into` in its metadata."""
    async with memory.transaction(lineage) as tx:
        row = await entities.get(tx, id=entity_id)
    return _entity_view(row) if row else None


async def update_entity(
    memory: Memory,
    entity_id: UUID,
    lineage: Lineage,
    *,
    canonical_name: str | None = None,
    aliases: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Change an entity: replace name and aliases, merge metadata key by key.

    Refuses a missing or merged entity, a taken name and, for a caller of low trust, an entity that
    it did not create. Locks the names; links facts that bear them. Records `entity_updated`.
    """
    changes = _checked_fields(memory.settings.secrets, canonical_name, aliases, metadata)
    if not changes:
        raise InvalidInput(
            "entity_update: found nothing to change; give canonical_name, aliases or metadata"
        )
    names = (*filter(None, [changes.get("canonical_name")]), *changes.get("aliases", ()))
    async with memory.begin(lineage) as work:
        await entity_linking.hold_names(work.tx, names)
        before = unmerged(entity_id, (await entities.hold(work.tx, entity_id)).get(entity_id))
        await refuse_entity_of_others(work, entity_id)
        joined = policy.joined_metadata(before["metadata"], changes.get("metadata", {}))
        after = {**before, **changes, "metadata": joined}
        is_renamed = after["canonical_name"] != before["canonical_name"]
        if is_renamed and (bearer := await _bearer(work.tx, after)):
            raise _taken(after, bearer)
        now = memory.now()
        await entities.update(work.tx, entity_id, after, now)
        await work.record(_updated(before, changes), now)
        if names:
            await entity_linking.adopt_named(work, entity_id, names)
    return _entity_view({**after, "updated_at": now})


def unmerged(entity_id: UUID, row: Row | None, role: str = "entity") -> Row:
    """Return the row of an entity; raise if it is missing or was merged away."""
    if row is None:
        raise NotFound(f"{role}_id: entity {entity_id} does not exist; create it first")
    merged_into = row["metadata"].get(policy.MERGED_INTO)
    if merged_into is not None:
        raise Conflict(
            f"{role}_id: entity {entity_id} was merged into {merged_into}; use that instead"
        )
    return row


def _checked_fields(
    secrets: Secrets,
    canonical_name: str | None,
    aliases: Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Check the fields that were given."""
    fields: dict[str, Any] = {}
    if canonical_name is not None:
        fields["canonical_name"] = policy.kept_name("canonical_name", canonical_name, secrets)
    if aliases is not None:
        fields["aliases"] = policy.kept_aliases(aliases, secrets)
    if metadata is not None:
        fields["metadata"] = policy.kept_metadata(metadata, secrets)
    return fields


async def _bearer(tx: Transaction, wanted: Row) -> Row | None:
    """Find the entity that has a name and type."""
    name, kind = wanted["canonical_name"], wanted["entity_type"]
    return await entities.get_by_name(tx, canonical_name=name, entity_type=kind)


def _taken(wanted: Row, bearer: Row | None) -> Conflict:
    """Refuse a taken name, naming the entity that has it."""
    name, kind = wanted["canonical_name"], wanted["entity_type"]
    exists = f"canonical_name: an entity named {name!r} of type {kind!r} exists already"
    if bearer is None:
        return Conflict(f"{exists}; choose another name")
    merged_into = bearer["metadata"].get(policy.MERGED_INTO)
    gone = f" and was merged into {merged_into}" if merged_into else ""
    return Conflict(
        f"{exists}: it is {bearer['id']}{gone}; use {merged_into or 'it'} or choose another name"
    )


def _updated(before: Row, changes: dict[str, Any]) -> Event:
    """Make the event of a change: the fields before and after."""
    was = {field: before[field] for field in changes}
    if "metadata" in changes:
        old = before["metadata"]
        was["metadata"] = {key: old[key] for key in changes["metadata"] if key in old}
    return Event(EventType.ENTITY_UPDATED, before["id"], {"from": was, "to": changes})


def _entity_view(row: Row) -> dict[str, Any]:
    """Return an entity as callers get it."""
    shown = ("canonical_name", "entity_type", "aliases", "metadata", "created_at", "updated_at")
    return {"entity_id": str(row["id"]), **{name: row[name] for name in shown}}
