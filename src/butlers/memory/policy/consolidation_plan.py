"""What an answer may do: its entries checked against what the prompt showed."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.kernel.text import normalise_whitespace, says_the_same
from butlers.memory.model import MemoryRef, MemoryType, NewFact, NewRule, Origin
from butlers.memory.policy import naming
from butlers.memory.policy.attachments import checked_fact, checked_rule
from butlers.memory.policy.confidence import INFERRED_CONFIDENCE
from butlers.memory.policy.consolidation import EpisodeToRead, KnownEntity, KnownFact, KnownMemories
from butlers.memory.policy.consolidation_guards import (
    Evidence,
    check_rule,
    check_statement,
    supports,
)
from butlers.memory.policy.consolidation_parser import (
    ConsolidationResult,
    NewFactEntry,
    NewRuleEntry,
    UpdatedFactEntry,
)
from butlers.memory.policy.scopes import GLOBAL, of_source
from butlers.memory.settings import MemoryModuleConfig


@dataclass(frozen=True, slots=True)
class StoreFact:
    """Store a fact derived from these episodes; with a target, in the place of that fact."""

    label: str
    new: NewFact
    sources: tuple[UUID, ...]
    cited: tuple[UUID, ...]
    target_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class StoreRule:
    """Store a rule derived from these episodes."""

    label: str
    new: NewRule
    sources: tuple[UUID, ...]
    cited: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class ConfirmMemory:
    """Confirm a fact or a rule that was shown, if one of these episodes says it anew."""

    label: str
    ref: MemoryRef
    cited: tuple[UUID, ...]


Action = StoreFact | StoreRule | ConfirmMemory


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    """What is to be done, in order, and what of the answer cannot be."""

    actions: tuple[Action, ...]
    errors: tuple[str, ...]
    nothing_in: frozenset[UUID] = frozenset()


@dataclass(frozen=True)
class EpisodeBatch:
    """The episodes of one butler that an answer is about, oldest first, and what was asked."""

    butler: str
    episodes: tuple[EpisodeToRead, ...]
    instructions: str = ""
    known_to_all: frozenset[str] = frozenset()
    """Names, in small letters, of whom or what every butler knows."""

    @cached_property
    def episode_ids(self) -> tuple[UUID, ...]:
        """Which they are."""
        return tuple(episode.id for episode in self.episodes)

    @cached_property
    def _each(self) -> tuple[Evidence, ...]:
        return tuple(Evidence((episode,)) for episode in self.episodes)

    def scope(self, subject: str) -> str:
        """What is new stays with the butler that heard it, unless it is about one known to all."""
        return GLOBAL if subject.lower() in self.known_to_all else self.butler

    def sources(self, named: Sequence[UUID]) -> tuple[UUID, ...]:
        """The named ones among these episodes, in order; all of them when none is named."""
        chosen = set(named)
        return tuple(id for id in self.episode_ids if id in chosen) or self.episode_ids

    def evidence(self, sources: Sequence[UUID]) -> Evidence:
        """What these of the episodes say."""
        return Evidence(tuple(one for one in self.episodes if one.id in sources))

    def supporting(self, content: str, subject: str = "") -> tuple[UUID, ...]:
        """The episodes that say, each by itself, something of this."""
        return tuple(
            evidence.episodes[0].id
            for evidence in self._each
            if supports(evidence, content, subject)
        )

    def cited(self, named: Sequence[UUID], content: str, subject: str = "") -> tuple[UUID, ...]:
        """The episodes an entry names, or where it names none, those that say something of it."""
        if set(named) & set(self.episode_ids):
            return self.sources(named)
        return self.supporting(content, subject) or self.episode_ids

    def idempotency_key(self, kind: str, *words: str) -> str:
        """Equal for the same action taken from the same episodes, however it is spaced or cased."""
        said = [normalise_whitespace(word).casefold() for word in words]
        whole = json.dumps([sorted(map(str, self.episode_ids)), kind, said])
        return f"consolidation:{hashlib.sha256(whole.encode()).hexdigest()}"


def plan(
    result: ConsolidationResult,
    batch: EpisodeBatch,
    known: KnownMemories,
    settings: MemoryModuleConfig,
) -> ConsolidationPlan:
    """Every action the answer may take, and an error for each it may not."""
    actions: list[Action] = []
    errors = list(result.parse_errors)
    for label, make in _planned_actions(result, batch, known, settings):
        try:
            actions.append(make(label))
        except InvalidInput as error:
            errors.append(f"{label}: {error}")
    return ConsolidationPlan(tuple(actions), tuple(errors), frozenset(result.nothing_in))


def _planned_actions(
    result: ConsolidationResult,
    batch: EpisodeBatch,
    known: KnownMemories,
    settings: MemoryModuleConfig,
) -> Iterator[tuple[str, Callable[[str], Action]]]:
    """Each entry's place in the answer with what makes an action of it."""
    for i, fact in enumerate(result.new_facts):
        yield f"new_facts[{i}]", partial(_new_fact, fact, batch, known, settings)
    for i, update in enumerate(result.updated_facts):
        yield f"updated_facts[{i}]", partial(_updated_fact, update, batch, known, settings)
    for i, rule in enumerate(result.new_rules):
        yield f"new_rules[{i}]", partial(_new_rule, rule, batch, settings)
    # In id order, so that two runs that confirm the same memories cannot wait for each other.
    for memory_id in sorted(result.confirmations):
        yield f"confirmations[{memory_id}]", partial(_confirmation, memory_id, batch, known)


def _new_fact(
    entry: NewFactEntry,
    batch: EpisodeBatch,
    known: KnownMemories,
    settings: MemoryModuleConfig,
    label: str,
) -> StoreFact:
    sources = batch.sources(entry.sources)
    _check_fact(entry, batch, sources)
    about = _about(entry, known)
    scope = GLOBAL if about and about.is_known_to_all else batch.scope(entry.subject)
    new = NewFact(
        entry.subject,
        entry.predicate,
        entry.content,
        confidence=INFERRED_CONFIDENCE,
        importance=entry.importance,
        permanence=entry.permanence,
        scope=of_source(scope, batch.butler),
        tags=entry.tags,
        entity_id=about.id if about else None,
        source_butler=batch.butler,
        source_episode_id=_only(sources),
        idempotency_key=batch.idempotency_key(
            "new_fact", entry.subject, entry.predicate, entry.content
        ),
        origin=Origin.INFERRED,
        depends_on=_grounds(entry, known),
        **_window(entry, batch, sources),
    )
    cited = batch.cited(entry.sources, entry.content, entry.subject)
    return StoreFact(label, checked_fact(new, settings), sources, cited)


def _grounds(entry: NewFactEntry, known: KnownMemories) -> tuple[MemoryRef, ...]:
    """The known facts and rules that a fact would fall with; what was not shown is no ground."""
    kinds = ((MemoryType.FACT, known.facts), (MemoryType.RULE, known.rules))
    return tuple(
        MemoryRef(kind, id)
        for id in dict.fromkeys(entry.depends_on)
        for kind, shown in kinds
        if id in shown
    )


def _about(entry: NewFactEntry, known: KnownMemories) -> KnownEntity | None:
    """The entity that the answer names by its number, where the subject may be short for it."""
    found = known.entities.get(entry.entity_id) if entry.entity_id else None
    return found if found and naming.may_mean(entry.subject, found.names) else None


def _updated_fact(
    entry: UpdatedFactEntry,
    batch: EpisodeBatch,
    known: KnownMemories,
    settings: MemoryModuleConfig,
    label: str,
) -> StoreFact:
    target = known.facts.get(entry.target_id)
    if target is None:
        raise InvalidInput(f"fact {entry.target_id} was not shown; it is left as it is")
    sources = batch.sources(entry.sources)
    if not says_the_same(target.content, entry.content):
        _check_fact(replace(entry, subject=target.subject), batch, sources)
    new = _successor(target, entry, batch, sources)
    cited = batch.cited(entry.sources, entry.content, target.subject)
    # What a project says of something global is the project's, beside it.
    replaced = target.id if new.scope == target.scope else None
    return StoreFact(label, checked_fact(new, settings), sources, cited, replaced)


def _check_fact(
    entry: NewFactEntry | UpdatedFactEntry, batch: EpisodeBatch, sources: tuple[UUID, ...]
) -> None:
    said = (entry.subject, entry.predicate, entry.content)
    check_statement(batch.evidence(sources), *said, batch.instructions)


def _successor(
    target: KnownFact, entry: UpdatedFactEntry, batch: EpisodeBatch, sources: tuple[UUID, ...]
) -> NewFact:
    """A fact under the very key of its target, which it therefore supersedes and nothing else;
    drawn from a project's episodes, under that key in the project."""
    return NewFact(
        target.subject,
        target.predicate,
        entry.content,
        confidence=INFERRED_CONFIDENCE,
        importance=target.importance if entry.importance is None else entry.importance,
        permanence=entry.permanence or target.permanence,
        scope=of_source(target.scope, batch.butler),
        tags=target.tags if entry.tags is None else entry.tags,
        entity_id=target.entity_id,
        source_butler=batch.butler,
        source_episode_id=_only(sources),
        idempotency_key=batch.idempotency_key("updated_fact", str(target.id), entry.content),
        origin=Origin.INFERRED,
        **_window(entry, batch, sources),
    )


def _window(
    entry: NewFactEntry | UpdatedFactEntry, batch: EpisodeBatch, sources: tuple[UUID, ...]
) -> dict[str, Any]:
    """When it holds, if the evidence has the years or is of about then."""
    begin, end = entry.window.valid_from, entry.window.valid_to
    years = {at.year for at in (begin, end and end - timedelta(days=1)) if at}
    held = all(batch.evidence(sources).holds(str(year)) for year in years)
    return {"valid_from": begin, "valid_to": end} if held else {}


def _new_rule(
    entry: NewRuleEntry, batch: EpisodeBatch, settings: MemoryModuleConfig, label: str
) -> StoreRule:
    sources = batch.sources(entry.sources)
    check_rule(batch.evidence(sources), entry.content, batch.instructions)
    new = NewRule(
        entry.content,
        scope=batch.butler,
        tags=entry.tags,
        source_butler=batch.butler,
        source_episode_id=_only(sources),
        idempotency_key=batch.idempotency_key("new_rule", entry.content),
        origin=Origin.INFERRED,
    )
    cited = batch.cited(entry.sources, entry.content)
    return StoreRule(label, checked_rule(new, settings), sources, cited)


def _confirmation(
    memory_id: UUID, batch: EpisodeBatch, known: KnownMemories, label: str
) -> ConfirmMemory:
    if (fact := known.facts.get(memory_id)) is not None:
        said = batch.supporting(fact.content, fact.subject)
        return ConfirmMemory(label, MemoryRef(MemoryType.FACT, memory_id), said)
    if (rule := known.rules.get(memory_id)) is not None:
        said = batch.supporting(rule.content)
        return ConfirmMemory(label, MemoryRef(MemoryType.RULE, memory_id), said)
    raise InvalidInput(f"memory {memory_id} was not shown; it is left as it is")


def _only(sources: tuple[UUID, ...]) -> UUID | None:
    """The source when there is exactly one; of several, the links tell."""
    return sources[0] if len(sources) == 1 else None
