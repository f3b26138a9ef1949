"""What came of applying rules: appended to, never changed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.kernel.text import clean
from butlers.memory.model import Lineage, Outcome

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Application:
    """One use of a rule and what came of it."""

    rule_id: UUID
    outcome: Outcome
    reason: str | None
    context: dict[str, Any]


async def insert(
    tx: Transaction, application_id: UUID, new: Application, lineage: Lineage, now: datetime
) -> None:
    """Record an application in the transaction of its mark."""
    await tx.execute(
        _SQL["insert"],
        id=application_id,
        rule_id=new.rule_id,
        outcome=new.outcome,
        reason=new.reason,
        context=new.context,
        request_id=lineage.request_id and clean(lineage.request_id),
        actor=clean(lineage.actor),
        now=now,
    )


async def find(tx: Transaction, rule_id: UUID, limit: int) -> list[Row]:
    """The applications of a rule, newest first."""
    return await tx.fetch(_SQL["of_rule"], rule_id=rule_id, limit=limit)
