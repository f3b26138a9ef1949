# Written by `make docs`, and checked.
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from inspect import Signature
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.memory.flows.batch import StoredBatch
from butlers.memory.flows.browse import Page
from butlers.memory.flows.consolidation.answer import EpisodeClaim
from butlers.memory.flows.consolidation.report import ConsolidationReport
from butlers.memory.flows.context import Context
from butlers.memory.flows.entity_merge import MergePreview, MergeReport
from butlers.memory.flows.forget import Forgotten
from butlers.memory.flows.lifecycle.episode_retention import CleanupReport
from butlers.memory.flows.recall import Recalled
from butlers.memory.flows.results import StoredEpisode, StoredFact, StoredRule
from butlers.memory.flows.undo_entities import Parted
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.policy.states import TimelineCounts
from butlers.operation import Operation

WIRE_FIELDS: dict[str, str]

def offered() -> list[Operation]: ...
def signature_of(operation: Operation) -> Signature: ...

@dataclass(frozen=True)
class Methods:
    handle: Memory
    lineage: Lineage
    async def store_episode(
        self,
        content: str,
        *,
        butler: str | None = ...,
        importance: float = ...,
        metadata: Mapping[str, Any] | None = ...,
        idempotency_key: str | None = ...,
        origin: str | None = ...,
        session_id: str | UUID | None = ...,
        place: int | None = ...,
        author: str | None = ...,
        said_at: datetime | None = ...,
    ) -> StoredEpisode: ...
    async def store_fact(
        self,
        subject: str,
        predicate: str,
        content: str,
        *,
        importance: float = ...,
        permanence: str = ...,
        scope: str = ...,
        tags: Sequence[str] | None = ...,
        entity_id: str | UUID | None = ...,
        source_episode_id: str | UUID | None = ...,
        depends_on: Sequence[str] | None = ...,
        valid_from: datetime | None = ...,
        valid_to: datetime | None = ...,
        metadata: Mapping[str, Any] | None = ...,
        idempotency_key: str | None = ...,
        origin: str | None = ...,
        session_id: str | UUID | None = ...,
        place: int | None = ...,
        author: str | None = ...,
        said_at: datetime | None = ...,
    ) -> StoredFact: ...
    async def store_rule(
        self,
        content: str,
        *,
        scope: str = ...,
        tags: Sequence[str] | None = ...,
        source_episode_id: str | UUID | None = ...,
        depends_on: Sequence[str] | None = ...,
        metadata: Mapping[str, Any] | None = ...,
        idempotency_key: str | None = ...,
        origin: str | None = ...,
    ) -> StoredRule: ...
    async def correct(
        self,
        fact_id: str | UUID,
        content: str,
        *,
        importance: float | None = ...,
        permanence: str | None = ...,
    ) -> StoredFact: ...
    async def undo_correction(
        self,
        fact_id: str | UUID,
    ) -> StoredFact: ...
    async def store_batch(
        self,
        memories: Sequence[Mapping[str, Any]],
    ) -> StoredBatch: ...
    async def search(
        self,
        query: str,
        *,
        types: Sequence[str] | None = ...,
        scope: str | None = ...,
        mode: str | None = ...,
        limit: int = ...,
        min_confidence: float | None = ...,
        min_relevance: float = ...,
        as_of: datetime | None = ...,
        known_at: datetime | None = ...,
    ) -> list[dict[str, Any]]: ...
    async def recall(
        self,
        topic: str,
        *,
        scope: str | None = ...,
        limit: int = ...,
        types: Sequence[str] | None = ...,
        counted: bool = ...,
        nearest: bool = ...,
        as_of: datetime | None = ...,
        known_at: datetime | None = ...,
    ) -> list[Recalled]: ...
    async def get(
        self,
        memory_id: str | UUID,
        memory_type: str | None = ...,
    ) -> dict[str, Any] | None: ...
    async def look_up(
        self,
        subject: str,
        predicate: str,
        *,
        scope: str = ...,
        entity_id: str | UUID | None = ...,
    ) -> dict[str, Any] | None: ...
    async def context(
        self,
        trigger_prompt: str,
        *,
        butler: str | None = ...,
        token_budget: int | None = ...,
        opening: bool = ...,
        as_of: datetime | None = ...,
        known_at: datetime | None = ...,
    ) -> Context: ...
    async def preview_context(
        self,
        trigger_prompt: str,
        *,
        butler: str | None = ...,
        token_budget: int | None = ...,
        opening: bool = ...,
        as_of: datetime | None = ...,
        known_at: datetime | None = ...,
    ) -> dict[str, Any]: ...
    async def history(
        self,
        memory_id: str | UUID,
    ) -> list[dict[str, Any]]: ...
    async def explain(
        self,
        memory_id: str | UUID,
        memory_type: str | None = ...,
        *,
        as_of: datetime | None = ...,
        known_at: datetime | None = ...,
    ) -> dict[str, Any] | None: ...
    async def confirm(
        self,
        memory_id: str | UUID,
        memory_type: str | None = ...,
    ) -> bool: ...
    async def mark_helpful(
        self,
        rule_id: str | UUID,
        context: Mapping[str, Any] | None = ...,
    ) -> dict[str, Any]: ...
    async def mark_harmful(
        self,
        rule_id: str | UUID,
        reason: str | None = ...,
        context: Mapping[str, Any] | None = ...,
    ) -> dict[str, Any]: ...
    async def forget(
        self,
        memory_id: str | UUID,
        memory_type: str | None = ...,
        *,
        with_sources: bool = ...,
    ) -> Forgotten: ...
    async def restore(
        self,
        memory_id: str | UUID,
        memory_type: str | None = ...,
    ) -> bool: ...
    async def create_link(
        self,
        source_id: str | UUID,
        relation: str,
        target_id: str | UUID,
    ) -> bool: ...
    async def get_links(
        self,
        memory_id: str | UUID,
        direction: str = ...,
        *,
        memory_type: str | None = ...,
    ) -> list[dict[str, Any]]: ...
    async def list_facts(
        self,
        *,
        state: str | None = ...,
        scope: str | None = ...,
        permanence: str | None = ...,
        subject: str | None = ...,
        predicate: str | None = ...,
        tag: str | None = ...,
        entity_id: str | UUID | None = ...,
        as_of: datetime | None = ...,
        known_at: datetime | None = ...,
        limit: int = ...,
        cursor: str | None = ...,
        created_after: datetime | None = ...,
        created_before: datetime | None = ...,
    ) -> Page: ...
    async def list_rules(
        self,
        *,
        state: str | None = ...,
        scope: str | None = ...,
        maturity: str | None = ...,
        tag: str | None = ...,
        limit: int = ...,
        cursor: str | None = ...,
        created_after: datetime | None = ...,
        created_before: datetime | None = ...,
    ) -> Page: ...
    async def list_episodes(
        self,
        *,
        state: str | None = ...,
        status: str | None = ...,
        butler: str | None = ...,
        session_id: str | UUID | None = ...,
        limit: int = ...,
        cursor: str | None = ...,
        created_after: datetime | None = ...,
        created_before: datetime | None = ...,
    ) -> Page: ...
    async def list_entities(
        self,
        *,
        state: str | None = ...,
        entity_type: str | None = ...,
        name: str | None = ...,
        limit: int = ...,
        cursor: str | None = ...,
        created_after: datetime | None = ...,
        created_before: datetime | None = ...,
    ) -> Page: ...
    async def activity(
        self,
        *,
        limit: int = ...,
        cursor: UUID | None = ...,
        after: UUID | None = ...,
    ) -> Page: ...
    async def stats(
        self,
        scope: str | None = ...,
    ) -> dict[str, Any]: ...
    async def overview(
        self,
        *,
        events: int = ...,
    ) -> dict[str, Any]: ...
    async def timeline(
        self,
        *,
        days: int = ...,
    ) -> TimelineCounts: ...
    async def create_entity(
        self,
        canonical_name: str,
        entity_type: str = ...,
        *,
        aliases: Sequence[str] | None = ...,
        metadata: Mapping[str, Any] | None = ...,
    ) -> UUID: ...
    async def get_entity(
        self,
        entity_id: str | UUID,
    ) -> dict[str, Any] | None: ...
    async def explain_entity(
        self,
        entity_id: str | UUID,
    ) -> dict[str, Any] | None: ...
    async def update_entity(
        self,
        entity_id: str | UUID,
        *,
        canonical_name: str | None = ...,
        aliases: Sequence[str] | None = ...,
        metadata: Mapping[str, Any] | None = ...,
    ) -> dict[str, Any]: ...
    async def resolve_entity(
        self,
        name: str,
        *,
        entity_type: str | None = ...,
        context_hints: Mapping[str, Any] | None = ...,
        enable_fuzzy: bool = ...,
    ) -> list[dict[str, Any]]: ...
    async def merge_entities(
        self,
        source_entity_id: str | UUID,
        target_entity_id: str | UUID,
    ) -> MergeReport: ...
    async def unmerge_entities(
        self,
        entity_id: str | UUID,
    ) -> Parted: ...
    async def preview_merge(
        self,
        source_entity_id: str | UUID,
        target_entity_id: str | UUID,
    ) -> MergePreview: ...
    async def run_consolidation(
        self,
    ) -> ConsolidationReport: ...
    async def run_episode_cleanup(
        self,
        *,
        max_entries: int | None = ...,
    ) -> CleanupReport: ...
    async def dead_letters(
        self,
        *,
        limit: int = ...,
    ) -> list[dict[str, Any]]: ...
    async def requeue(
        self,
        episode_ids: Sequence[str | UUID] | None = ...,
    ) -> int: ...
    async def removed_episodes(
        self,
        *,
        limit: int = ...,
    ) -> list[dict[str, Any]]: ...
    async def embedding_models(
        self,
    ) -> list[dict[str, Any]]: ...
    async def reembed(
        self,
        *,
        to: Path | None = ...,
        bundled: bool = ...,
        revert: bool = ...,
        discard: bool = ...,
    ) -> list[dict[str, Any]]: ...
    async def verify_events(
        self,
        *,
        since_head: str | None = ...,
    ) -> dict[str, Any]: ...
    async def claim_episodes(
        self,
        *,
        limit: int = ...,
    ) -> EpisodeClaim: ...
    async def submit_consolidation(
        self,
        claim_id: str | UUID,
        answer: Mapping[str, Any],
    ) -> ConsolidationReport: ...
    async def list_proposals(
        self,
        *,
        limit: int = ...,
    ) -> list[dict[str, Any]]: ...
    async def accept_proposal(
        self,
        proposal_id: str | UUID,
    ) -> dict[str, Any]: ...
    async def decline_proposal(
        self,
        proposal_id: str | UUID,
    ) -> bool: ...
    async def list_projects(
        self,
    ) -> list[dict[str, Any]]: ...
    async def show_project(
        self,
        project: str,
    ) -> dict[str, Any]: ...
    async def share_project(
        self,
        project: str,
        *,
        off: bool = ...,
    ) -> dict[str, Any]: ...
    async def move_project(
        self,
        project: str,
        to: str,
    ) -> dict[str, Any]: ...
    async def list_doubts(
        self,
        *,
        limit: int = ...,
    ) -> list[dict[str, Any]]: ...
    async def keep(
        self,
        memory_id: str | UUID,
        memory_type: str | None = ...,
    ) -> bool: ...
    async def list_conflicts(
        self,
        *,
        limit: int = ...,
        cursor: str | None = ...,
    ) -> Page: ...
    async def settle_conflict(
        self,
        conflict_id: str | UUID,
        holds: str,
        *,
        since: datetime | None = ...,
    ) -> dict[str, Any]: ...
    async def tell_predicate(
        self,
        predicate: str,
        holds: str,
    ) -> dict[str, Any]: ...
    async def list_predicates(
        self,
    ) -> list[dict[str, Any]]: ...
    async def list_decisions(
        self,
        *,
        project: str | None = ...,
        limit: int = ...,
    ) -> list[dict[str, Any]]: ...
    async def restore_decision(
        self,
        memory_id: str | UUID,
    ) -> bool: ...
    async def retire_decision(
        self,
        memory_id: str | UUID,
        *,
        by: str | None = ...,
    ) -> bool: ...
    async def list_inbox(
        self,
        *,
        kind: str | None = ...,
        limit: int = ...,
    ) -> list[dict[str, Any]]: ...
