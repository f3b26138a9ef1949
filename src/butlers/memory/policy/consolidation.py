"""What a consolidation asks of a language model: the prompt and the shape of its answer."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.kernel.json_values import closed_object
from butlers.kernel.secrets import masked
from butlers.kernel.text import clean, one_line
from butlers.memory.model import EntityType, Maturity, Permanence
from butlers.memory.policy.consolidation_parser import EMPTY, LISTS, MAX_ACTIONS

MATERIAL = "{{material}}"
"""Where in the template the episodes and what is known are put."""

MAX_EPISODES_CHARS = 200_000
"""How much text of episodes one prompt takes; an episode longer than that comes alone."""

SMALL_CONTEXT = 8192
"""A model that has no more tokens than this is asked about one episode, in few words."""

# Half of what a model can read is left to instructions, to what is known and to the answer. Some
# scripts have a token for every character or two.
_CHARS_PER_TOKEN = 2
# Enough to recognise a fact by; its whole text is not what the model is asked about.
_MAX_KNOWN_CHARS = 1_000
_FOUND_BY_SMALL = 5


@dataclass(frozen=True, slots=True)
class Reach:
    """How much is asked at once of a model that can read so many tokens; 0 is not known."""

    context_tokens: int = 0

    @property
    def is_small(self) -> bool:
        """Whether it is asked about one episode at a time, in few words."""
        return 0 < self.context_tokens <= SMALL_CONTEXT

    def episodes(self, most: int) -> int:
        """How many episodes it is asked about."""
        return 1 if self.is_small else most

    def known(self, most: int) -> int:
        """How many known memories of a kind it is shown; a small one would give them back."""
        return 0 if self.is_small else most

    @property
    def chars(self) -> int:
        """How much text of episodes it is given."""
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
    """An active fact as the prompt shows it, with the key it holds."""

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
    """Somebody or something that the episodes name, as the prompt shows it."""

    id: UUID
    canonical_name: str
    entity_type: EntityType
    aliases: tuple[str, ...]
    is_known_to_all: bool

    @property
    def names(self) -> tuple[str, ...]:
        """What it is called."""
        return (self.canonical_name, *self.aliases)


@dataclass(frozen=True, slots=True)
class KnownMemories:
    """What the prompt shows of what is known; nothing else may be touched by its answer."""

    facts: Mapping[UUID, KnownFact]
    rules: Mapping[UUID, KnownRule]
    entities: Mapping[UUID, KnownEntity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsolidationPrompt:
    """What was asked: what was shown of what is known, by which numbers, and with which words."""

    known: KnownMemories
    shown: Mapping[int, UUID]
    instructions: str
    is_quoted: bool = False
    """Whether what is kept are passages of the episodes, not the answer's own words."""


def numbered(episodes: Sequence[EpisodeToRead], known: KnownMemories) -> dict[int, UUID]:
    """What the prompt shows, by the number it has there: a model miscopies anything longer."""
    shown = (*(episode.id for episode in episodes), *known.facts, *known.rules, *known.entities)
    return dict(enumerate(shown, start=1))


def build_prompt(template: str, episodes: Sequence[EpisodeToRead], known: KnownMemories) -> str:
    """The template with everything that is only data fenced and escaped in its place."""
    number = {id: place for place, id in numbered(episodes, known).items()}
    about = [_entity(number[id], one) for id, one in known.entities.items()]
    material = "\n\n".join(
        (
            *([_fenced("known_entities", about)] if about else ()),
            _fenced("known_facts", (_fact(number[id], one) for id, one in known.facts.items())),
            _fenced("known_rules", (_rule(number[id], one) for id, one in known.rules.items())),
            _fenced("episodes", (_episode(number[one.id], one) for one in episodes)),
        )
    )
    before, _, after = template.partition(MATERIAL)
    return before + material + after


def answer_schema() -> dict[str, Any]:
    """The shape of the answer, strict enough for runtimes that enforce one."""
    quality = {
        "permanence": {"type": "string", "enum": [str(level) for level in Permanence]},
        "importance": {"type": "number"},
        "valid_from": {"type": ["string", "null"]},
        "valid_to": {"type": ["string", "null"]},
    }
    origin = {"tags": _list(_TEXT), "source_episode_ids": _list(_NUMBER)}
    lists = (
        closed_object(
            {
                **_STATEMENT,
                "entity_id": _NUMBER_OR_NULL,
                "depends_on": _list(_NUMBER),
                **quality,
                **origin,
            }
        ),
        closed_object({"target_id": _NUMBER, **_STATEMENT, **quality, **origin}),
        closed_object({"content": _TEXT, **origin}),
        _NUMBER,
        _NUMBER,
    )
    names = (*LISTS, EMPTY)
    return closed_object({name: _list(item) for name, item in zip(names, lists, strict=True)})


def brief_schema() -> dict[str, Any]:
    """The shape of a small model's answer: what is asked of it in few words."""
    facts, rules = closed_object(_STATEMENT), closed_object({"content": _TEXT})
    most = {"maxItems": _FOUND_BY_SMALL}
    return closed_object({"new_facts": _list(facts) | most, "new_rules": _list(rules) | most})


_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "integer"}
_NUMBER_OR_NULL: dict[str, Any] = {"type": ["integer", "null"]}
_STATEMENT = {"subject": _TEXT, "predicate": _TEXT, "content": _TEXT}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": MAX_ACTIONS}


def _fenced(tag: str, lines: Iterable[str]) -> str:
    return "\n".join((f"<{tag}>", *lines, f"</{tag}>"))


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
    """Text without secrets that can neither open nor close a tag."""
    return html.escape(masked(clean(text)).text, quote=False)


def _attribute(text: str) -> str:
    return html.escape(masked(one_line(text)).text, quote=True)


def _shortened(text: str) -> str:
    line = one_line(text)
    shown = line if len(line) <= _MAX_KNOWN_CHARS else line[:_MAX_KNOWN_CHARS] + "…"
    return _escaped(shown)
