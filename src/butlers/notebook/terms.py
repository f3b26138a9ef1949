"""Which terms stand in which notes: counted when a note is written, never by reading them all."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from butlers.db import queries
from butlers.kernel.tfidf import IDFCorpus
from butlers.notebook.handle import Notebook
from butlers.notebook.model import AgentMemory
from butlers.notebook.store import note

_QUERIES = queries.load(__file__)
VECTOR_TERMS = 256
"""A note is weighed by its most frequent terms: a long one must not make every search long."""


@dataclass(frozen=True, slots=True)
class Owner:
    """An agent's place in the index, and how many notes its corpus has."""

    number: int
    documents: int

    @property
    def first(self) -> int:
        """The lowest number one of its notes can have."""
        return self.number << 32

    @property
    def last(self) -> int:
        """The highest number one of its notes can have."""
        return (self.number + 1 << 32) - 1


def get_owner(db: Notebook, agent_id: str) -> Owner | None:
    """The agent's place in the index, once it has written a note."""
    row = db.sqlite.fetch_one(_QUERIES["get_owner"], agent_id=agent_id)
    return None if row is None else Owner(*row)


def leading(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts a note is weighed by."""
    return dict(islice(counts.items(), VECTOR_TERMS))


def count_terms(db: Notebook, memory_id: str, counts: Mapping[str, int]) -> None:
    """Let the terms of a live note count in its agent's corpus."""
    long = len(counts) > VECTOR_TERMS
    db.sqlite.execute(
        _QUERIES["count_terms"],
        memory_id=memory_id,
        leading_terms=_json(leading(counts)) if long else None,
        terms=_json(counts),
    )


def find_uncounted(db: Notebook, limit: int) -> list[AgentMemory]:
    """Live notes whose terms are not counted: written before the index was, or by hand."""
    return [note(row) for row in db.sqlite.fetch(_QUERIES["find_uncounted"], limit=limit)]


def corpus(db: Notebook, owner: Owner, terms: Iterable[str]) -> IDFCorpus:
    """The agent's whole corpus, as far as these terms go; call it inside a snapshot."""
    return IDFCorpus(owner.documents, frequencies(db, owner, terms))


def frequencies(db: Notebook, owner: Owner, terms: Iterable[str]) -> dict[str, int]:
    """In how many of the agent's live notes each term stands; call it inside a snapshot."""
    wanted = set(terms)
    known = db.frequencies.at(db.sqlite.stamp(), owner.number)
    unknown = wanted.difference(known)
    if unknown:
        known |= dict.fromkeys(unknown, 0) | _read_frequencies(db, owner, unknown)
    return {term: known[term] for term in wanted}


def _read_frequencies(db: Notebook, owner: Owner, terms: Iterable[str]) -> dict[str, int]:
    wanted = json.dumps(list(terms), ensure_ascii=False)
    query = _QUERIES["document_frequencies"]
    return dict(db.sqlite.fetch(query, owner=owner.number, terms=wanted))


def weights(db: Notebook, agent_id: str, counts: Mapping[str, int]) -> dict[str, float]:
    """The TF-IDF weights of a note that is already counted."""
    owner, total = get_owner(db, agent_id), sum(counts.values())
    if owner is None or not total:
        return {}
    shares = {term: count / total for term, count in leading(counts).items()}
    return corpus(db, owner, shares).weights(shares)


def _json(counts: Mapping[str, int]) -> str:
    # Unescaped, because SQLite's json_each hands out the keys of an object as they are written.
    return json.dumps(counts, ensure_ascii=False, separators=(",", ":"))
