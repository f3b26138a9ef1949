"""Whether a fact's subject is a name, how it may be spelt, and what it is a name of.

An entity that nobody asked for has to be right: a subject that could be a common noun is none, and
a single word is one only where what is said of it fits a person, a firm or a place. German nouns
all have capitals: of those too only what is said can tell.
"""

import re
import unicodedata
from collections.abc import Iterable

from butlers.kernel.plain_words import plain_words
from butlers.kernel.tokens import is_usually_small
from butlers.kernel.words import folded
from butlers.memory.model import EntityType
from butlers.memory.policy.naming_words import COMMON, FIRMS, PARTICLES, PRONOUNS, SAID_OF, TITLES

_MOST_WORDS = 4
_WORD = re.compile(r"[^\W\d_][^\W\d_.'’&-]*(?:[.'’&-]+[^\W\d_]*)*")
_INNER_CAPITAL = re.compile(r"[a-zß-ÿ][A-Z]|[A-Z]{2,}[a-z]{2,}")


def as_name(subject: str) -> str:
    """A subject as entities spell their names."""
    return unicodedata.normalize("NFC", subject)


def spellings(name: str) -> list[str]:
    """How a name is usually written."""
    ways = (name, name.lower(), name.upper(), name.title(), name.capitalize())
    return list(
        dict.fromkeys(way for one in ways for way in (one, unicodedata.normalize("NFD", one)))
    )


def words_of(name: str) -> list[str]:
    """The words of a name, as people's names are known by."""
    return [folded(word.strip(".'’&-")) for word in _WORD.findall(name)]


def may_mean(subject: str, names: Iterable[str]) -> bool:
    """Whether a subject is one of these names, a part of it or short for it."""
    said = [word for word in words_of(subject) if len(word) > 1]
    known = [word for name in names for word in words_of(name) if len(word) > 1]
    return any(one.startswith(other) or other.startswith(one) for one in said for other in known)


def kind_of(name: str, told: Iterable[tuple[str, str]], *, is_a_person: bool) -> EntityType | None:
    """What a name is a name of, by predicates and contents; None where it may be none at all."""
    if not _looks_like_a_name(name):
        return None
    words = words_of(name)
    if is_a_person or words[0] in TITLES:
        return EntityType.PERSON
    if words[-1] in FIRMS:
        return EntityType.ORGANIZATION
    evident = next((kind for kind in map(_evident, told) if kind), None)
    return evident or (EntityType.OTHER if _is_told_by_its_form(name) else None)


def _is_told_by_its_form(name: str) -> bool:
    """Whether nothing but a name is spelt so: capitals within, or of several words a rare one."""
    words = [word for word in name.split() if word not in PARTICLES]
    if _INNER_CAPITAL.search(name):
        return True
    return len(words) > 1 and not all(map(is_usually_small, words))


def _evident(told: tuple[str, str]) -> EntityType | None:
    """Of what kind only this can be said."""
    predicate, content = (set(re.split(r"[\W_]+", folded(text))) for text in told)
    if PRONOUNS & content:
        return EntityType.PERSON
    return next((kind for kind, words in SAID_OF.items() if words & predicate), None)


def _looks_like_a_name(name: str) -> bool:
    """A few words with capitals, none of them a common noun."""
    given = name.split()
    telling = [word for word in given if word not in PARTICLES]
    if not telling or len(given) > _MOST_WORDS or not all(map(_WORD.fullmatch, telling)):
        return False
    if not all(map(_has_capital, telling)) or name.isupper():
        return False
    return not any(
        word in COMMON or (word in plain_words() and len(telling) == 1)
        for word in words_of(" ".join(telling))
    )


def _has_capital(word: str) -> bool:
    return word[0].isupper() or _INNER_CAPITAL.search(word) is not None
