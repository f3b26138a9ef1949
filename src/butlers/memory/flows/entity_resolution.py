"""Entity resolution: find the entities that a name may mean, the likeliest first."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.handle import Memory
from butlers.memory.model import EntityType, Lineage, NewFact
from butlers.memory.policy import entities as names
from butlers.memory.policy import entity_resolution as policy
from butlers.memory.policy import inputs
from butlers.memory.policy.entity_resolution import FuzzyMeasure, Hints, NameMatch, candidate
from butlers.memory.store import entities

MAX_CANDIDATES = 50
MAX_FACTS = 500
# How many entities the product measures itself where the server cannot.
MAX_MEASURED = 20_000


@dataclass(frozen=True, slots=True)
class NameSearch:
    """A name to resolve, and the entities preferred among equals."""

    name: str
    entity_type: str | None
    favoured: tuple[UUID, ...]


async def resolve_entity(
    memory: Memory,
    name: str,
    lineage: Lineage,
    *,
    entity_type: str | None = None,
    context_hints: Mapping[str, Any] | None = None,
    enable_fuzzy: bool = False,
) -> list[dict[str, Any]]:
    """Return the entities that a name may mean, best score first; nothing is created."""
    hints = policy.checked_hints(context_hints)
    search = _checked_search(name, entity_type, hints)
    async with memory.transaction(lineage) as tx:
        found = await _find_by_name(tx, search)
        if enable_fuzzy and len(search.name) >= policy.MIN_FUZZY_NAME:
            found += await _find_fuzzily(tx, search, found)
        extra = await _extra_scores(tx, found, hints)
    return policy.ranked(found, extra)


async def ranked_bearers(
    tx: Transaction, bearers: Sequence[Row], name: str, new: NewFact
) -> list[dict[str, Any]]:
    """Rank entities of one name by how well a fact fits them."""
    found = [candidate(row, _match(row, name)) for row in bearers]
    extra = await _extra_scores(tx, found, Hints(new.searchable_text))
    shown = ("entity_id", "canonical_name", "entity_type", "score")
    return [{key: one[key] for key in shown} for one in policy.ranked(found, extra)]


def _match(row: Row, name: str) -> NameMatch:
    own = row["canonical_name"].lower() == name.lower()
    return NameMatch.EXACT if own else NameMatch.ALIAS


def _checked_search(name: str, entity_type: str | None, hints: Hints) -> NameSearch:
    kind = entity_type and inputs.checked_word("entity_type", entity_type, EntityType).value
    return NameSearch(names.checked_name("name", name), kind, tuple(hints.domain_scores))


async def _find_by_name(tx: Transaction, search: NameSearch) -> list[dict[str, Any]]:
    rows = await entities.find_by_name(tx, limit=MAX_CANDIDATES, **asdict(search))
    return [candidate(row, row["name_match"]) for row in rows]


async def _find_fuzzily(
    tx: Transaction, search: NameSearch, found: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Find entities spelled like the name: by pg_trgm, or else in Python."""
    ids, limit = [one["entity_id"] for one in found], MAX_CANDIDATES - len(found)
    if await entities.has_trigrams(tx):
        measure = FuzzyMeasure.PG_TRGM
        rows = await entities.find_similar(
            tx,
            name=search.name,
            entity_type=search.entity_type,
            found=ids,
            threshold=policy.FUZZY_THRESHOLD,
            limit=limit,
        )
    else:
        measure = FuzzyMeasure.PRODUCT
        rows = await _measure(tx, search, ids, limit)
    return [candidate(row, NameMatch.FUZZY, measure) for row in rows]


async def _measure(tx: Transaction, search: NameSearch, ids: list[UUID], limit: int) -> list[Row]:
    rows = await entities.find_unmerged(
        tx, entity_type=search.entity_type, found=ids, limit=MAX_MEASURED
    )
    # Many names take a moment, in which the event loop has others to serve.
    return await asyncio.to_thread(policy.similar, rows, search.name, limit)


async def _extra_scores(
    tx: Transaction, found: list[dict[str, Any]], hints: Hints
) -> dict[UUID, float]:
    """Score each candidate by the hints."""
    ids = [one["entity_id"] for one in found]
    extra = {entity_id: hints.domain_scores.get(entity_id, 0.0) for entity_id in ids}
    terms = frozenset(await entities.keywords(tx, text=hints.text) if hints.text else ())
    if terms:
        known = await entities.find_fact_keywords(tx, ids, MAX_FACTS)
        for entity_id, facts in known.items():
            extra[entity_id] += policy.overlap_boost(facts, terms)
    return extra
