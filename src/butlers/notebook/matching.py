"""Find the notes that match a query: by words, by prefixes, and inside of words."""

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
from butlers.notebook.tokenizer import distinct_terms, query_terms

_QUERIES = queries.load(__file__)
MAX_QUERY_TERMS = 64
_SHORTEST_PART = 3
_MOST_PARTS = 32
_MOST_HOLDERS = 32
"""How many terms of an agent may match the parts of a query."""

# Thai, Lao, Burmese, Khmer, kana, Chinese characters, Hangul: scripts without spaces.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
Fetch = Callable[..., Iterable[Row]]
"""Fetches the notes that `match` a full-text expression, best first, with ids in column one."""


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """A query: the words to match, and the terms to weigh."""

    words: list[str]
    terms: list[str]

    @classmethod
    def by(cls, query: str) -> Self:
        """Parse the first words of a query; the rest of a long one is ignored."""
        return cls(query_terms(query)[:MAX_QUERY_TERMS], distinct_terms(query)[:MAX_QUERY_TERMS])


def match_any(terms: Iterable[str], beginnings: Iterable[str] = ()) -> str:
    """Build the full-text expression for any of these terms or prefixes, taken literally."""
    whole = [_quoted(term) for term in terms]
    return " OR ".join(whole + [f"{_quoted(beginning)}*" for beginning in beginnings])


def find_matching(
    db: Notebook, owner: Owner, query: NoteQuery, enough: int, fetch: Fetch
) -> list[Row]:
    """Find notes with the words; if there are not enough, with words that start like them.

    Words the agent never wrote are matched as prefixes at once, and if no word starts with them,
    inside of words. In scripts without spaces, pairs of characters are matched.
    """
    frequencies = corpora.frequencies(db, owner, query.terms)
    unknown = [term for term in query.terms if not frequencies[term]]
    known = [word for word in query.words if word not in unknown]
    pairs = _holders(db, owner, _pairs(unknown))
    rows = _by_id(fetch(match=match_any(known + pairs, unknown)))
    if known and len(rows) < enough:
        wider = fetch(match=match_any(_holders(db, owner, _pairs(known)), query.words))
        rows |= {key: row for key, row in _by_id(wider).items() if key not in rows}
    if not rows and (inside := _holders(db, owner, _spaced(query.words))):
        rows = _by_id(fetch(match=match_any(inside)))
    return list(rows.values())


def stand_ins(terms: Iterable[str], vocabulary: Collection[str]) -> dict[str, list[str]]:
    """Map each query term to the terms it matches: itself, prefixes, pairs, or inside of words."""
    matches = {term: _likes(term, vocabulary) for term in terms}
    if any(matches.values()):
        return matches
    return {term: _having(_spaced([term]), vocabulary) for term in matches}


def _likes(term: str, vocabulary: Collection[str]) -> list[str]:
    if term in vocabulary:
        return [term]
    beginning = sorted(other for other in vocabulary if other.startswith(term))
    return beginning or _having(_pairs([term]), vocabulary)


def _having(parts: list[str], vocabulary: Collection[str]) -> list[str]:
    if not parts:
        return []
    return sorted(other for other in vocabulary if any(part in other for part in parts))


def _holders(db: Notebook, owner: Owner, parts: list[str]) -> list[str]:
    """List the agent's terms that contain any of the parts, most parts first."""
    if not parts:
        return []
    wanted = json.dumps(parts[:_MOST_PARTS], ensure_ascii=False)
    query = _QUERIES["holding_terms"]
    rows = db.sqlite.fetch(query, owner=owner.number, parts=wanted, limit=_MOST_HOLDERS)
    return [row[0] for row in rows]


def _pairs(terms: Iterable[str]) -> list[str]:
    """List the pairs of characters in terms of scripts without spaces."""
    unspaced = [term for term in terms if _UNSPACED.search(term)]
    return [term[i : i + 2] for term in unspaced for i in range(max(1, len(term) - 1))]


def _spaced(terms: Iterable[str]) -> list[str]:
    """List the terms of other scripts that are long enough to match inside of words."""
    return [term for term in terms if len(term) >= _SHORTEST_PART and not _UNSPACED.search(term)]


def _by_id(rows: Iterable[Row]) -> dict[str, Row]:
    return {row[0]: row for row in rows}


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
