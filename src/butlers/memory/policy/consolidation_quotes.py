"""What a small model points at, in the words of the episode.

A small model finds what is worth keeping, and then words it wrong: a plan becomes a habit, one
person's doing another's. What is kept of its answer is the passage that it means, as it was said.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from butlers.errors import InvalidInput
from butlers.kernel.plain_words import plain_words
from butlers.kernel.words import folded, prepared
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
_ASSISTANT = "Assistant"
_WORD = re.compile(r"[^\W_]+")
# A full stop within a word or after a title, as in "Dr. Li", ends nothing.
_SENTENCE = re.compile(
    r"(?:[^.!?…。！？\n]|[.!?…](?!\s|$)|(?<=\b[A-Z][a-z])\.|(?<=\b[A-Z])\.)+(?:[.!?…]+|[。！？]+)?"
)
_SPEAKER = re.compile(
    r"(?:(user|human|request|then|stated|said|correction)|assistant|ai|agent|outcome)\s*:\s*",
    re.IGNORECASE,
)


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
        except InvalidInput as error:
            errors.append(f"{name}[{place}]: {error}")
    return quoted


def _fact(fact: NewFactEntry, episodes: Sequence[EpisodeToRead]) -> NewFactEntry:
    """A fact that says the passage, under words of its own: it takes no other's place."""
    subject = fact.subject if _telling(fact.subject) else _USER
    passage = _meant(fact.content, "" if folded(subject) == _USER else subject, episodes)
    if folded(subject) == _USER and _is_assistants(passage):
        subject = _ASSISTANT
    topic = "_".join(_telling(passage)[:_TOPIC_WORDS])[:_LONGEST_TOPIC]
    return replace(fact, subject=subject, predicate=topic or fact.predicate, content=passage)


def _rule(rule: NewRuleEntry, episodes: Sequence[EpisodeToRead]) -> NewRuleEntry:
    """A rule that a person said: what an assistant says binds nobody."""
    passage = _meant(rule.content, "", episodes)
    if _is_assistants(passage):
        raise Refused("content: no person said so")
    return replace(rule, content=passage)


def _meant(content: str, subject: str, episodes: Sequence[EpisodeToRead]) -> str:
    """The passage that says it best, and of these the shortest; it names whom it is about."""
    for says in (_word_for_word, _wholly, _mostly, _by_name):
        for length in range(1, _LONGEST_PASSAGE + 1):
            for passage in _passages(episodes, length):
                said = Evidence((replace(episodes[0], content=passage, author=None),))
                if says(said, content, subject) and said.names(subject):
                    return passage
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


def _passages(episodes: Sequence[EpisodeToRead], length: int) -> Iterator[str]:
    """So many sentences that follow each other, none of which asks."""
    for episode in episodes:
        for paragraph in paragraphs(episode):
            said = list(_sentences(paragraph))
            for start in range(len(said) - length + 1):
                run = said[start : start + length]
                if not any(one.endswith(("?", "？")) for one in run):
                    yield " ".join(run)


def _sentences(paragraph: str) -> Iterator[str]:
    """Every sentence; what an assistant said is marked so, since its `I` is another."""
    by = ""
    for found in _SENTENCE.finditer(paragraph):
        said = found[0].strip()
        if speaker := _SPEAKER.match(said):
            by = "" if speaker[1] else f"{_ASSISTANT}: "
            said = said[speaker.end() :]
        if said:
            yield by + said


def _is_assistants(passage: str) -> bool:
    return passage.startswith(f"{_ASSISTANT}: ")


def _telling(text: str) -> list[str]:
    words = _WORD.findall(prepared(folded(text)))
    return [word for word in words if word not in plain_words()]
