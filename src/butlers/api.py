"""A butler's memory for Python programs: the same flows that the MCP tools lead to.

    async with open_memory("general") as memory:
        await memory.store_fact("Ann", "allergy", "peanuts; carries an EpiPen")
        for found in await memory.recall("what must Ann not eat?"):
            print(found.row["content"], found.composite_score, found.parts)
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import structlog

from butlers.errors import NotFound, Unavailable
from butlers.host.home import FIRST_BUTLER, Home
from butlers.host.opening import opened_butler
from butlers.host.tokens import validate_tenant
from butlers.modules.memory.flows import (
    context,
    entities,
    entity_merge,
    entity_resolution,
    feedback,
    forget,
    history,
    links,
    lookup,
    recall,
    remember,
    stats,
)
from butlers.modules.memory.flows.context import Context
from butlers.modules.memory.flows.entity_merge import MergeReport
from butlers.modules.memory.flows.recall import Recalled
from butlers.modules.memory.memory import Memory
from butlers.modules.memory.model import (
    Lineage,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
    SearchMode,
    StoredEpisode,
    StoredFact,
    StoredRule,
)
from butlers.modules.memory.module import MemoryModule
from butlers.modules.memory.policy.inputs import checked_id, checked_word

__all__ = [
    "ButlerMemory",
    "Context",
    "MergeReport",
    "Recalled",
    "StoredEpisode",
    "StoredFact",
    "StoredRule",
    "open_memory",
]


@asynccontextmanager
async def open_memory(
    butler: str = FIRST_BUTLER,
    *,
    home: str | Path | None = None,
    tenant: str | None = None,
    actor: str = "python",
) -> AsyncIterator["ButlerMemory"]:
    """A butler's memory, open within the block; a running daemon serves on beside it.

    Without `home` it is `$BUTLERS_HOME` or `~/.butlers`; an empty home gets its first butler,
    `general`. Without `tenant` it is the one that butler.toml names. `actor` is who the audit
    stream says it was.
    """
    _leave_logging_to_the_program()
    place = Home.locate(None if home is None else Path(home))
    if butler == FIRST_BUTLER and not place.butler_names():
        place.ensure_general()
    async with opened_butler(place, butler) as opened:
        module = opened.module(MemoryModule.name)
        if not isinstance(module, MemoryModule):
            raise Unavailable(f"the memory of butler {butler} is not of this product")
        acting = validate_tenant(opened.settings.butler.tenant if tenant is None else tenant)
        yield ButlerMemory(module.memory, Lineage(acting, actor))


@dataclass(frozen=True, slots=True)
class ButlerMemory:
    """One butler's memory as one tenant has it.

    Ids may be given as UUID, as text, or as the beginning of one (six digits or more). A fault in
    what is given is an InvalidInput that names field, value and what is valid.
    """

    handle: Memory
    lineage: Lineage

    def for_request(self, request_id: str) -> Self:
        """The same memory; what is done through it carries this request's id in the audit."""
        return replace(self, lineage=replace(self.lineage, request_id=request_id))

    async def store_episode(
        self,
        content: str,
        *,
        importance: float = 5.0,
        session_id: str | UUID | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> StoredEpisode:
        """Store what happened; it expires after the configured days."""
        session = None if session_id is None else checked_id("session_id", session_id)
        new = NewEpisode(
            content, self.handle.butler, session, importance, dict(metadata or {}), idempotency_key
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
        entity_id: str | UUID | None = None,
        source_episode_id: str | UUID | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> StoredFact:
        """Store what is true; an active fact of the same scope, subject and predicate gives way.

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
            entity_id=None if entity_id is None else checked_id("entity_id", entity_id),
            source_butler=self.handle.butler,
            source_episode_id=_episode(source_episode_id),
            metadata=dict(metadata or {}),
            idempotency_key=idempotency_key,
        )
        return await remember.store_fact(self.handle, new, self.lineage)

    async def store_rule(
        self,
        content: str,
        *,
        scope: str = "global",
        tags: Sequence[str] = (),
        source_episode_id: str | UUID | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> StoredRule:
        """Store how to behave; every rule starts as a candidate."""
        new = NewRule(
            content,
            scope,
            tuple(tags),
            self.handle.butler,
            _episode(source_episode_id),
            dict(metadata or {}),
            idempotency_key,
        )
        return await remember.store_rule(self.handle, new, self.lineage)
