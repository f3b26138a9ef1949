"""Entities."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, OnlyValue, Rows, Touched
from butlers.errors import NotFound

_SQL = load(__file__)

insert = Touched(_SQL["insert"])
get = FirstRow(_SQL["get"])
get_by_name = FirstRow(_SQL["get_by_name"])
find_by_name = Rows(_SQL["find_by_name"])
has_trigrams = OnlyValue[bool](_SQL["has_trigrams"])
find_similar = Rows(_SQL["find_similar"])
find_unmerged = Rows(_SQL["find_unmerged"])
keywords = OnlyValue[list[str]](_SQL["keywords"])
find_unlinked_facts = Rows(_SQL["find_unlinked_facts"])
get_merge = FirstValue[dict[str, Any]](_SQL["get_merge"])
is_unclaimed = OnlyValue[bool](_SQL["is_unclaimed"])
is_created_by = OnlyValue[bool](_SQL["is_created_by"])
is_a_person = OnlyValue[bool](_SQL["is_a_person"])
# Lock the entities with one of the names; alone: nobody stores facts about them either.
hold_bearers = Rows(_SQL["hold_bearers_for_share"])
hold_bearers_alone = Rows(_SQL["hold_bearers_for_update"])
hold_facts = Rows(_SQL["hold_facts"])
find_facts = OnlyValue[list[UUID]](_SQL["find_facts"])
find_overlapping_facts = Rows(_SQL["find_overlapping_facts"])
supersede_facts = Rows(_SQL["supersede_facts"])
begin = Touched(_SQL["begin"])
succeed = Touched(_SQL["succeed"])
repoint = Touched(_SQL["repoint"])

_lock_unmerged = FirstRow(_SQL["lock_unmerged"])
_hold = Rows(_SQL["hold"])
_update = Touched(_SQL["update"])
_find_fact_keywords = Rows(_SQL["find_fact_keywords"])


async def lock_unmerged(tx: Transaction, entity_id: UUID) -> None:
    """Lock an entity against merging; NotFound for a missing or merged one."""
    row = await _lock_unmerged(tx, id=entity_id)
    if row is None:
        raise NotFound(f"entity_id: entity {entity_id} does not exist; create it first")
    if row["merged_into"] is not None:
        raise NotFound(
            f"entity_id: entity {entity_id} does not exist any more; "
            f"it was merged into {row['merged_into']}, use that"
        )


async def hold(tx: Transaction, *ids: UUID) -> dict[UUID, Row]:
    """Lock entities until the transaction ends; return them by id."""
    return {row["id"]: row for row in await _hold(tx, ids=ids)}


async def update(tx: Transaction, entity_id: UUID, row: Row, now: datetime) -> None:
    """Give an entity the name, type, aliases and metadata of the row."""
    columns = ("canonical_name", "entity_type", "aliases", "metadata")
    written = {name: row[name] for name in columns}
    await _update(tx, id=entity_id, now=now, **written)


async def find_fact_keywords(
    tx: Transaction, ids: Sequence[UUID], limit: int
) -> dict[UUID, list[frozenset[str]]]:
    """Find the keywords of active facts about each entity, of at most `limit` facts each."""
    known: dict[UUID, list[frozenset[str]]] = {entity_id: [] for entity_id in ids}
    for row in await _find_fact_keywords(tx, ids=ids, limit=limit):
        known[row["entity_id"]].append(frozenset(row["keywords"]))
    return known
