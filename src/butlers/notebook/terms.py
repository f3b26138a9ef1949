"""The term index: counts of terms per note, kept up to date by writes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import structlog

from butlers.db import queries
from butlers.db.sqlite import Row, Value
from butlers.errors import Unavailable
from butlers.kernel.similarity import IDFCorpus
from butlers.notebook import store
from butlers.notebook.categories import categorize
from butlers.notebook.handle import Notebook
from butlers.notebook.model import AgentMemory
from butlers.notebook.store import note
from butlers.notebook.tokenizer import term_counts

_QUERIES = queries.load(__file__)
_log = structlog.get_logger(__name__)
VECTOR_TERMS = 256
"""Only the most frequent terms of a note are weighed, so that long notes do not slow searches."""


@dataclass(frozen=True, slots=True)
class Owner:
    """An agent's number in the index, and how many notes it has."""

    number: int
    documents: int

    @property
    def notes(self) -> dict[str, Value]:
        """The lowest and the highest number of its notes, as statements take them."""
        return {"first": self.number << 32, "last": (self.number + 1 << 32) - 1}


def get_owner(db: Notebook, agent_id: str) -> Owner | None:
    """Read an agent's entry in the index; None before its first note."""
    row = db.sqlite.fetch_one(_QUERIES["get_owner"], agent_id=agent_id)
    return None if row is None else Owner(*row)


def leading(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the most frequent terms, by which a note is weighed."""
    return dict(islice(counts.items(), VECTOR_TERMS))


def count_terms(db: Notebook, memory_id: str, counts: Mapping[str, int]) -> None:
    """Add the terms of a live note to its agent's corpus."""
    long = len(counts) > VECTOR_TERMS
    db.sqlite.execute(
        _QUERIES["count_terms"],
        memory_id=memory_id,
        leading_terms=_json(leading(counts)) if long else None,
        terms=_json(counts),
    )


def find_uncounted(db: Notebook, limit: int) -> list[AgentMemory]:
    """Find live notes that are not indexed: written before the index existed, or by hand."""
    return [note(row) for row in db.sqlite.fetch(_QUERIES["find_uncounted"], limit=limit)]


def corpus(db: Notebook, owner: Owner, terms: Iterable[str]) -> IDFCorpus:
    """Return the agent's corpus for these terms; call it inside a snapshot."""
    return IDFCorpus(owner.documents, frequencies(db, owner, terms))


def frequencies(db: Notebook, owner: Owner, terms: Iterable[str]) -> dict[str, int]:
    """Count the agent's live notes that contain each term; call it inside a snapshot."""
    wanted = set(terms)
    known = db.frequencies.at(db.sqlite.stamp(), owner.number)
    unknown = wanted.difference(known)
    if unknown:
        missing = json.dumps([*unknown], ensure_ascii=False)
        query = _QUERIES["document_frequencies"]
        rows = db.sqlite.fetch(query, owner=owner.number, terms=missing)
        known |= dict.fromkeys(unknown, 0) | dict(rows)
    return {term: known[term] for term in wanted}


def weights(db: Notebook, agent_id: str, counts: Mapping[str, int]) -> dict[str, float]:
    """Compute the TF-IDF weights of a note that is already indexed."""
    owner, total = get_owner(db, agent_id), sum(counts.values())
    if owner is None or not total:
        return {}
    shares = {term: count / total for term, count in leading(counts).items()}
    return corpus(db, owner, shares).weights(shares)


def _json(counts: Mapping[str, int]) -> str:
    # Unescaped, because SQLite's json_each returns keys as they are written.
    return json.dumps(counts, ensure_ascii=False, separators=(",", ":"))


VERSION = 1
"""Raise it whenever the terms or categories of a text change; see `set_version`."""

_RENEWED_AT_ONCE = 200


def renew_notes(db: Notebook) -> None:
    """Recount and recategorize the notes of an earlier version's file, unless it is read-only."""
    try:
        version = db.sqlite.fetch_one(_QUERIES["get_version"])
        if version is None or version[0] < VERSION:
            _renew_all(db)
            db.sqlite.execute(_QUERIES["set_version"])
    except Unavailable as error:
        _log.warning("notes keep the index of an earlier version", error=str(error))


def _renew_all(db: Notebook) -> None:
    after: str | None = ""
    while after is not None:
        with db.sqlite.transaction():
            rows = db.sqlite.fetch(_QUERIES["following_notes"], id=after, limit=_RENEWED_AT_ONCE)
            for row in rows:
                _renew(db, row)
        after = rows[-1][0] if rows else None


def _renew(db: Notebook, row: Row) -> None:
    """Update counts and category where they differ; leave notes that have none."""
    memory, counted = store.note(row), row[store.COLUMNS]
    counts = term_counts(memory.key, memory.content)
    if counted is not None and counts != json.loads(counted):
        db.sqlite.execute(_QUERIES["reenter_note"], memory_id=memory.id)
        count_terms(db, memory.id, counts)
    known, category = store.get_category(db, memory.id), categorize(memory.key, memory.content)
    if known not in (None, category):
        store.set_category(db, memory.id, category)
