"""What a small model points at, in the words of the episode.

A small model finds what is worth keeping, and then words it wrong: a plan becomes a habit, one
person's doing another's. What is kept of its answer is the passage that it means, as it was said.
Only what people said: an assistant repeats what pages and programs told it, orders among them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from butlers.errors import InvalidInput
from butlers.kernel.words import folded, prepared, stop_words
from butlers.memory.policy.consolidation import EpisodeToRead
from butlers.memory.policy.consolidation_guards import Evidence, Refused, names, paragraphs
from butlers.memory.policy.consolidation_parser import (
    ConsolidationResult,
    NewFactEntry,
    NewRuleEntry,
)

Entry = TypeVar("Entry", NewFactEntry, NewRuleEntry)

# How much of what the model says must stand in the passage: the rest of it is not kept.
_MEANT = 0.5
_LONGEST_PASSAGE = 3
_TOPIC_WORDS = 4
_LONGEST_TOPIC = 80
_USER = "user"
_WORD = re.compile(r"[^\W_]+")
# A full stop within a word or after a title, as in "Dr. Li", ends nothing.
_SENTENCE = re.compile(
    r"(?:[^.!?…。！？\n]|[.!?…](?!\s|$)|(?<=\b[A-Z][a-z])\.|(?<=\b[A-Z])\.)+(?:[.!?…]+|[。！？]+)?"
)
_SPEAKER = re.compile(
    r"(?:(user|human|request|then|stated|said|correction)|assistant|ai|agent|outcome)\s*:\s*",
    re.IGNORECASE,
)
# What somebody says who wants something done, or left, from now on.
_DIRECTING = re.compile(
    r"\b(?:always|never|must|should|shall|please|use|prefer|avoid|only|don'?t|do not|no longer"
    r"|from now on|immer|nie|niemals|bitte|soll\w*|muss|keine?n?|nur|toujours|jamais|ne|il faut"
    r"|doi\w+|siempre|nunca|debe\w*|hay que|sempre|mai|deve\w*|altijd|nooit|moet\w*|alstublieft"
    r"|всегда|никогда|нужно|нельзя|пожалуйста)\b|总是|永远|不要|必须|请|必ず|いつも|決して|ください|항상|절대|반드시|마세요",
    re.IGNORECASE,
)


class _Sentence(NamedTuple):
    text: str
    is_persons: bool


class _NobodySaid(Exception):
    """What a model points at is an assistant's."""


def in_their_words(
    result: ConsolidationResult, episodes: Sequence[EpisodeToRead]
) -> ConsolidationResult:
    """The answer with passages of the episodes for its contents, each once; others are refused."""
    errors = list(result.parse_errors)
    facts = _quoted(result.new_facts, lambda one: _fact(one, episodes), "new_facts", errors)
    rules = _quoted(result.new_rules, lambda one: _rule(one, episodes), "new_rules", errors)
    told = {rule.content: rule for rule in rules}
    kept = {fact.content: fact for fact in reversed(facts)}
    whole = [*told, *kept]
    return replace(
        result,
        new_facts=tuple(kept[one] for one in reversed(kept) if _is_whole(one, whole)),
        new_rules=tuple(told.values()),
        parse_errors=tuple(errors),
    )


def _is_whole(passage: str, others: Sequence[str]) -> bool:
    """Whether it stands in no other passage, which says it as well, nor is one twice."""
    return sum(passage in other for other in others) == 1


def _quoted(
    entries: Sequence[Entry], quote: Callable[[Entry], Entry], name: str, errors: list[str]
) -> list[Entry]:
    quoted: list[Entry] = []
    for place, entry in enumerate(entries):
        try:
            quoted.append(quote(entry))
        except _NobodySaid:
            continue  # nothing to keep, and no fault of the model
        except InvalidInput as error:
            errors.append(f"{name}[{place}]: {error}")
    return quoted


def _fact(fact: NewFactEntry, episodes: Sequence[EpisodeToRead]) -> NewFactEntry:
    """A fact that says the passage, under words of its own: it takes no other's place."""
    subject = fact.subject if _telling(fact.subject) else _USER
    passage = _meant(fact.content, "" if folded(subject) == _USER else subject, episodes)
    topic = "_".join(_telling(passage)[:_TOPIC_WORDS])[:_LONGEST_TOPIC]
    return replace(fact, subject=subject, predicate=topic or fact.predicate, content=passage)


def _rule(rule: NewRuleEntry, episodes: Sequence[EpisodeToRead]) -> NewRuleEntry:
    """A rule in which a person asks for something."""
    passage = _meant(rule.content, "", episodes)
    if not _DIRECTING.search(passage):
        raise Refused("content: the passage that says it asks for nothing")
    return replace(rule, content=passage)


def _meant(content: str, subject: str, episodes: Sequence[EpisodeToRead]) -> str:
    """The passage that says it best and names whom it is about, where a person said that."""
    for says in (_word_for_word, _wholly, _mostly, _by_name):
        for by_persons in (True, False):
            for passage in _passages(episodes, by_persons):
                said = Evidence((replace(episodes[0], content=passage, author=None),))
                if says(said, content, subject) and said.names(subject):
                    if by_persons:
                        return passage
                    raise _NobodySaid
    raise Refused("content: no passage of the episode says it")


def _word_for_word(said: Evidence, content: str, subject: str) -> bool:
    del subject
    return folded(content).strip(" .") in folded(said.episodes[0].content)


def _wholly(said: Evidence, content: str, subject: str) -> bool:
    del subject
    return bool(_telling(content)) and said.holds(content)


def _mostly(said: Evidence, content: str, subject: str) -> bool:
    del subject
    return bool(_telling(content)) and said.holds(content, _MEANT)


def _by_name(said: Evidence, content: str, subject: str) -> bool:
    """Whether it names what is named, beside its subject, whatever else it says of it."""
    return bool(names(content) - set(_telling(subject))) and said.holds(content, 0)


def _passages(episodes: Sequence[EpisodeToRead], by_persons: bool) -> Iterator[str]:
    """Sentences that follow each other, none of which asks, the shortest runs first."""
    said = [list(_sentences(one)) for episode in episodes for one in paragraphs(episode)]
    for length in range(1, _LONGEST_PASSAGE + 1):
        for run in _runs(said, length):
            if all(one.is_persons is by_persons and not _asks(one.text) for one in run):
                yield " ".join(one.text for one in run)


def _runs(said: Sequence[list[_Sentence]], length: int) -> Iterator[list[_Sentence]]:
    for sentences in said:
        for start in range(len(sentences) - length + 1):
            yield sentences[start : start + length]


def _asks(sentence: str) -> bool:
    return sentence.endswith(("?", "？"))


def _sentences(paragraph: str) -> Iterator[_Sentence]:
    """Every sentence, and whether a person said it: where nobody is named, one did."""
    is_persons = True
    for found in _SENTENCE.finditer(paragraph):
        said = found[0].strip()
        if speaker := _SPEAKER.match(said):
            is_persons = speaker[1] is not None
            said = said[speaker.end() :]
        if said:
            yield _Sentence(said, is_persons)


def _telling(text: str) -> list[str]:
    words = _WORD.findall(prepared(folded(text)))
    return [word for word in words if word not in stop_words()]
