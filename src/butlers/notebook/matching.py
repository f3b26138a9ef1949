"""Which notes a query leads to: by its words, by their beginnings, by what stands inside others."""

import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Self

from butlers.db import queries
from butlers.db.sqlite import Row
from butlers.notebook import terms as corpora
from butlers.notebook.handle import Notebook
from butlers.notebook.terms import Owner
from butlers.notebook.tokens import distinct_terms, query_terms

_QUERIES = queries.load(__file__)
MAX_QUERY_TERMS = 64
_SHORTEST_PART = 3
_MOST_PARTS = 32
_MOST_HOLDERS = 32
"""How many terms of an agent may stand for the parts of a query."""

# Thai and Lao, Burmese, Khmer, kana, Chinese characters, Hangul: words that no space parts.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
Fetch = Callable[[str], Iterable[Row]]
"""The notes that match a full-text expression, best first, their ids in the first column."""


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """What a query asks for: the words it is matched by, and the terms it is weighed by."""

    words: list[str]
    terms: list[str]

    @classmethod
    def by(cls, query: str) -> Self:
        """The first words of a query; a long one must not make a search long."""
        return cls(query_terms(query)[:MAX_QUERY_TERMS], distinct_terms(query)[:MAX_QUERY_TERMS])


def match_any(terms: Iterable[str], beginnings: Iterable[str] = ()) -> str:
    """The full-text expression for notes with any of these terms, or words that begin so.

    Each is taken literally.
    """
    whole = [_quoted(term) for term in terms]
    return " OR ".join(whole + [f"{_quoted(beginning)}*" for beginning in beginnings])


def find_matching(
    db: Notebook, owner: Owner, asked: NoteQuery, enough: int, fetch: Fetch
) -> list[Row]:
    """The notes with the words themselves; then, unless enough, with words that begin like them.

    What the agent never wrote is looked for by its beginning at once, and what no word begins
    with inside of words. Where a script has no spaces, a word is what holds two of its characters.
    """
    unknown = _unknown(db, owner, asked.terms)
    known = [word for word in asked.words if word not in unknown]
    found = _by_id(fetch(match_any(known + _holders(db, owner, _pairs(unknown)), unknown)))
    if known and len(found) < enough:
        wider = fetch(match_any(_holders(db, owner, _pairs(known)), asked.words))
        found |= {key: row for key, row in _by_id(wider).items() if key not in found}
    if not found and (inside := _holders(db, owner, _spaced(asked.words))):
        found = _by_id(fetch(match_any(inside)))
    return list(found.values())


def stand_ins(terms: Iterable[str], vocabulary: Collection[str]) -> dict[str, list[str]]:
    """What each term of a query is weighed by: itself, else what begins with it or has its pairs.

    Where none of them has anything, it is what holds them.
    """
    found = {term: _likes(term, vocabulary) for term in terms}
    if any(found.values()):
        return found
    return {term: _having(_spaced([term]), vocabulary) for term in found}


def _likes(term: str, vocabulary: Collection[str]) -> list[str]:
    if term in vocabulary:
        return [term]
    beginning = sorted(other for other in vocabulary if other.startswith(term))
    return beginning or _having(_pairs([term]), vocabulary)


def _having(parts: list[str], vocabulary: Collection[str]) -> list[str]:
    if not parts:
        return []
    return sorted(other for other in vocabulary if any(part in other for part in parts))


def _unknown(db: Notebook, owner: Owner, terms: list[str]) -> list[str]:
    """The terms that stand in none of the agent's notes."""
    frequencies = corpora.frequencies(db, owner, terms)
    return [term for term in terms if not frequencies[term]]


def _holders(db: Notebook, owner: Owner, parts: list[str]) -> list[str]:
    """The agent's terms that hold any of the parts, those with the most first."""
    if not parts:
        return []
    wanted = json.dumps(parts[:_MOST_PARTS], ensure_ascii=False)
    query = _QUERIES["holding_terms"]
    rows = db.sqlite.fetch(query, owner=owner.number, parts=wanted, limit=_MOST_HOLDERS)
    return [row[0] for row in rows]


def _pairs(terms: Iterable[str]) -> list[str]:
    """Every two neighbours in the terms of scripts without spaces; of one character, that one."""
    unspaced = [term for term in terms if _UNSPACED.search(term)]
    return [term[i : i + 2] for term in unspaced for i in range(max(1, len(term) - 1))]


def _spaced(terms: Iterable[str]) -> list[str]:
    """The terms of other scripts that are long enough to be looked for inside of words."""
    return [term for term in terms if len(term) >= _SHORTEST_PART and not _UNSPACED.search(term)]


def _by_id(rows: Iterable[Row]) -> dict[str, Row]:
    return {row[0]: row for row in rows}


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
