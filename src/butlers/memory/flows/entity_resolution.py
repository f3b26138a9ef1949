"""Entity resolution: find the entities that a name may mean, the likeliest first."""

import asyncio
from collections.abc import Mapping, Sequence
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
    kind = entity_type and inputs.checked_word("entity_type", entity_type, EntityType).value
    named: dict[str, Any] = {"name": names.checked_name("name", name), "entity_type": kind}
    async with memory.transaction(lineage) as tx:
        rows = await entities.find_by_name(
            tx, limit=MAX_CANDIDATES, favoured=tuple(hints.domain_scores), **named
        )
        candidates = [candidate(row, row["name_match"]) for row in rows]
        if enable_fuzzy and len(named["name"]) >= policy.MIN_FUZZY_NAME:
            candidates += await _find_similar(tx, named, candidates)
        extra = await _extra_scores(tx, candidates, hints)
    return policy.ranked(candidates, extra)


async def ranked_bearers(
    tx: Transaction, bearers: Sequence[Row], name: str, new: NewFact
) -> list[dict[str, Any]]:
    """Rank entities of one name by how well a fact fits them."""
    candidates = []
    for row in bearers:
        is_own = row["canonical_name"].lower() == name.lower()
        candidates.append(candidate(row, NameMatch.EXACT if is_own else NameMatch.ALIAS))
    extra = await _extra_scores(tx, candidates, Hints(new.searchable_text))
    shown = ("entity_id", "canonical_name", "entity_type", "score")
    return [{key: one[key] for key in shown} for one in policy.ranked(candidates, extra)]


async def _find_similar(
    tx: Transaction, named: dict[str, Any], candidates: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Find entities spelled like the name: by pg_trgm, or else in Python."""
    ids, limit = [found["entity_id"] for found in candidates], MAX_CANDIDATES - len(candidates)
    if await entities.has_trigrams(tx):
        wanted = {"found": ids, "threshold": policy.FUZZY_THRESHOLD, "limit": limit}
        rows = await entities.find_similar(tx, **named, **wanted)
        return [candidate(row, NameMatch.FUZZY, FuzzyMeasure.PG_TRGM) for row in rows]
    kind = named["entity_type"]
    rows = await entities.find_unmerged(tx, entity_type=kind, found=ids, limit=MAX_MEASURED)
    # Many names take a moment, in which the event loop has others to serve.
    rows = await asyncio.to_thread(policy.similar, rows, named["name"], limit)
    return [candidate(row, NameMatch.FUZZY, FuzzyMeasure.PRODUCT) for row in rows]


async def _extra_scores(
    tx: Transaction, candidates: list[dict[str, Any]], hints: Hints
) -> dict[UUID, float]:
    """Score each candidate by the hints."""
    ids = [found["entity_id"] for found in candidates]
    extra = {entity_id: hints.domain_scores.get(entity_id, 0.0) for entity_id in ids}
    terms = frozenset(await entities.keywords(tx, text=hints.text) if hints.text else ())
    if terms:
        known = await entities.find_fact_keywords(tx, ids, MAX_FACTS)
        for entity_id, facts in known.items():
            extra[entity_id] += policy.overlap_boost(facts, terms)
    return extra
