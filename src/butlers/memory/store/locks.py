"""Locks on names, held until the transaction ends."""

from butlers.db.postgres import Transaction
from butlers.db.queries import load
from butlers.db.statements import Rows

_SQL = load(__file__)

_take_turns = Rows(_SQL["take_turns"])


async def lock_names(tx: Transaction, subject: str, *names: str) -> None:
    """Lock names of a tenant until the transaction ends."""
    whole = ["\x1f".join((f"butlers.{subject}", tx.tenant_id, name)) for name in names]
    await _take_turns(tx, names=whole)
