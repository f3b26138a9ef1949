"""What a consolidation asks of a language model: the prompt and the shape of its answer."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.kernel.json_values import closed_object
from butlers.kernel.text import clean, one_line
from butlers.memory.model import Maturity, Permanence
from butlers.memory.policy.consolidation_parser import LISTS, MAX_ACTIONS

MATERIAL = "{{material}}"
"""Where in the template the episodes and what is known are put."""

MAX_EPISODES_CHARS = 200_000
"""How much text of episodes one prompt takes; an episode longer than that comes alone."""

# Enough to recognise a fact by; its whole text is not what the model is asked about.
_MAX_KNOWN_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class EpisodeToRead:
    """An episode as the prompt shows it."""

    id: UUID
    content: str
    importance: float
    created_at: datetime


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
class Known:
    """What the prompt shows of what is known; nothing else may be touched by its answer."""

    facts: Mapping[UUID, KnownFact]
    rules: Mapping[UUID, KnownRule]


def build_prompt(template: str, episodes: Sequence[EpisodeToRead], known: Known) -> str:
    """The template with everything that is only data fenced and escaped in its place."""
    material = "\n\n".join(
        (
            _fenced("known_facts", map(_fact, known.facts.values())),
            _fenced("known_rules", map(_rule, known.rules.values())),
            _fenced("episodes", map(_episode, episodes)),
        )
    )
    before, _, after = template.partition(MATERIAL)
    return before + material + after


def answer_schema() -> dict[str, Any]:
    """The shape of the answer, strict enough for runtimes that enforce one."""
    key = {"subject": _TEXT, "predicate": _TEXT, "content": _TEXT}
    quality = {
        "permanence": {"type": "string", "enum": [str(level) for level in Permanence]},
        "importance": {"type": "number"},
    }
    origin = {"tags": _list(_TEXT), "source_episode_ids": _list(_TEXT)}
    lists = (
        closed_object({**key, **quality, **origin}),
        closed_object({"target_id": _TEXT, **key, **quality, **origin}),
        closed_object({"content": _TEXT, **origin}),
        _TEXT,
    )
    return closed_object({name: _list(item) for name, item in zip(LISTS, lists, strict=True)})


_TEXT: dict[str, Any] = {"type": "string"}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": MAX_ACTIONS}


def _fenced(tag: str, lines: Iterable[str]) -> str:
    return "\n".join((f"<{tag}>", *lines, f"</{tag}>"))


def _episode(episode: EpisodeToRead) -> str:
    return (
        f'<episode id="{episode.id}" happened_at="{episode.created_at.isoformat()}" '
        f'importance="{episode.importance:g}">\n'
        f"<episode_content>\n{_escaped(episode.content)}\n</episode_content>\n</episode>"
    )


def _fact(fact: KnownFact) -> str:
    return (
        f'<fact id="{fact.id}" subject="{_attribute(fact.subject)}" '
        f'predicate="{_attribute(fact.predicate)}">{_shortened(fact.content)}</fact>'
    )


def _rule(rule: KnownRule) -> str:
    return f'<rule id="{rule.id}" maturity="{rule.maturity}">{_shortened(rule.content)}</rule>'


def _escaped(text: str) -> str:
    """Text that can neither open nor close a tag."""
    return html.escape(clean(text), quote=False)


def _attribute(text: str) -> str:
    return html.escape(one_line(text), quote=True)


def _shortened(text: str) -> str:
    line = one_line(text)
    shown = line if len(line) <= _MAX_KNOWN_CHARS else line[:_MAX_KNOWN_CHARS] + "…"
    return _escaped(shown)
