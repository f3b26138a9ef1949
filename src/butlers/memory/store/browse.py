"""List memories and entities by filter, a page at a time, newest first."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import NamedQuery, load
from butlers.db.statements import OnlyRow, Rows

_SQL = load(__file__)

count_memories = OnlyRow(_SQL["count_memories"])

find_between = Rows(_SQL["find_between"])
find_scopes = Rows(_SQL["find_scopes"])

FACTS = _SQL["facts"]
RULES = _SQL["rules"]
EPISODES = _SQL["episodes"]
ENTITIES = _SQL["entities"]

EXCERPT = 2_000
"""The most characters of a memory that a listing shows; `content_length` says how many it has."""


@dataclass(frozen=True, slots=True)
class PageWindow:
    """Which part of a listing is wanted: how many rows, after which row, created when."""

    limit: int
    now: datetime
    place_at: datetime | None = None
    place_id: UUID | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None


async def find(
    tx: Transaction, listing: NamedQuery, where: Mapping[str, Any], window: PageWindow
) -> list[Row]:
    """Find the rows of a listing that are in the window and pass every filter."""
    values = {"excerpt": EXCERPT, **asdict(window), **where}
    wanted = [name for name in listing.parameters if name in values]
    return await tx.fetch(listing, **{name: values[name] for name in wanted})
