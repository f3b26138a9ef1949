"""Decide how far a new memory is trusted: by who stores it, its source, and what it repeats."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pgvector import Vector

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
from butlers.memory.policy.repeats import repeated_by
from butlers.memory.store import embeddings, memories, repeats
from butlers.worker_process import read_apart

EXACT, NEAREST = 500, 40
"""A tenant of so many memories is read whole, else by index; how many of the nearest are read."""
_TEXTS_PER_READING = 8  # to compare so many with a memory takes as long as to read it
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
    for row in filter(None, await _find_originals(work, embedding, known.trust)):
        original = MemoryRef(MemoryType(row["kind"]), row["id"])
        return Sourced(replace(known, trust=_trust_of(row)), original)
    return Sourced(known)


def _is_persons(known: Provenance, source: Row | None) -> bool:
    """Whether a person states something, or it is drawn from what the operator stored."""
    return known.origin.is_person or (source is not None and source["origin"] == Origin.OPERATOR)


async def find_repeated(memory: Memory, text: str, lineage: Lineage) -> list[str]:
    """Return the sentences of a text that repeat less trusted memories, or else all of it."""
    async with memory.begin(lineage) as work:
        versions = await embeddings.find_versions(work.tx)
    if not text or not any(one.has_less_trusted for one in versions):
        return []
    [made] = await memory.embed([text], lineage)
    async with memory.begin(lineage) as work:
        originals = await _find_originals(work, made, lineage.trust)
    found = [said for (said, _), row in zip(made.parts, originals, strict=True) if row]
    return [one for one in found if one != made.parts[0][0]] or found


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


async def _find_originals(work: UnitOfWork, made: Embedding, below: Trust) -> list[Row | None]:
    """Find the least trusted memory that each part of a text repeats; None where it was known."""
    if not made.parts:
        return []
    texts, vectors = zip(*made.parts, strict=True)
    near = list(map(Vector, vectors))
    about = {"near": near, "version_id": made.version_id, "told_since": work.now - _LATELY}
    rows = await repeats.find_nearest(work.tx, few=EXACT, most=NEAREST, **about)
    length = sum(len(row["content"]) for row in rows) * len(texts) // _TEXTS_PER_READING
    saying = await read_apart(length, _saying, texts, [dict(row) for row in rows])
    return [_original(rows, below) for rows in saying]


def _saying(texts: Sequence[str], rows: Sequence[Row]) -> list[list[Row]]:
    """Return for each text the memories that say it too."""
    saying: list[list[Row]] = [[] for _ in texts]
    for row in rows:
        near = dict(zip(row["places"], row["similarities"], strict=True))
        for place in repeated_by(texts, row["content"], near, was_told=row["was_told"]):
            saying[place].append({**row, "similarity": near[place]})
    return saying


def _original(saying: list[Row], below: Trust) -> Row | None:
    lesser = [row for row in saying if _trust_of(row) < min(below, Trust.INFERRED)]
    if _is_known(lesser, saying):
        return None
    return min(lesser, key=lambda row: (_trust_of(row), -row["similarity"]))


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
