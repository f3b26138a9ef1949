"""Read a small model's answer, and name what each sentence is about.

The model only describes sentences; what is stored are a person's own words, under a name that
another sentence about the same would get too. Common properties and verbs are known by their words,
in `consolidation_sentences.toml`; for others a model's property is taken if it is a plain one, or
else the passage's verb.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from butlers.kernel.text import folded
from butlers.kernel.word_tables import expression
from butlers.memory.policy.answer_json import find_object
from butlers.memory.policy.consolidation import SENTENCES, SentenceKind, sentence_names
from butlers.memory.policy.consolidation_guards import telling
from butlers.memory.policy.consolidation_parser import (
    NOTHING,
    ConsolidationResult,
    NewFactEntry,
    NewRuleEntry,
)
from butlers.memory.policy.consolidation_sentences import TABLES, is_standing
from butlers.memory.policy.fact_statements import read_property

USER = "user"
_LASTING = frozenset({SentenceKind.FACT, SentenceKind.RULE})
_LONGEST_SUBJECT, _LONGEST_PREDICATE, _OPENING_WORDS = 4, 2, 4
_MANY = " …"


_PROPERTIES, _VERBS = (
    {name: expression(text) for name, text in TABLES[table].items()}
    for table in ("properties", "verbs")
)
_MINE, _PREPOSITION, _ARTICLE, _PLACE = (
    expression(TABLES[name]) for name in ("mine", "preposition", "article", "place")
)
_PLAIN, _EMPTY, _ADVERBS, _COPULA = (
    frozenset(TABLES[name]) for name in ("plain", "empty", "adverbs", "copula")
)
_WORD = re.compile(r"[^\W\d_]{2,}(?:[-/][^\W_]+)*")
_DECIDING = ("decided on …", "migration …")
_PARTICLE = r"(?: (?:with|on|in|to|off|from|at|for|by|auf|mit|bei|im|aus|von)\b)?"
_OWN_VERB = re.compile(
    rf"\b(?:i|we|ich|wir) (?:also |already |don['’]?t |do not )?([^\W\d_]+{_PARTICLE})", re.I
)
_CLAUSE = re.compile(rf"(?:^|[,;:]\s)([^,;:]{{2,60}}?) ((?:{TABLES['finite']})\b{_PARTICLE})", re.I)


def parse_brief(answer: str, statements: Sequence[str]) -> ConsolidationResult:
    """Parse a small model's answer: a description of each statement."""
    if NOTHING.fullmatch(answer):
        return ConsolidationResult(is_quoted=True)
    described, fault = find_object(answer, frozenset({SENTENCES}))
    kinds = described.get(SENTENCES)
    if fault or not isinstance(kinds, Mapping):
        return ConsolidationResult(parse_errors=(fault or f"{SENTENCES}: must be an object",))
    rules = tuple(NewRuleEntry(text) for text in statements if is_standing(text))
    pairs = zip(sentence_names(statements), statements, strict=True)
    facts = [(kinds.get(name), text) for name, text in pairs if not is_standing(text)]
    return ConsolidationResult(new_facts=_described(facts), new_rules=rules, is_quoted=True)


def _described(sentences: Sequence[tuple[Any, str]]) -> tuple[NewFactEntry, ...]:
    """Make facts of what a model takes for one, each under a key of its own."""
    facts: dict[tuple[str, str], NewFactEntry] = {}
    for said, text in sentences:
        if not isinstance(said, Mapping) or not _is_lasting(said, text):
            continue
        about, prop = (str(said.get(name, "")) for name in ("about", "property"))
        subject, predicate = key_of(about, prop, text)
        # Of two statements under one key the second would replace the first.
        if (folded(subject), predicate) in facts:
            predicate = with_value(predicate, subject, text)
        if predicate:
            fact = NewFactEntry(subject, predicate, text)
            facts.setdefault((folded(subject), predicate), fact)
    return tuple(facts.values())


def _is_lasting(said: Mapping[str, Any], text: str) -> bool:
    """Whether a sentence lasts for the model, or tells of a common property."""
    return said.get("kind") in _LASTING or _first(text)[1] is not None


def key_of(about: str, prop: str, passage: str) -> tuple[str, str]:
    """Return the subject and the predicate of a passage, given what a model says of it.

    The predicate is empty if there are no plain words for it: where the model names nothing that
    stands at the beginning of the passage, it described another one or took a word for a thing.
    """
    name, found = _first(passage)
    if found and name in _VERBS:
        subject = _doer(passage[: found.start()], passage)
        return subject, _predicate(name, subject, passage[found.end() :]) if subject else ""
    owner = re.search(r"(?<![\w-])([\w-]+)['’]s $", passage[: found.start()]) if found else None
    named = owner[1] if owner and telling(owner[1]) else _named(about, passage)
    if found and not named:
        named = _beginning(passage)
    if found and (not named or found[0].casefold() in named.casefold()):
        named = USER
    if not found and folded(named) not in folded(" ".join(passage.split()[:_OPENING_WORDS])):
        named = ""
    subject = USER if not found and _OWN_VERB.match(passage) else named
    return subject, _predicate_of(prop, subject, passage) if subject else ""


def _predicate_of(given: str, subject: str, passage: str) -> str:
    """Return a property in one or two plain words, else the verb and what follows it, else ""."""
    name, found = _first(passage)
    if found:
        return _predicate(name, subject, passage[found.end() :])
    if phrase := _plain(given, subject, passage):
        return phrase
    verb = _verb(passage)
    return with_value(verb, subject, folded(passage).partition(verb)[2]) if verb else ""


def with_value(phrase: str, subject: str, passage: str) -> str:
    """Return a predicate with the first significant word of a passage, as one of many."""
    known = {*telling(subject), *telling(phrase)}
    clause = re.split(r"[,;:]\s", passage)[0]
    words = (word for word in telling(clause) if word not in known and word.isalpha())
    value = next(words, "")
    name = re.search(rf"(?i:\b{value}\b)(?: [A-Z][\w-]+)?", passage) if value else None
    return f"{phrase} {folded(name[0]) if name and name[0][0].isupper() else value}".strip()


def _first(passage: str) -> tuple[str, re.Match[str] | None]:
    """Return the common property or verb that comes first in a passage.

    A verb counts in the first clause alone, but for one that tells of a decision.
    """
    clause = re.split(r"[,;:]\s", passage)[0]
    patterns = [(name, one.search(passage)) for name, one in _PROPERTIES.items()]
    patterns += [(name, one.search(clause)) for name, one in _VERBS.items()]
    patterns += [(name, _VERBS[name].search(passage)) for name in _DECIDING]
    found = [(name, match) for name, match in patterns if match]
    return min(found, key=lambda pair: pair[1].start(), default=("", None))


def _predicate(name: str, subject: str, after: str) -> str:
    plain = name.removesuffix(_MANY)
    return plain if plain == name else with_value(plain, subject, after)


def _named(about: str, passage: str) -> str:
    """Return the subject that a model gives if the passage names it, else ""."""
    name = _ARTICLE.sub("", about.strip(" .,:;\"'")).strip()
    if folded(name) == USER:
        return USER if _MINE.search(passage) else ""
    words = set(telling(name))
    return _short_name(name) if words and words <= set(telling(passage)) else ""


def _short_name(text: str) -> str:
    """Return a noun phrase without article and without what leads on from it, "" if too long."""
    words = _ARTICLE.sub("", text).split()
    while words and folded(words[-1]) in _ADVERBS:
        words.pop()
    is_name = words and telling(words[-1]) and words[0][0].isalpha()
    return " ".join(words) if is_name and len(words) <= _LONGEST_SUBJECT else ""


def _doer(before: str, passage: str) -> str:
    """Return who does it: the words before a verb, or the user."""
    clause = re.split(r"[,;:()]|\b(?:and|but|so|und|aber|dass|that)\b", before)[-1].strip()
    name = "" if _PREPOSITION.match(clause) else _short_name(clause)
    is_own = not clause or _MINE.search(clause) or _MINE.search(passage[len(before) :])
    return name or (USER if is_own else _beginning(passage))


def _beginning(passage: str) -> str:
    """Return the first words of a clause before its verb, or "" if there are none."""
    clauses = (clause[1] for clause in _CLAUSE.finditer(passage))
    names = (_short_name(text) for text in clauses if not _PREPOSITION.match(text))
    return next(filter(None, names), "")


def _verb(passage: str) -> str:
    """Return the verb of a passage and its particle: "build with"; "" if it is not known."""
    found = _OWN_VERB.search(passage)
    clause = None if found else _CLAUSE.search(passage)
    verb = folded(found[1] if found else clause[2] if clause else "")
    return "" if verb.split(" ")[0] in _COPULA else verb


def _plain(given: str, subject: str, passage: str) -> str:
    """Return a model's property if it is a common one or words of the passage, else ""."""
    words = folded(given).replace("_", " ").strip(" .,:;").split()
    phrase, said = " ".join(words), set(words) - set(telling(subject))
    is_short = 0 < len(words) <= _LONGEST_PREDICATE and all(map(_WORD.fullmatch, words))
    if not is_short or not said or phrase in _EMPTY:
        return ""
    if phrase == "location" and not _PLACE.search(passage):
        return ""  # what a small model says of anything
    is_common = phrase in _PLAIN or read_property(phrase).name is not None
    return phrase if is_common or said <= set(telling(passage)) else ""
