"""The statements of the decay sweep, each over one page of ids."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load

_SQL = load(__file__)
_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Page:
    """A run of memories in id order: those after one id up to and with another."""

    after: UUID
    last: UUID
    checked: int


@dataclass(frozen=True, slots=True)
class Due:
    """Which memories are meant: those of a page with an effective confidence in a range."""

    page: Page
    least: float
    below: float
    now: datetime


NextPage = Callable[[Transaction, Page | None, int], Awaitable[Page | None]]
Move = Callable[[Transaction, Due], Awaitable[list[Row]]]


async def next_fact_page(tx: Transaction, before: Page | None, limit: int) -> Page | None:
    """The facts that can fade and come after a page, or None at the end."""
    return await _next_page(tx, "fact_page", before, limit)


async def next_rule_page(tx: Transaction, before: Page | None, limit: int) -> Page | None:
    """The rules that can fade and come after a page, or None at the end."""
    return await _next_page(tx, "rule_page", before, limit)


async def expire_facts(tx: Transaction, due: Due) -> list[Row]:
    """Expire active facts; `id`, what each `was` and its `effective_confidence`."""
    return await _move(tx, "expire_facts", due)


async def fade_facts(tx: Transaction, due: Due) -> list[Row]:
    """Note facts as fading that were not; the same of each."""
    return await _move(tx, "fade_facts", due)


async def recover_facts(tx: Transaction, due: Due) -> list[Row]:
    """Note fading facts as fading no more; the same of each."""
    return await _move(tx, "recover_facts", due)


async def forget_rules(tx: Transaction, due: Due) -> list[Row]:
    """Forget rules; the same of each."""
    return await _move(tx, "forget_rules", due)


async def fade_rules(tx: Transaction, due: Due) -> list[Row]:
    """Note rules as fading that were not; the same of each."""
    return await _move(tx, "fade_rules", due)


async def recover_rules(tx: Transaction, due: Due) -> list[Row]:
    """Note fading rules as fading no more; the same of each."""
    return await _move(tx, "recover_rules", due)


async def _next_page(tx: Transaction, name: str, before: Page | None, limit: int) -> Page | None:
    after = before.last if before else _FIRST
    row = await tx.fetch_one(_SQL[name], after=after, limit=limit)
    return Page(after, row["last"], row["checked"]) if row and row["checked"] else None


async def _move(tx: Transaction, name: str, due: Due) -> list[Row]:
    return await tx.fetch(
        _SQL[name],
        after=due.page.after,
        last=due.page.last,
        least=due.least,
        below=due.below,
        now=due.now,
    )
