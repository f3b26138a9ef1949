"""Decide how far a new memory is trusted: by who stores it, its source, and what it repeats."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.memory.flows.links import link_in
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    New,
    NewEpisode,
    Origin,
    Provenance,
    Relation,
    Trust,
)
from butlers.memory.policy import trust
from butlers.memory.policy.repeats import says_again
from butlers.memory.store import memories, repeats

EXACT, NEAREST = 500, 40
"""A tenant of so many memories is read whole, else by index; how many of the nearest are read."""
_LATELY = timedelta(hours=6)
"""A working session: what was told in it is what an agent repeats."""


@dataclass(frozen=True, slots=True)
class Sourced:
    """The provenance of a new memory, and the less trusted memory that it repeats, if any."""

    provenance: Provenance
    original: MemoryRef | None = None


async def provenance_of(
    work: UnitOfWork, new: New, embedding: Embedding, source: Row | None = None
) -> Sourced:
    """Return the provenance of a new memory; what repeats a less trusted one is trusted as little.

    What a person states is not compared. What was said first, or by a person, loses no trust.
    """
    known = trust.provenance(new, work.lineage, source)
    if _is_persons(known, source) or known.trust is Trust.LOW:
        return Sourced(known)
    for part in embedding.parts:
        if row := await _find_original(work, part, embedding.version_id, known.trust):
            original = MemoryRef(MemoryType(row["kind"]), row["id"])
            return Sourced(replace(known, trust=_trust_of(row)), original)
    return Sourced(known)


def _is_persons(known: Provenance, source: Row | None) -> bool:
    """Whether a person states something, or it is drawn from what the operator stored."""
    return known.origin.is_person or (source is not None and source["origin"] == Origin.OPERATOR)


async def find_repeated(memory: Memory, text: str, lineage: Lineage) -> list[str]:
    """Return the sentences of a text that repeat less trusted memories, or else all of it."""
    [made] = await memory.embed([text], lineage) if text else [None]
    if made is None or not made.parts:
        return []
    async with memory.begin(lineage) as work:
        found = [
            part[0]
            for part in made.parts
            if await _find_original(work, part, made.version_id, lineage.trust)
        ]
    whole = made.parts[0][0]
    return [one for one in found if one != whole] or found


async def link_repeated(work: UnitOfWork, ref: MemoryRef, sourced: Sourced) -> None:
    """Link a memory that was stored to the one it repeats; a proposal is none."""
    if sourced.original is not None and await memories.get_trust(work.tx, ref) is not None:
        await link_in(work, Link(ref, Relation.DERIVED_FROM, sourced.original), repeats=True)


def provenance_payload(new: New, provenance: Provenance) -> dict[str, Any]:
    """Return what an event says of a memory's source, lesser trust and quarantine."""
    payload: dict[str, Any] = {}
    if not isinstance(new, NewEpisode):
        episode = new.source_episode_id
        payload = {
            "source_butler": new.source_butler,
            "source_episode_id": episode and str(episode),
        }
    if provenance.trust < Trust.STATED:
        payload |= {"origin": provenance.origin, "trust": provenance.trust}
    more = {name: getattr(provenance, name) for name in ("agent", "accepted_by", "quarantined")}
    return payload | {name: value for name, value in more.items() if value}


async def _find_original(
    work: UnitOfWork, part: tuple[str, list[float]], version_id: UUID, below: Trust
) -> Row | None:
    """Find the least trusted memory that a text repeats; None where that was known before."""
    text, vector = part
    about = {"near": vector, "version_id": version_id, "told_since": work.now - _LATELY}
    rows = await repeats.find_nearest(work.tx, few=EXACT, most=NEAREST, **about)
    saying = [
        row
        for row in rows
        if says_again(text, row["content"], row["similarity"], was_told=row["was_told"])
    ]
    lesser = [row for row in saying if _trust_of(row) < min(below, Trust.INFERRED)]
    return None if _is_known(lesser, saying) else min(lesser, key=_trust_of)


def _is_known(lesser: list[Row], saying: list[Row]) -> bool:
    """Whether no lesser says it, or somebody more trusted who said it first or is a person."""
    most = max(map(_trust_of, lesser), default=Trust.LOW)
    first = min((row["created_at"] for row in lesser), default=None)
    return first is None or any(
        _trust_of(row) > most and (Origin(row["origin"]).is_person or row["created_at"] < first)
        for row in saying
    )


def _trust_of(row: Row) -> Trust:
    """Return how far a memory is trusted; one in quarantine not at all."""
    return Trust.LOW if row["is_held"] else Trust(row["trust"])
