"""Decide whether a subject is a name, and of what type of entity."""

import re
import unicodedata
from collections.abc import Iterable
from functools import partial
from itertools import chain

from butlers.kernel.text import folded, stop_words
from butlers.kernel.token_count import is_usually_small
from butlers.kernel.word_tables import load_tables
from butlers.memory.model import EntityType

_TABLES = load_tables(__file__)


def _words(listed: str) -> frozenset[str]:
    return frozenset(folded(listed).split())


PARTICLES, COMMON, TITLES, FIRMS, PRONOUNS = (
    _words(_TABLES[name]) for name in ("particles", "common", "titles", "firms", "pronouns")
)
SAID_OF = {EntityType(kind): _words(words) for kind, words in _TABLES["said_of"].items()}
_MOST_WORDS = 4
_WORD = re.compile(r"[^\W\d_][^\W\d_.'’&-]*(?:[.'’&-]+[^\W\d_]*)*")
_INNER_CAPITAL = re.compile(r"[a-zß-ÿ][A-Z]|[A-Z]{2}[a-z]{2}")


as_name = partial(unicodedata.normalize, "NFC")
"""Normalise a subject as names of entities are."""


def spellings(*names: str) -> list[str]:
    """Return the usual spellings of names."""
    cases = [
        text
        for name in names
        for text in (name, name.lower(), name.upper(), name.title(), name.capitalize())
    ]
    both = ((text, unicodedata.normalize("NFD", text)) for text in cases)
    return list(dict.fromkeys(chain.from_iterable(both)))


def words_of(name: str) -> list[str]:
    """Return the words of a name, folded."""
    return [folded(word.strip(".'’&-")) for word in _WORD.findall(name)]


def may_mean(subject: str, names: Iterable[str]) -> bool:
    """Whether a subject is one of these names, a part of it or short for it."""
    words = [word for word in words_of(subject) if len(word) > 1]
    known = [word for name in names for word in words_of(name) if len(word) > 1]
    return any(mine.startswith(own) or own.startswith(mine) for mine in words for own in known)


def kind_of(name: str, facts: Iterable[tuple[str, str]], *, is_a_person: bool) -> EntityType | None:
    """Return the type of a name, by predicates and contents of facts; None if it is no name."""
    if not _looks_like_a_name(name):
        return None
    words = words_of(name)
    if is_a_person or words[0] in TITLES:
        return EntityType.PERSON
    if words[-1] in FIRMS:
        return EntityType.ORGANIZATION
    evident = next(filter(None, map(_evident, facts)), None)
    return evident or (EntityType.OTHER if _is_spelt_as_name(name) else None)


def _is_spelt_as_name(name: str) -> bool:
    """Whether only a name is spelt so: capitals within, or several words with a rare one."""
    words = [word for word in name.split() if word not in PARTICLES]
    several = len(words) > 1 and not all(map(is_usually_small, words))
    return several or _INNER_CAPITAL.search(name) is not None


def _evident(fact: tuple[str, str]) -> EntityType | None:
    """Return the only type of entity that a fact fits."""
    predicate, content = (set(re.split(r"[\W_]+", folded(text))) for text in fact)
    if PRONOUNS & content:
        return EntityType.PERSON
    return next((kind for kind, words in SAID_OF.items() if words & predicate), None)


def _looks_like_a_name(name: str) -> bool:
    """Whether it is a few words with capitals, none of them a common noun."""
    given = name.split()
    telling = [word for word in given if word not in PARTICLES]
    if not telling or len(given) > _MOST_WORDS or not all(map(_WORD.fullmatch, telling)):
        return False
    if not all(map(_has_capital, telling)) or name.isupper():
        return False
    return not any(
        word in COMMON or (word in stop_words() and len(telling) == 1)
        for word in words_of(" ".join(telling))
    )


def _has_capital(word: str) -> bool:
    return word[0].isupper() or _INNER_CAPITAL.search(word) is not None
