"""Remembering what happened, what is true and how to behave."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from butlers.doors.python.acting import Acting, Id
from butlers.memory.flows import remember
from butlers.memory.model import (
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
    StoredEpisode,
    StoredFact,
    StoredRule,
)
from butlers.memory.policy.inputs import checked_id, checked_word


class Writing(Acting):
    """Storing; what was stored under an `idempotency_key` before is not stored again."""

    __slots__ = ()

    async def store_episode(
        self,
        content: str,
        *,
        importance: float = 5.0,
        session_id: Id | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> StoredEpisode:
        """Store what happened; it expires after the configured days."""
        new = NewEpisode(
            content,
            self.handle.butler,
            _id("session_id", session_id),
            importance,
            dict(metadata or {}),
            idempotency_key,
        )
        return await remember.store_episode(self.handle, new, self.lineage)

    async def store_fact(  # noqa: PLR0913  one for each field a caller may fill in
        self,
        subject: str,
        predicate: str,
        content: str,
        *,
        importance: float = 5.0,
        permanence: str = "standard",
        scope: str = "global",
        tags: Sequence[str] = (),
        entity_id: Id | None = None,
        source_episode_id: Id | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> StoredFact:
        """Store what is true; the fact it corrects, of the same key, gives way to it.

        The key is scope, predicate and subject, or the entity in place of the subject.
        `permanence` is permanent, stable, standard, volatile or ephemeral.
        """
        new = NewFact(
            subject,
            predicate,
            content,
            importance=importance,
            permanence=checked_word("permanence", permanence, Permanence),
            scope=scope,
            tags=tuple(tags),
            entity_id=_id("entity_id", entity_id),
            source_butler=self.handle.butler,
            source_episode_id=_id("source_episode_id", source_episode_id),
            metadata=dict(metadata or {}),
            idempotency_key=idempotency_key,
        )
        return await remember.store_fact(self.handle, new, self.lineage)

    async def store_rule(  # noqa: PLR0913  one for each field a caller may fill in
        self,
        content: str,
        *,
        scope: str = "global",
        tags: Sequence[str] = (),
        source_episode_id: Id | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> StoredRule:
        """Store how to behave; every rule starts as a candidate."""
        new = NewRule(
            content,
            scope,
            tuple(tags),
            self.handle.butler,
            _id("source_episode_id", source_episode_id),
            dict(metadata or {}),
            idempotency_key,
        )
        return await remember.store_rule(self.handle, new, self.lineage)


def _id(field: str, given: Id | None) -> UUID | None:
    return None if given is None else checked_id(field, given)
