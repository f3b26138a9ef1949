"""Read by rule what a fact says: its property, its words, its numbers, and whether it denies.

In English; denials, numbers and the commonest properties also in German, French and Spanish.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from butlers.kernel.text import folded, stop_words
from butlers.memory.model import Holds
from butlers.memory.policy.quantities import TABLES, Quantities, quantities, stem

_WORDS = {name: frozenset(words) for name, words in TABLES["words"].items()}
_PROPERTIES = {
    phrase: name for holds in Holds for name, phrases in TABLES[holds].items() for phrase in phrases
}
_HOLDS = {name: holds for holds in Holds for name in TABLES[holds]}
_DENYING = _WORDS["negation"] | _WORDS["aversion"] | _WORDS["false"]
_SILENT = frozenset(map(stem, _DENYING | _WORDS["light"] | _WORDS["yes"]))

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+(?:[-.@/:][^\W_]+)*")
_SHORTENED = re.compile(r"(?<=n)['’](?=t\b)")
_APOSTROPHE = re.compile(r"['’](?:s\b)?")
_CLAUSE = re.compile(r"[,;.!?]\s|\b(?:and|but|und|aber|et|mais|y|pero)\b")
LONGEST_READ = 240
"""The characters of a statement that are read; a longer text is no value of a property."""


@dataclass(frozen=True, slots=True)
class Property:
    """What a predicate asks for: its words, its known name, and if it has one value or many."""

    phrase: tuple[str, ...]
    """The stems of its significant words; the last says what kind of thing it asks for."""
    given: frozenset[str]
    name: str | None
    holds: Holds | None
    is_generic: bool
    is_elsewhen: bool
    denies: bool
    is_distinct: bool
    asks_when: bool

    @property
    def words(self) -> frozenset[str]:
        """Its words without order."""
        return frozenset(self.phrase)


@dataclass(frozen=True, slots=True)
class FactStatement:
    """A fact as it was read."""

    asked: Property
    words: frozenset[str]
    """The stems of its significant words."""
    all_words: frozenset[str]
    """All its words."""
    quantities: Quantities
    denied: frozenset[str]
    """The stems of words in clauses that deny."""
    denying: frozenset[str]
    """The words that deny."""
    is_elsewhen: bool

    @property
    def denies(self) -> bool:
        """Whether it denies something."""
        return self.asked.denies or bool(self.denying)

    def denies_beside(self, word: str) -> bool:
        """Whether it denies by more than this word."""
        return self.asked.denies or bool(self.denying - {word})

    @property
    def whole(self) -> frozenset[str]:
        """Its words and those of its predicate."""
        return self.words | self.asked.words

    @property
    def is_count(self) -> bool:
        """Whether it is only the number of what its predicate asks for."""
        return bool(self.quantities.values) and self.words <= self.asked.words


def predicate_words(predicate: str) -> str:
    """Return a predicate as words: `lives_in` and `livesIn` alike."""
    return " ".join(_CAMEL.sub(" ", predicate).replace("_", " ").split())


def same_property(predicate: str) -> list[str]:
    """Return the predicates known to ask for the same, itself included."""
    name = read_property(predicate).name
    known = [phrase for phrase, other in _PROPERTIES.items() if name and other == name]
    return sorted({predicate, *known, *(phrase.replace(" ", "_") for phrase in known)})


@lru_cache(maxsize=4096)
def read_property(predicate: str) -> Property:
    """Read a predicate."""
    given = _WORD.findall(_plain(predicate_words(predicate)))
    telling = [word for word in given if word not in _WORDS["neutral"]] or given
    name = _PROPERTIES.get(" ".join(given)) or _PROPERTIES.get(" ".join(telling))
    return Property(
        tuple(map(stem, _head_last(given, telling))),
        frozenset(given),
        name,
        _HOLDS.get(name or ""),
        name in _WORDS["generic"],
        name is None and not _WORDS["elsewhen"].isdisjoint(given),
        not _DENYING.isdisjoint(given),
        not _WORDS["distinct"].isdisjoint(given),
        name is None and not _WORDS["when"].isdisjoint(given),
    )


def _head_last(given: list[str], telling: list[str]) -> list[str]:
    """Move what is asked for to the end: "language of answers" asks for a language."""
    if "of" not in given[1:]:
        return telling
    place = given.index("of", 1)
    return [word for word in (*given[place + 1 :], *given[:place]) if word in telling] or telling


@lru_cache(maxsize=4096)
def read(subject: str, predicate: str, content: str) -> FactStatement:
    """Read a fact."""
    asked = read_property(predicate)
    text = _plain(content[:LONGEST_READ])
    counted = quantities(text)
    words = [word for word in _WORD.findall(counted.rest) if len(word) > 1]
    phrase = f" {' '.join(_WORD.findall(text))} "
    once = any(f" {words} " in phrase for words in _WORDS["once"])
    return FactStatement(
        asked,
        _telling(words, bool(counted.values))
        - frozenset(map(stem, _WORD.findall(_plain(subject)))),
        frozenset(words),
        counted,
        _telling([word for clause in _CLAUSE.split(counted.rest) for word in _if_denies(clause)]),
        _DENYING & frozenset(words),
        asked.is_elsewhen or once,
    )


def _telling(words: list[str], counts: bool = False) -> frozenset[str]:
    """Return the stems of significant words; without any or a number, of all but silent ones."""
    spoken = [word for word in words if stem(word) not in _SILENT]
    telling = [word for word in spoken if word not in stop_words()]
    return frozenset(map(stem, telling if telling or counts else spoken))


def _if_denies(clause: str) -> list[str]:
    words = [word for word in _WORD.findall(clause) if len(word) > 1]
    return [] if _DENYING.isdisjoint(words) else words


def _plain(text: str) -> str:
    return _APOSTROPHE.sub(" ", _SHORTENED.sub("", folded(text)))
