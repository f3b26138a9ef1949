"""What users state in their own words, and the facts and rules it makes: by rule, without a model.

Only a user's own sentences are read: no quotation, no pasted text, nothing an agent or a tool
said. What is made of them is a candidate, which says where it was stated.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from butlers.memory.model import NewFact, NewRule, Origin, Permanence
from butlers.sessions.cues import (
    Cue,
    CueKind,
    asks_to_remember,
    disagrees,
    may_be_kept,
    points_back,
    stated,
    to_remember,
)
from butlers.sessions.spoken import is_listed, unlisted, unquoted

STATED_CONFIDENCE = 0.5
"""How sure a fact is that was read by rule, until somebody confirms it."""

_USER = "user"
_TAGS = ("stated",)
_PERMANENCE = dict.fromkeys((CueKind.NAME, CueKind.IDENTITY, CueKind.PREFERENCE), Permanence.STABLE)
"""What is said of users themselves stays true longer than the rest."""
_PREDICATES = {
    CueKind.DECISION: "decision",
    CueKind.CORRECTION: "correction",
    CueKind.REMEMBER: "to remember",
}
_ARTICLE = re.compile(r"^(?:the|an?|der|die|das|el|la|los|las|le|les|l['’]) ?\b", re.IGNORECASE)
_TOPIC_WORDS, _TOPIC_CHARACTERS = 6, 60


@dataclass(frozen=True, slots=True)
class SpokenStatement:
    """A sentence that states something, as it was said, and what it says."""

    text: str
    cue: Cue


def statements(sentences: Sequence[str]) -> Iterator[SpokenStatement]:
    """What the sentences of one turn state."""
    before, listing, disagreed = "", False, False
    for sentence in sentences:
        plain = unlisted(sentence)
        said = unquoted(plain)
        listing = _opens_list(said) or (listing and is_listed(sentence))
        found = stated(said, disagreed=disagreed)
        if found is None and listing and is_listed(sentence) and may_be_kept(said):
            found = to_remember(said)
        if found is not None:
            yield SpokenStatement(plain, found)
        elif points_back(said) and before:
            yield SpokenStatement(before, to_remember(before))
        # What was kept already, or cannot be, is not pointed back at.
        before = plain if found is None and may_be_kept(said) else ""
        disagreed = disagreed or disagrees(said)


def candidates(
    found: Iterable[SpokenStatement], scope: str, session: str, metadata: Mapping[str, Any]
) -> list[NewFact | NewRule]:
    """The facts and rules that statements make; each says in which session it was stated."""
    made: list[NewFact | NewRule] = []
    for one in found:
        told = {**metadata, "stated_in": session, "stated": one.cue.kind.value}
        if one.cue.kind is CueKind.STANDING:
            rule = NewRule(one.text, scope, _TAGS, metadata=told, origin=Origin.USER)
            made.append(rule)
            continue
        subject, predicate = _key(one.cue)
        made.append(
            NewFact(
                subject,
                predicate,
                one.text,
                permanence=_PERMANENCE.get(one.cue.kind, Permanence.STANDARD),
                scope=scope,
                tags=_TAGS,
                metadata=told,
                confidence=STATED_CONFIDENCE,
                origin=Origin.USER,
            )
        )
    return made


def _key(cue: Cue) -> tuple[str, str]:
    """Whom or what it is about, and what it says of it."""
    if cue.kind is CueKind.NAME:
        return _USER, "name"
    if cue.kind in _PERMANENCE:
        return _USER, cue.about.casefold() or _topic(cue.rest)
    return _topic(cue.about or cue.rest), _PREDICATES[cue.kind]


def _topic(said: str) -> str:
    """The first words of what is said, enough to know it by."""
    words = _ARTICLE.sub("", said).split()[:_TOPIC_WORDS]
    return " ".join(words)[:_TOPIC_CHARACTERS].strip(" ,.;:!。，、：！") or said[:_TOPIC_CHARACTERS]


def _opens_list(said: str) -> bool:
    return asks_to_remember(said) and said.endswith((":", "："))
