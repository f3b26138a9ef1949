"""Replace what a small model wrote with the passages of the episodes that it means.

A small model finds what is worth keeping but words it wrong: a plan becomes a habit. Only people's
sentences are quoted: an assistant repeats what pages and programs say, orders among them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from butlers.errors import InvalidInput
from butlers.kernel.text import folded
from butlers.memory.policy.answer_json import find_object
from butlers.memory.policy.consolidation import (
    SENTENCES,
    EpisodeToRead,
    SentenceKind,
    sentence_names,
)
from butlers.memory.policy.consolidation_guards import Evidence, Refused, names, paragraphs, telling
from butlers.memory.policy.consolidation_keys import (
    USER,
    has_known_property,
    key_of,
    predicate_of,
    with_value,
)
from butlers.memory.policy.consolidation_parser import (
    ConsolidationResult,
    NewFactEntry,
    NewRuleEntry,
    parse_consolidation,
)
from butlers.memory.policy.consolidation_sentences import is_request, is_standing, sentences

Entry = TypeVar("Entry", NewFactEntry, NewRuleEntry)

_LASTING = frozenset({SentenceKind.FACT, SentenceKind.RULE})
# The share of the model's words that the passage must have.
_MEANT = 0.5
_LONGEST_PASSAGE = 3
# Words of somebody who asks for something from now on.
_DIRECTING = re.compile(
    r"\b(?:always|never|must|should|shall|please|use|prefer|avoid|only|don'?t|do not|no longer"
    r"|from now on|immer|nie|niemals|bitte|soll\w*|muss|keine?n?|nur|toujours|jamais|ne|il faut"
    r"|doi\w+|siempre|nunca|debe\w*|hay que|sempre|mai|deve\w*|altijd|nooit|moet\w*|alstublieft"
    r"|всегда|никогда|нужно|нельзя|пожалуйста)\b|总是|永远|不要|必须|请|必ず|いつも|決して|ください|항상|절대|반드시|마세요",
    re.IGNORECASE,
)


class _NothingToKeep(Exception):
    """Only an assistant says what the model wrote, or it is a request."""


def parse_brief(
    answer: str, statements: Sequence[str], episodes: Sequence[EpisodeToRead]
) -> ConsolidationResult:
    """Parse a small model's answer: a description of each statement, or entries to be quoted."""
    described, fault = find_object(answer, frozenset({SENTENCES}))
    kinds = described.get(SENTENCES)
    if fault or not isinstance(kinds, Mapping):
        return in_their_words(parse_consolidation(answer), episodes)
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
    return said.get("kind") in _LASTING or has_known_property(text)


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
        is_quoted=True,
    )


def _quoted(
    entries: Sequence[Entry], quote: Callable[[Entry], Entry], name: str, errors: list[str]
) -> list[Entry]:
    quoted: list[Entry] = []
    for place, entry in enumerate(entries):
        try:
            quoted.append(quote(entry))
        except _NothingToKeep:
            continue  # nothing to keep, and no fault of the model
        except InvalidInput as error:
            errors.append(f"{name}[{place}]: {error}")
    return quoted


def _fact(fact: NewFactEntry, episodes: Sequence[EpisodeToRead]) -> NewFactEntry:
    """Quote a fact; a passage that only asks for something is none."""
    subject = fact.subject if telling(fact.subject) else USER
    passage = _meant(fact.content, "" if folded(subject) == USER else subject, episodes)
    if is_request(passage):
        raise _NothingToKeep
    predicate = predicate_of(fact.predicate, subject, passage) or fact.predicate
    return replace(fact, subject=subject, predicate=predicate, content=passage)


def _rule(rule: NewRuleEntry, episodes: Sequence[EpisodeToRead]) -> NewRuleEntry:
    """Quote a rule; refuse a passage in which nobody asks for anything."""
    passage = _meant(rule.content, "", episodes)
    if not _DIRECTING.search(passage):
        raise Refused("content: the passage that says it gives no instruction")
    return replace(rule, content=passage)


def _meant(content: str, subject: str, episodes: Sequence[EpisodeToRead]) -> str:
    """Return the person's passage that says it best and names its subject.

    Raise _NothingToKeep if an assistant says it at least as well, Refused if no passage does.
    """
    for says in _MATCHES:
        for by_persons in (True, False):
            for passage in _passages(episodes, by_persons):
                evidence = Evidence((replace(episodes[0], content=passage, author=None),))
                if says(evidence, content, subject) and evidence.names(subject):
                    if by_persons:
                        return passage
                    raise _NothingToKeep
    raise Refused("content: no passage of the episode says it")


def _passages(episodes: Sequence[EpisodeToRead], by_persons: bool) -> Iterator[str]:
    """Yield runs of sentences without a question, the shortest first."""
    texts = [list(sentences(text)) for episode in episodes for text in paragraphs(episode)]
    for length in range(1, _LONGEST_PASSAGE + 1):
        for spoken in texts:
            for start in range(len(spoken) - length + 1):
                run = spoken[start : start + length]
                if all(s.is_persons is by_persons and not s.is_question for s in run):
                    yield " ".join(sentence.text for sentence in run)


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
