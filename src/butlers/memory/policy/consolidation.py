"""Build the prompt of a consolidation, and the schema of its answer."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.kernel.json_values import closed_object
from butlers.kernel.secrets import masked
from butlers.kernel.text import clean, one_line
from butlers.memory.model import EntityType, Maturity, Permanence
from butlers.memory.policy.consolidation_parser import EMPTY, LISTS, MAX_ACTIONS

MATERIAL = "{{material}}"
"""Where the template takes the episodes and the known memories."""

MAX_EPISODES_CHARS = 200_000
"""The maximum text of episodes in a prompt; a longer episode comes alone."""

SMALL_CONTEXT = 8192
"""A model with at most this context is asked about one episode, in few words."""

# Half of the context is left for instructions, known memories and the answer. Some scripts have a
# token for every character or two.
_CHARS_PER_TOKEN = 2
# Enough to recognise a fact.
_MAX_KNOWN_CHARS = 1_000
_NAMING_WORDS = 3


SENTENCES = "sentences"
"""Under what a small model describes the sentences it was asked about."""


class SentenceKind(StrEnum):
    """What a small model takes a sentence for."""

    FACT = "fact"
    RULE = "rule"
    TASK = "task"
    CHAT = "chat"


@dataclass(frozen=True, slots=True)
class Reach:
    """How much a model is asked at once, by the size of its context; 0 if unknown."""

    context_tokens: int = 0

    @property
    def is_small(self) -> bool:
        """Whether the model is asked about one episode at a time."""
        return 0 < self.context_tokens <= SMALL_CONTEXT

    def episodes(self, most: int) -> int:
        """Return the number of episodes in a prompt."""
        return 1 if self.is_small else most

    def known(self, most: int) -> int:
        """Return the number of known memories shown; a small model would repeat them."""
        return 0 if self.is_small else most

    @property
    def chars(self) -> int:
        """The maximum number of characters of episodes."""
        if not self.context_tokens:
            return MAX_EPISODES_CHARS
        return min(MAX_EPISODES_CHARS, self.context_tokens // 2 * _CHARS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class EpisodeToRead:
    """An episode as the prompt shows it."""

    id: UUID
    content: str
    importance: float
    created_at: datetime
    author: str | None = None


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A current fact as the prompt shows it."""

    id: UUID
    subject: str
    predicate: str
    content: str
    scope: str
    entity_id: UUID | None
    permanence: Permanence
    importance: float
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownRule:
    """A rule in use as the prompt shows it."""

    id: UUID
    content: str
    maturity: Maturity


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """An entity that the episodes name, as the prompt shows it."""

    id: UUID
    canonical_name: str
    entity_type: EntityType
    aliases: tuple[str, ...]
    is_known_to_all: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Its name and aliases."""
        return (self.canonical_name, *self.aliases)


@dataclass(frozen=True, slots=True)
class KnownMemories:
    """The memories that the prompt shows; the answer may change no others."""

    facts: Mapping[UUID, KnownFact]
    rules: Mapping[UUID, KnownRule]
    entities: Mapping[UUID, KnownEntity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsolidationPrompt:
    """A prompt: the memories it shows, their numbers, and its instructions."""

    known: KnownMemories
    shown: Mapping[int, UUID]
    instructions: str
    statements: tuple[str, ...] | None = None
    """The sentences that a small model was asked about; only people's words are stored then."""


def numbered(episodes: Sequence[EpisodeToRead], known: KnownMemories) -> dict[int, UUID]:
    """Number what the prompt shows: a model miscopies longer ids."""
    shown = (*(episode.id for episode in episodes), *known.facts, *known.rules, *known.entities)
    return dict(enumerate(shown, start=1))


def build_prompt(template: str, episodes: Sequence[EpisodeToRead], known: KnownMemories) -> str:
    """Put the episodes and known memories into the template, fenced and escaped as data."""
    number = {id: place for place, id in numbered(episodes, known).items()}
    sections = {
        "known_entities": [_entity(number[id], row) for id, row in known.entities.items()],
        "known_facts": [_fact(number[id], row) for id, row in known.facts.items()],
        "known_rules": [_rule(number[id], row) for id, row in known.rules.items()],
        "episodes": [_episode(number[episode.id], episode) for episode in episodes],
    }
    shown = [tag for tag, lines in sections.items() if lines]
    fenced = ("\n".join((f"<{tag}>", *sections[tag], f"</{tag}>")) for tag in shown)
    before, _, after = template.partition(MATERIAL)
    return before + "\n\n".join(fenced) + after


def answer_schema() -> dict[str, Any]:
    """Return the schema of the answer, strict enough for runtimes that enforce one."""
    quality = {
        "permanence": {"type": "string", "enum": [str(level) for level in Permanence]},
        "importance": {"type": "number"},
        "valid_from": {"type": ["string", "null"]},
        "valid_to": {"type": ["string", "null"]},
    }
    origin = {"tags": _list(_TEXT), "source_episode_ids": _list(_NUMBER)}
    links = {"entity_id": {"type": ["integer", "null"]}, "depends_on": _list(_NUMBER)}
    lists = (
        closed_object({**_STATEMENT, **links, **quality, **origin}),
        closed_object({"target_id": _NUMBER, **_STATEMENT, **quality, **origin}),
        closed_object({"content": _TEXT, **origin}),
        _NUMBER,
        _NUMBER,
    )
    names = (*LISTS, EMPTY)
    return closed_object({name: _list(item) for name, item in zip(names, lists, strict=True)})


def brief_schema(statements: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a small model's answer: each numbered sentence, described."""
    kind = {"type": "string", "enum": [str(kind) for kind in SentenceKind]}
    sentence = closed_object({"kind": kind, "about": _TEXT, "property": _TEXT})
    return closed_object(
        {SENTENCES: closed_object(dict.fromkeys(sentence_names(statements), sentence))}
    )


def sentence_names(statements: Sequence[str]) -> list[str]:
    """Name each sentence by its number and first words: a number alone gets mixed up."""
    firsts = (" ".join(re.findall(r"\w+", text)[:_NAMING_WORDS]) for text in statements)
    return [f"{number}. {words}" for number, words in enumerate(firsts, start=1)]


def numbered_lines(statements: Sequence[str]) -> str:
    """Return the sentences as a small model is shown them."""
    return "\n".join(f'{number}. "{text}"' for number, text in enumerate(statements, start=1))


_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "integer"}
_STATEMENT = {"subject": _TEXT, "predicate": _TEXT, "content": _TEXT}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": MAX_ACTIONS}


def _episode(number: int, episode: EpisodeToRead) -> str:
    return (
        f'<episode id="{number}" happened_at="{episode.created_at.isoformat()}" '
        f'importance="{episode.importance:g}">\n'
        f"<episode_content>\n{_escaped(episode.content)}\n</episode_content>\n</episode>"
    )


def _entity(number: int, entity: KnownEntity) -> str:
    also = "; ".join(entity.aliases)
    return (
        f'<entity id="{number}" type="{entity.entity_type}" '
        f'also="{_attribute(also[:_MAX_KNOWN_CHARS])}">{_shortened(entity.canonical_name)}</entity>'
    )


def _fact(number: int, fact: KnownFact) -> str:
    return (
        f'<fact id="{number}" subject="{_attribute(fact.subject)}" '
        f'predicate="{_attribute(fact.predicate)}">{_shortened(fact.content)}</fact>'
    )


def _rule(number: int, rule: KnownRule) -> str:
    return f'<rule id="{number}" maturity="{rule.maturity}">{_shortened(rule.content)}</rule>'


def _escaped(text: str) -> str:
    """Mask secrets, and escape what could open or close a tag."""
    return html.escape(masked(clean(text)).text, quote=False)


def _attribute(text: str) -> str:
    return html.escape(masked(one_line(text)).text, quote=True)


def _shortened(text: str) -> str:
    line = one_line(text)
    return _escaped(line if len(line) <= _MAX_KNOWN_CHARS else line[:_MAX_KNOWN_CHARS] + "…")
