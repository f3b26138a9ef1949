"""What an answer may do: its entries checked against what the prompt showed."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.kernel.text import normalise_whitespace
from butlers.memory.model import MemoryRef, MemoryType, NewFact, NewRule
from butlers.memory.policy.attachments import checked_fact, checked_rule
from butlers.memory.policy.consolidation import Known, KnownFact
from butlers.memory.policy.consolidation_parser import (
    ConsolidationResult,
    NewFactEntry,
    NewRuleEntry,
    UpdatedFactEntry,
)
from butlers.memory.policy.scopes import of_source
from butlers.memory.settings import MemoryModuleConfig


@dataclass(frozen=True, slots=True)
class StoreFact:
    """Store a fact derived from these episodes; with a target, in the place of that fact."""

    label: str
    new: NewFact
    sources: tuple[UUID, ...]
    target_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class StoreRule:
    """Store a rule derived from these episodes."""

    label: str
    new: NewRule
    sources: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Confirm:
    """Confirm a fact or a rule that was shown."""

    label: str
    ref: MemoryRef


Action = StoreFact | StoreRule | Confirm


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in order, and what of the answer cannot be."""

    actions: tuple[Action, ...]
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """The episodes of one butler that an answer is about, oldest first."""

    butler: str
    episode_ids: tuple[UUID, ...]

    def sources(self, named: Sequence[UUID]) -> tuple[UUID, ...]:
        """The named ones among these episodes, in order; all of them when none is named."""
        chosen = set(named)
        return tuple(id for id in self.episode_ids if id in chosen) or self.episode_ids

    def idempotency_key(self, kind: str, *words: str) -> str:
        """Equal for the same action taken from the same episodes, however it is spaced or cased."""
        said = [normalise_whitespace(word).casefold() for word in words]
        whole = json.dumps([sorted(map(str, self.episode_ids)), kind, said])
        return f"consolidation:{hashlib.sha256(whole.encode()).hexdigest()}"


def plan(
    result: ConsolidationResult, batch: Batch, known: Known, settings: MemoryModuleConfig
) -> Plan:
    """Every action the answer may take, and an error for each it may not."""
    actions: list[Action] = []
    errors = list(result.parse_errors)
    for label, make in _wanted(result, batch, known, settings):
        try:
            actions.append(make(label))
        except InvalidInput as error:
            errors.append(f"{label}: {error}")
    return Plan(tuple(actions), tuple(errors))


def _wanted(
    result: ConsolidationResult, batch: Batch, known: Known, settings: MemoryModuleConfig
) -> Iterator[tuple[str, Callable[[str], Action]]]:
    """Each entry's place in the answer with what makes an action of it."""
    for i, fact in enumerate(result.new_facts):
        yield f"new_facts[{i}]", partial(_new_fact, fact, batch, settings)
    for i, update in enumerate(result.updated_facts):
        yield f"updated_facts[{i}]", partial(_updated_fact, update, batch, known, settings)
    for i, rule in enumerate(result.new_rules):
        yield f"new_rules[{i}]", partial(_new_rule, rule, batch, settings)
    # In id order, so that two runs that confirm the same memories cannot wait for each other.
    for memory_id in sorted(result.confirmations):
        yield f"confirmations[{memory_id}]", partial(_confirmation, memory_id, known)


def _new_fact(
    entry: NewFactEntry, batch: Batch, settings: MemoryModuleConfig, label: str
) -> StoreFact:
    sources = batch.sources(entry.sources)
    new = NewFact(
        entry.subject,
        entry.predicate,
        entry.content,
        importance=entry.importance,
        permanence=entry.permanence,
        scope=of_source("global", batch.butler),
        tags=entry.tags,
        source_butler=batch.butler,
        source_episode_id=_only(sources),
        idempotency_key=batch.idempotency_key(
            "new_fact", entry.subject, entry.predicate, entry.content
        ),
    )
    return StoreFact(label, checked_fact(new, settings), sources)


def _updated_fact(
    entry: UpdatedFactEntry,
    batch: Batch,
    known: Known,
    settings: MemoryModuleConfig,
    label: str,
) -> StoreFact:
    target = known.facts.get(entry.target_id)
    if target is None:
        raise InvalidInput(f"fact {entry.target_id} was not shown; it is left as it is")
    sources = batch.sources(entry.sources)
    new = _successor(target, entry, batch, sources)
    # What a project says of something global is the project's, beside it.
    replaced = target.id if new.scope == target.scope else None
    return StoreFact(label, checked_fact(new, settings), sources, replaced)


def _successor(
    target: KnownFact, entry: UpdatedFactEntry, batch: Batch, sources: tuple[UUID, ...]
) -> NewFact:
    """A fact under the very key of its target, which it therefore supersedes and nothing else;
    drawn from a project's episodes, under that key in the project."""
    return NewFact(
        target.subject,
        target.predicate,
        entry.content,
        importance=target.importance if entry.importance is None else entry.importance,
        permanence=entry.permanence or target.permanence,
        scope=of_source(target.scope, batch.butler),
        tags=target.tags if entry.tags is None else entry.tags,
        entity_id=target.entity_id,
        source_butler=batch.butler,
        source_episode_id=_only(sources),
        idempotency_key=batch.idempotency_key("updated_fact", str(target.id), entry.content),
    )


def _new_rule(
    entry: NewRuleEntry, batch: Batch, settings: MemoryModuleConfig, label: str
) -> StoreRule:
    sources = batch.sources(entry.sources)
    new = NewRule(
        entry.content,
        scope=of_source("global", batch.butler),
        tags=entry.tags,
        source_butler=batch.butler,
        source_episode_id=_only(sources),
        idempotency_key=batch.idempotency_key("new_rule", entry.content),
    )
    return StoreRule(label, checked_rule(new, settings), sources)


def _confirmation(memory_id: UUID, known: Known, label: str) -> Confirm:
    if memory_id in known.facts:
        return Confirm(label, MemoryRef(MemoryType.FACT, memory_id))
    if memory_id in known.rules:
        return Confirm(label, MemoryRef(MemoryType.RULE, memory_id))
    raise InvalidInput(f"memory {memory_id} was not shown; it is left as it is")


def _only(sources: tuple[UUID, ...]) -> UUID | None:
    """The source when there is exactly one; of several, the links tell."""
    return sources[0] if len(sources) == 1 else None
