"""The audit log: appended to, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, OnlyRow, OnlyValue, Rows
from butlers.memory.model import EventType

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

append = OnlyValue[int](_SQL["append"])


@dataclass(frozen=True, slots=True)
class Transition:
    """What happened to some memories: one event for each, with its own payload."""

    type: EventType
    payloads: Mapping[Any, dict[str, Any]]
    """By the id of each; None for what concerns the whole memory."""
