"""Cross references between notes of an agent that share words."""

import json
from collections.abc import Mapping
from itertools import accumulate

from butlers.db import queries
from butlers.db.sqlite import Row
from butlers.kernel.similarity import jaccard
from butlers.notebook import terms as corpora
from butlers.notebook.handle import Notebook, checked_limit
from butlers.notebook.matching import match_any
from butlers.notebook.model import AgentMemory, RelatedMemory
from butlers.notebook.store import COLUMNS, kept_rows, note
from butlers.notebook.terms import Owner

_QUERIES = queries.load(__file__)

THRESHOLD = 0.05
MOST_REFERENCES = 10
_CANDIDATES = 20
_MOST_TERMS = 16
_MOST_POSTINGS = 300
"""How many index entries one save may rank, whatever the notebook's size."""


def get_related(db: Notebook, memory_id: str, limit: int = MOST_REFERENCES) -> list[RelatedMemory]:
    """List the live notes that share words with this one; none without the reference table."""
    query, most = _QUERIES["related_notes"], checked_limit(limit)
    rows = kept_rows(db, query, memory_id=memory_id, limit=most)
    return [RelatedMemory(note(row), row[COLUMNS]) for row in rows]


def refer(db: Notebook, memory: AgentMemory, counts: Mapping[str, int]) -> None:
    """Replace the references between a note just written and the notes like it."""
    db.sqlite.execute(_QUERIES["unlink_note"], memory_id=memory.id)
    owner = corpora.get_owner(db, memory.agent_id)
    if owner is None or not counts:
        return
    alike = _alike(db, owner, memory.id, counts)
    pairs = [(memory.id, target, score) for target, score in alike[:MOST_REFERENCES]]
    pairs += [(source, memory.id, score) for source, score in _with_room(db, alike)]
    now = db.now_text()
    db.sqlite.execute_many(
        _QUERIES["insert_reference"],
        [{"source_id": s, "target_id": t, "score": score, "now": now} for s, t, score in pairs],
    )


def _with_room(db: Notebook, alike: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Choose the notes that refer back: those with a free or a weaker reference."""
    sources = json.dumps([source for source, _ in alike])
    query = _QUERIES["weakest_references"]
    weakest: dict[str, float] = dict(db.sqlite.fetch(query, sources=sources, most=MOST_REFERENCES))
    chosen = [(source, score) for source, score in alike if score > weakest.get(source, -1.0)]
    db.sqlite.execute_many(
        _QUERIES["drop_weakest_reference"],
        [{"source_id": source} for source, _ in chosen if source in weakest],
    )
    return chosen


def _alike(
    db: Notebook, owner: Owner, memory_id: str, counts: Mapping[str, int]
) -> list[tuple[str, float]]:
    """Return the candidates above the threshold with their similarity, most similar first."""
    scored = (
        (other_id, jaccard(counts.keys(), json.loads(other).keys()))
        for other_id, other in _candidates(db, owner, memory_id, counts)
    )
    above = [(other_id, score) for other_id, score in scored if score > THRESHOLD]
    return sorted(above, key=lambda pair: (-pair[1], pair[0]))


def _candidates(db: Notebook, owner: Owner, memory_id: str, counts: Mapping[str, int]) -> list[Row]:
    """Fetch other notes that contain the note's rarest shared terms."""
    frequencies = corpora.frequencies(db, owner, counts)
    shared = sorted((documents, term) for term, documents in frequencies.items() if documents > 1)
    rarest = shared[:_MOST_TERMS]
    if not rarest:
        return []
    # The rarest terms while ranking all they match stays cheap; if it never is, the latest notes.
    sizes = accumulate(documents for documents, _ in rarest)
    cheap = [term for (_, term), size in zip(rarest, sizes, strict=True) if size <= _MOST_POSTINGS]
    query = _QUERIES["matching_notes" if cheap else "latest_matching_notes"]
    match = match_any(cheap or [term for _, term in rarest])
    within = {**owner.notes, "limit": _CANDIDATES}
    return db.sqlite.fetch(query, match=match, memory_id=memory_id, **within)
