"""Statements that differ between episodes, facts and rules by the table alone."""

from butlers.db.postgres import Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, Rows
from butlers.memory.model import MemoryRef, MemoryType

_SQL = load(__file__)

find_episodes = Rows(_SQL["find_episodes"])
find_facts = Rows(_SQL["find_facts"])
find_rules = Rows(_SQL["find_rules"])
get_episode_by_key = FirstRow(_SQL["get_episode_by_key"])
get_fact_by_key = FirstRow(_SQL["get_fact_by_key"])
get_rule_by_key = FirstRow(_SQL["get_rule_by_key"])

_GET_TRUST = {kind: FirstValue[int](_SQL[f"get_{kind}_trust"]) for kind in MemoryType}


async def get_trust(tx: Transaction, ref: MemoryRef) -> int | None:
    """Load how far a memory is trusted; None where the tenant has no such memory."""
    return await _GET_TRUST[ref.type](tx, id=ref.id)
