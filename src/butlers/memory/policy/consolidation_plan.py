"""Plan what an answer may do: check its entries against the episodes and what was shown."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.kernel.text import normalise_whitespace, says_the_same
from butlers.memory.model import MemoryRef, MemoryType, NewFact, NewRule, Origin
from butlers.memory.policy import naming
from butlers.memory.policy.confidence import INFERRED_CONFIDENCE
from butlers.memory.policy.consolidation import EpisodeToRead, KnownEntity, KnownFact, KnownMemories
from butlers.memory.policy.consolidation_guards import (
    RULE_SHARE,
    Evidence,
    check_rule,
    check_statement,
    states,
    supports,
)
from butlers.memory.policy.consolidation_parser import (
    ConsolidationResult,
    NewFactEntry,
    NewRuleEntry,
    UpdatedFactEntry,
)
from butlers.memory.policy.inputs import checked_new
from butlers.memory.policy.scopes import GLOBAL, of_source
from butlers.memory.settings import MemoryModuleConfig


@dataclass(frozen=True, slots=True)
class StoreFact:
    """Store a fact drawn from these episodes; with a target, it supersedes that fact."""

    label: str
    new: NewFact
    sources: tuple[UUID, ...]
    cited: tuple[UUID, ...]
    target_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class StoreRule:
    """Store a rule drawn from these episodes."""

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
FactEntry = NewFactEntry | UpdatedFactEntry


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    """The actions of an answer in order, and why other entries are refused."""

    actions: tuple[Action, ...]
    errors: tuple[str, ...]
    nothing_in: frozenset[UUID] = frozenset()
    is_quoted: bool = False
    """Whether a small model made it, which is shown nothing of what is known."""


@dataclass(frozen=True)
class EpisodeBatch:
    """The episodes of one butler that an answer is about, oldest first, and what was asked."""

    butler: str
    episodes: tuple[EpisodeToRead, ...]
    instructions: str = ""
    known_to_all: frozenset[str] = frozenset()
    """Names, in lower case, of entities that every butler knows."""

    @cached_property
    def episode_ids(self) -> tuple[UUID, ...]:
        """The ids of the episodes."""
        return tuple(episode.id for episode in self.episodes)

    @cached_property
    def _each(self) -> tuple[Evidence, ...]:
        return tuple(Evidence((episode,)) for episode in self.episodes)

    def scope(self, subject: str) -> str:
        """Return the scope of a new fact: the butler's, or global for a subject known to all."""
        return GLOBAL if subject.lower() in self.known_to_all else self.butler

    def sources(self, named: Sequence[UUID]) -> tuple[UUID, ...]:
        """Return the named ones of these episodes, in order; all if none is named."""
        chosen = set(named)
        return tuple(id for id in self.episode_ids if id in chosen) or self.episode_ids

    def evidence(self, sources: Sequence[UUID]) -> Evidence:
        """Return what some of the episodes say."""
        return Evidence(tuple(episode for episode in self.episodes if episode.id in sources))

    def supporting(self, content: str, subject: str = "") -> tuple[UUID, ...]:
        """Return the episodes that each by itself say something of this."""
        fitting = [each for each in self._each if supports(each, content, subject)]
        return tuple(evidence.episodes[0].id for evidence in fitting)

    def cited(
        self, named: Sequence[UUID], content: str, subject: str = "", share: float = 1.0
    ) -> tuple[UUID, ...]:
        """Return the episodes that an entry names, or else those that each by itself say it."""
        if set(named) & set(self.episode_ids):
            return self.sources(named)
        stating = (each for each in self._each if states(each, content, subject, share))
        return tuple(evidence.episodes[0].id for evidence in stating)

    def idempotency_key(self, kind: str, *words: str) -> str:
        """Return the key of an action: equal for the same words, in any case, of these episodes."""
        words_folded = [normalise_whitespace(word).casefold() for word in words]
        whole = json.dumps([sorted(map(str, self.episode_ids)), kind, words_folded])
        return f"consolidation:{hashlib.sha256(whole.encode()).hexdigest()}"


def plan(
    result: ConsolidationResult,
    batch: EpisodeBatch,
    known: KnownMemories,
    settings: MemoryModuleConfig,
) -> ConsolidationPlan:
    """Turn each entry of an answer into an action, or into an error that says why not."""
    actions: list[Action] = []
    errors = list(result.parse_errors)
    for label, make in _Planner(batch, known, settings).actions_of(result):
        try:
            actions.append(make(label))
        except InvalidInput as error:
            errors.append(f"{label}: {error}")
    empty = frozenset(result.nothing_in)
    return ConsolidationPlan(tuple(actions), tuple(errors), empty, result.is_quoted)


@dataclass(frozen=True, slots=True)
class _Planner:
    """Checks the entries of an answer against the episodes and what the prompt showed."""

    batch: EpisodeBatch
    known: KnownMemories
    settings: MemoryModuleConfig

    def actions_of(
        self, result: ConsolidationResult
    ) -> Iterator[tuple[str, Callable[[str], Action]]]:
        """Pair the label of each entry with the function that makes an action of it."""
        for i, fact in enumerate(result.new_facts):
            yield f"new_facts[{i}]", partial(self.new_fact, fact)
        for i, update in enumerate(result.updated_facts):
            yield f"updated_facts[{i}]", partial(self.updated_fact, update)
        for i, rule in enumerate(result.new_rules):
            yield f"new_rules[{i}]", partial(self.new_rule, rule)
        # In id order, so that two runs that confirm the same memories cannot wait for each other.
        for memory_id in sorted(result.confirmations):
            yield f"confirmations[{memory_id}]", partial(self.confirmation, memory_id)

    def new_fact(self, entry: NewFactEntry, label: str) -> StoreFact:
        self._check_fact(entry)
        about = self._entity(entry)
        scope = GLOBAL if about and about.is_known_to_all else self.batch.scope(entry.subject)
        new = NewFact(
            entry.subject,
            entry.predicate,
            entry.content,
            importance=entry.importance,
            permanence=entry.permanence,
            scope=scope,
            tags=entry.tags,
            entity_id=about.id if about else None,
            depends_on=self._grounds(entry),
        )
        key = (entry.subject, entry.predicate, entry.content)
        return self._store(label, entry, new, "new_fact", *key)

    def updated_fact(self, entry: UpdatedFactEntry, label: str) -> StoreFact:
        target = self.known.facts.get(entry.target_id)
        if target is None:
            raise InvalidInput(f"fact {entry.target_id} was not in the prompt; it is not changed")
        if not says_the_same(target.content, entry.content):
            self._check_fact(replace(entry, subject=target.subject))
        new = NewFact(
            target.subject,
            target.predicate,
            entry.content,
            importance=target.importance if entry.importance is None else entry.importance,
            permanence=entry.permanence or target.permanence,
            scope=target.scope,
            tags=target.tags if entry.tags is None else entry.tags,
            entity_id=target.entity_id,
        )
        stored = self._store(label, entry, new, "updated_fact", str(target.id), entry.content)
        # What a project's episodes say of something global is stored in the project, beside it.
        is_beside = stored.new.scope != target.scope
        return stored if is_beside else replace(stored, target_id=target.id)

    def new_rule(self, entry: NewRuleEntry, label: str) -> StoreRule:
        sources = self.batch.sources(entry.sources)
        check_rule(self.batch.evidence(sources), entry.content, self.batch.instructions)
        new = NewRule(
            entry.content,
            scope=self.batch.butler,
            tags=entry.tags,
            source_butler=self.batch.butler,
            source_episode_id=_only(sources),
            idempotency_key=self.batch.idempotency_key("new_rule", entry.content),
            origin=Origin.INFERRED,
        )
        cited = self.batch.cited(entry.sources, entry.content, share=RULE_SHARE)
        return StoreRule(label, checked_new(new, self.settings), sources, cited)

    def confirmation(self, memory_id: UUID, label: str) -> ConfirmMemory:
        known = self.known.facts.get(memory_id) or self.known.rules.get(memory_id)
        if known is None:
            raise InvalidInput(f"memory {memory_id} was not in the prompt; it is not changed")
        kind, subject = MemoryType.RULE, ""
        if isinstance(known, KnownFact):
            kind, subject = MemoryType.FACT, known.subject
        cited = self.batch.supporting(known.content, subject)
        return ConfirmMemory(label, MemoryRef(kind, memory_id), cited)

    def _grounds(self, entry: NewFactEntry) -> tuple[MemoryRef, ...]:
        """Return the shown facts and rules that a fact depends on; others are ignored."""
        kinds = ((MemoryType.FACT, self.known.facts), (MemoryType.RULE, self.known.rules))
        return tuple(
            MemoryRef(kind, id)
            for id in dict.fromkeys(entry.depends_on)
            for kind, shown in kinds
            if id in shown
        )

    def _entity(self, entry: NewFactEntry) -> KnownEntity | None:
        """Return the entity that the answer names, if the subject may mean it."""
        entity = self.known.entities.get(entry.entity_id) if entry.entity_id else None
        return entity if entity and naming.may_mean(entry.subject, entity.names) else None

    def _check_fact(self, entry: FactEntry) -> None:
        evidence = self.batch.evidence(self.batch.sources(entry.sources))
        statement = (entry.subject, entry.predicate, entry.content)
        check_statement(evidence, *statement, self.batch.instructions)

    def _store(self, label: str, entry: FactEntry, new: NewFact, *key: str) -> StoreFact:
        """Store a fact with its provenance, and its window if the evidence has the years."""
        sources = self.batch.sources(entry.sources)
        begin, end = entry.window.valid_from, entry.window.valid_to
        years = {at.year for at in (begin, end and end - timedelta(days=1)) if at}
        is_dated = all(self.batch.evidence(sources).holds(str(year)) for year in years)
        new = replace(
            new,
            scope=of_source(new.scope, self.batch.butler),
            idempotency_key=self.batch.idempotency_key(*key),
            confidence=INFERRED_CONFIDENCE,
            origin=Origin.INFERRED,
            source_butler=self.batch.butler,
            source_episode_id=_only(sources),
            valid_from=begin if is_dated else None,
            valid_to=end if is_dated else None,
        )
        cited = self.batch.cited(entry.sources, entry.content, new.subject)
        return StoreFact(label, checked_new(new, self.settings), sources, cited)


def _only(sources: tuple[UUID, ...]) -> UUID | None:
    """Return the source if there is exactly one; several become links."""
    return sources[0] if len(sources) == 1 else None
