"""Replace what a small model wrote with the passages of the episodes that it means.

A small model finds what is worth keeping but words it wrong: a plan becomes a habit. Only people's
sentences are quoted: an assistant repeats what pages and programs say, orders among them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from butlers.errors import InvalidInput
from butlers.kernel.text import folded
from butlers.memory.policy.consolidation import EpisodeToRead
from butlers.memory.policy.consolidation_guards import Evidence, Refused, names, paragraphs, telling
from butlers.memory.policy.consolidation_parser import (
    ConsolidationResult,
    NewFactEntry,
    NewRuleEntry,
)

Entry = TypeVar("Entry", NewFactEntry, NewRuleEntry)

# The share of the model's words that the passage must have.
_MEANT = 0.5
_LONGEST_PASSAGE = 3
_TOPIC_WORDS = 4
_LONGEST_TOPIC = 80
_USER = "user"
# A full stop within a word or after a title, as in "Dr. Li", ends nothing.
_SENTENCE = re.compile(
    r"(?:[^.!?…。！？\n]|[.!?…](?!\s|$)|(?<=\b[A-Z][a-z])\.|(?<=\b[A-Z])\.)+(?:[.!?…]+|[。！？]+)?"
)
_SPEAKER = re.compile(
    r"(?:(user|human|request|then|stated|said|correction)|assistant|ai|agent|outcome)\s*:\s*",
    re.IGNORECASE,
)
# Words of somebody who asks for something from now on.
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

    @property
    def is_question(self) -> bool:
        return self.text.endswith(("?", "？"))


class _NobodySaid(Exception):
    """Only an assistant says what the model wrote."""


def in_their_words(
    result: ConsolidationResult, episodes: Sequence[EpisodeToRead]
) -> ConsolidationResult:
    """Replace each content by its passage, each passage once; refuse entries without one."""
    errors = list(result.parse_errors)
    facts = _quoted(result.new_facts, lambda fact: _fact(fact, episodes), "new_facts", errors)
    rules = _quoted(result.new_rules, lambda rule: _rule(rule, episodes), "new_rules", errors)
    rule_of = {rule.content: rule for rule in rules}
    fact_of = {fact.content: fact for fact in reversed(facts)}
    passages = [*rule_of, *fact_of]
    # A passage within another is left out.
    whole = [text for text in reversed(fact_of) if sum(text in other for other in passages) == 1]
    return replace(
        result,
        new_facts=tuple(fact_of[text] for text in whole),
        new_rules=tuple(rule_of.values()),
        parse_errors=tuple(errors),
    )


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
    """Quote a fact; its predicate is made of the passage, so that it supersedes no other fact."""
    subject = fact.subject if telling(fact.subject) else _USER
    passage = _meant(fact.content, "" if folded(subject) == _USER else subject, episodes)
    topic = "_".join(telling(passage)[:_TOPIC_WORDS])[:_LONGEST_TOPIC]
    return replace(fact, subject=subject, predicate=topic or fact.predicate, content=passage)


def _rule(rule: NewRuleEntry, episodes: Sequence[EpisodeToRead]) -> NewRuleEntry:
    """Quote a rule; refuse a passage in which nobody asks for anything."""
    passage = _meant(rule.content, "", episodes)
    if not _DIRECTING.search(passage):
        raise Refused("content: the passage that says it gives no instruction")
    return replace(rule, content=passage)


def _meant(content: str, subject: str, episodes: Sequence[EpisodeToRead]) -> str:
    """Return the person's passage that says it best and names its subject.

    Raise _NobodySaid if an assistant says it at least as well, Refused if no passage does.
    """
    for says in _MATCHES:
        for by_persons in (True, False):
            for passage in _passages(episodes, by_persons):
                evidence = Evidence((replace(episodes[0], content=passage, author=None),))
                if says(evidence, content, subject) and evidence.names(subject):
                    if by_persons:
                        return passage
                    raise _NobodySaid
    raise Refused("content: no passage of the episode says it")


def _passages(episodes: Sequence[EpisodeToRead], by_persons: bool) -> Iterator[str]:
    """Yield runs of sentences without a question, the shortest first."""
    texts = [list(_sentences(text)) for episode in episodes for text in paragraphs(episode)]
    for length in range(1, _LONGEST_PASSAGE + 1):
        for sentences in texts:
            for start in range(len(sentences) - length + 1):
                run = sentences[start : start + length]
                if all(s.is_persons is by_persons and not s.is_question for s in run):
                    yield " ".join(sentence.text for sentence in run)


def _sentences(paragraph: str) -> Iterator[_Sentence]:
    """Yield every sentence; a person says it unless another speaker is named."""
    is_persons = True
    for match in _SENTENCE.finditer(paragraph):
        text = match[0].strip()
        if speaker := _SPEAKER.match(text):
            is_persons = speaker[1] is not None
            text = text[speaker.end() :]
        if text:
            yield _Sentence(text, is_persons)


# Ways in which a passage may say a content about a subject, the surest first: word for word, all of
# its words, most of them, or the names in it beside the subject.
_MATCHES: tuple[Callable[[Evidence, str, str], bool], ...] = (
    lambda passage, content, _: folded(content).strip(" .") in folded(passage.episodes[0].content),
    lambda passage, content, _: bool(telling(content)) and passage.holds(content),
    lambda passage, content, _: bool(telling(content)) and passage.holds(content, _MEANT),
    lambda passage, content, subject: (
        bool(names(content) - set(telling(subject))) and passage.holds(content, 0)
    ),
)
