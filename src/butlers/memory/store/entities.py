"""Entities in the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.errors import NotFound

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class NameSearch:
    """Which entities are looked for, and which of equals come first when not all fit."""

    name: str
    entity_type: str | None = None
    favoured: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Rivals:
    """Two active facts that would share a key once their entities are one."""

    winner_id: UUID
    loser_id: UUID
    source_wins: bool


async def hold_living(tx: Transaction, entity_id: UUID) -> None:
    """Keep an entity from being merged away meanwhile; one that is gone is refused."""
    row = await tx.fetch_one(_SQL["hold_living"], id=entity_id)
    if row is None:
        raise NotFound(f"entity_id: entity {entity_id} does not exist; create it first")
    if row["merged_into"] is not None:
        raise NotFound(
            f"entity_id: entity {entity_id} does not exist any more; "
            f"it was merged into {row['merged_into']}, use that"
        )


async def hold(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Row]:
    """The entities by id, kept from any other change until the transaction ends."""
    rows = await tx.fetch(_SQL["hold"], ids=ids)
    return {row["id"]: row for row in rows}


async def insert(tx: Transaction, row: dict[str, Any]) -> bool:
    """Add an entity; false when its name is taken."""
    return await tx.execute(_SQL["insert"], **row) == 1


async def get(tx: Transaction, entity_id: UUID) -> Row | None:
    """One entity, living or merged away, or None."""
    return await tx.fetch_one(_SQL["get"], id=entity_id)


async def get_by_name(tx: Transaction, canonical_name: str, entity_type: str) -> Row | None:
    """The entity that bears the name, living or merged away, or None."""
    return await tx.fetch_one(
        _SQL["get_by_name"],
        canonical_name=canonical_name,
        entity_type=entity_type,
    )


async def update(tx: Transaction, entity_id: UUID, row: Row, now: datetime) -> Row | None:
    """Give an entity the name, aliases and metadata of the row."""
    return await tx.fetch_one(
        _SQL["update"],
        id=entity_id,
        canonical_name=row["canonical_name"],
        aliases=row["aliases"],
        metadata=row["metadata"],
        now=now,
    )


async def find_by_name(tx: Transaction, search: NameSearch, limit: int) -> list[Row]:
    """Living entities with the name in theirs, each with its `name_match`, best tier first."""
    return await tx.fetch(
        _SQL["find_by_name"],
        name=search.name,
        entity_type=search.entity_type,
        favoured=search.favoured,
        limit=limit,
    )


async def has_trigrams(tx: Transaction) -> bool:
    """Whether `find_similar` can be asked of this server."""
    return bool(await tx.fetch_value(_SQL["has_trigrams"]))


async def find_similar(
    tx: Transaction, search: NameSearch, found: Sequence[UUID], threshold: float, limit: int
) -> list[Row]:
    """Living entities beyond those found that are spelled like the name, most alike first."""
    return await tx.fetch(
        _SQL["find_similar"],
        name=search.name,
        entity_type=search.entity_type,
        found=found,
        threshold=threshold,
        limit=limit,
    )


async def find_living(
    tx: Transaction, search: NameSearch, found: Sequence[UUID], limit: int
) -> list[Row]:
    """Living entities beyond those found, whatever their name, the latest changed first."""
    return await tx.fetch(
        _SQL["find_living"],
        entity_type=search.entity_type,
        found=found,
        limit=limit,
    )


async def keywords(tx: Transaction, text: str) -> frozenset[str]:
    """The words of a text as keyword search knows them."""
    return frozenset(await tx.fetch_value(_SQL["keywords"], text=text))


async def find_fact_keywords(
    tx: Transaction, ids: Sequence[UUID], limit: int
) -> dict[UUID, list[frozenset[str]]]:
    """The keywords of each active fact about each entity, of at most `limit` facts each."""
    rows = await tx.fetch(_SQL["find_fact_keywords"], ids=ids, limit=limit)
    known: dict[UUID, list[frozenset[str]]] = {entity_id: [] for entity_id in ids}
    for row in rows:
        known[row["entity_id"]].append(frozenset(row["keywords"]))
    return known


async def hold_facts(tx: Transaction, source_id: UUID, target_id: UUID) -> int:
    """Keep the facts of both entities from changing meanwhile; how many the source has."""
    held = await tx.fetch_value(_SQL["hold_facts"], source_id=source_id, target_id=target_id)
    return int(held)


async def find_rivals(tx: Transaction, source_id: UUID, target_id: UUID) -> list[Rivals]:
    """The active facts that would share a key, and which of each two wins."""
    rows = await tx.fetch(_SQL["find_rivals"], source_id=source_id, target_id=target_id)
    return [Rivals(**row) for row in rows]


async def settle(tx: Transaction, rivals: Sequence[Rivals], now: datetime) -> None:
    """Every loser is superseded by its winner, which names it and is linked to it."""
    winners = [pair.winner_id for pair in rivals]
    losers = [pair.loser_id for pair in rivals]
    await tx.execute(_SQL["supersede"], losers=losers)
    await tx.execute(_SQL["succeed"], winners=winners, losers=losers)
    await tx.execute(
        _SQL["link_successors"],
        winners=winners,
        losers=losers,
        now=now,
    )


async def repoint(tx: Transaction, source_id: UUID, target_id: UUID) -> None:
    """All facts of the source become facts of the target."""
    await tx.execute(_SQL["repoint"], source_id=source_id, target_id=target_id)
