"""Taking back what was forgotten: the memory is again what it was before."""

from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict, InvalidInput
from butlers.memory.handle import Memory
from butlers.memory.model import (
    Event,
    EventSubject,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    Validity,
)
from butlers.memory.policy.attachments import checked_ref
from butlers.memory.policy.states import FactState, RuleUse
from butlers.memory.store import facts, rules
from butlers.memory.store.facts import FactKey

_PAST = (Validity.SUPERSEDED, Validity.EXPIRED)


async def restore_memory(
    memory: Memory, memory_type: str, memory_id: str | UUID, lineage: Lineage
) -> bool:
    """Take back that a fact or rule was forgotten; false when there is none that was.

    A fact whose place another has taken meanwhile is a Conflict that names it.
    """
    ref, now = checked_ref("memory", memory_type, memory_id), memory.now()
    if ref.type is MemoryType.EPISODE:
        raise InvalidInput(
            "memory_type: found 'episode'; valid are fact, rule: an episode cannot be restored"
        )
    async with memory.transaction(lineage) as tx:
        restored = await _restore(tx, ref)
        if restored is not None:
            await memory.record(tx, restored, lineage, now)
    return restored is not None


async def _restore(tx: Transaction, ref: MemoryRef) -> Event | None:
    if ref.type is MemoryType.FACT:
        return await _restore_fact(tx, ref.id)
    state = await rules.restore(tx, id=ref.id)
    if state is None:
        return None
    payload = {"from": RuleUse.FORGOTTEN, "to": state}
    return Event(EventType.RULE_RESTORED, EventSubject.RULE, ref.id, payload)


async def _restore_fact(tx: Transaction, fact_id: UUID) -> Event | None:
    found = await facts.get_retracted(tx, id=fact_id)
    if found is None:
        return None
    state = _state_before(found)
    if state in _PAST:
        validity = Validity(state)
    else:
        validity = Validity.ACTIVE
        await _key_must_be_free(tx, found)
    if not await facts.restore(tx, id=fact_id, validity=validity):
        return None
    payload = {"from": FactState.RETRACTED, "to": state}
    return Event(EventType.FACT_RESTORED, EventSubject.FACT, fact_id, payload)


def _state_before(found: Row) -> str:
    """What a reader will be shown: the past as it was, else whether it is fading."""
    if found["was"] in _PAST:
        return str(found["was"])
    return FactState.FADING if found["is_fading"] else FactState.ACTIVE


async def _key_must_be_free(tx: Transaction, found: Row) -> None:
    """Nobody else stores under the key until the transaction ends, and nobody has."""
    key = FactKey(found["scope"], found["predicate"], found["subject"], found["entity_id"])
    await facts.hold_keys(tx, key)
    holder = await facts.get_active(tx, key)
    if holder is not None:
        raise Conflict(
            f"fact {found['id']} cannot be restored: fact {holder['id']} has taken its place; "
            "forget that one first"
        )
