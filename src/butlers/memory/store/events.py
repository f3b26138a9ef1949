"""The audit log: appended to, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from butlers.db.postgres import Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, OnlyRow, OnlyValue, Rows
from butlers.ids import NewId
from butlers.kernel.text import clean
from butlers.memory.model import EventType, Lineage

_SQL = load(__file__)

verify_chain = OnlyRow(_SQL["verify_chain"])
find_unchained = Rows(_SQL["find_unchained"])
get_chain_head = FirstRow(_SQL["get_chain_head"])
get_chain_number = FirstValue[int](_SQL["get_chain_number"])

get_sequence = FirstValue[int](_SQL["get_sequence"])
find_history = Rows(_SQL["find_history"])
find_before = Rows(_SQL["find_before"])
find_after = Rows(_SQL["find_after"])
find_stored_by = Rows(_SQL["find_stored_by"])
find_moves = Rows(_SQL["find_moves"])

_append = OnlyValue[int](_SQL["append"])


@dataclass(frozen=True, slots=True)
class Transition:
    """What happened to some memories: one event for each, with its own payload."""

    type: EventType
    payloads: Mapping[Any, dict[str, Any]]
    """By the id of each; None for what concerns the whole memory."""


async def append(
    tx: Transaction, new_id: NewId, transition: Transition, lineage: Lineage, now: datetime
) -> int:
    """Record an event for each payload, in id order, in the transaction that made it happen.

    Who did it is whom the transaction acts for: a lineage with another actor is a TypeError.
    Return how many events were recorded.
    """
    if clean(lineage.actor) != tx.actor:
        raise TypeError(f"{transition.type}: the actor must be that of the transaction")
    memory_ids = sorted(transition.payloads)
    if not memory_ids:
        return 0
    return await _append(
        tx,
        ids=[new_id() for _ in memory_ids],
        event_type=transition.type,
        memory_type=transition.type.subject,
        memory_ids=memory_ids,
        payloads=[transition.payloads[memory_id] for memory_id in memory_ids],
        request_id=lineage.request_id and clean(lineage.request_id),
        now=now,
    )
