"""Who and what facts are about."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from butlers.doors.python.acting import Acting, Id
from butlers.memory.flows import entities, entity_merge, entity_resolution
from butlers.memory.flows.entity_merge import MergeReport
from butlers.memory.policy.inputs import checked_id


class Entities(Acting):
    """People, organizations, places and other things that have names."""

    __slots__ = ()

    async def create_entity(
        self,
        canonical_name: str,
        entity_type: str = "other",
        *,
        aliases: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> UUID:
        """The id of a new person, organization, place or other; a Conflict where it exists."""
        return await entities.create_entity(
            self.handle, canonical_name, entity_type, aliases, metadata, self.lineage
        )

    async def get_entity(self, entity_id: Id) -> dict[str, Any] | None:
        """An entity, or None; one that was merged away says `merged_into` in its metadata."""
        wanted = checked_id("entity_id", entity_id)
        return await entities.get_entity(self.handle, wanted, self.lineage)

    async def update_entity(
        self,
        entity_id: Id,
        *,
        canonical_name: str | None = None,
        aliases: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The entity as it is now: names are replaced, metadata is merged key by key."""
        return await entities.update_entity(
            self.handle,
            checked_id("entity_id", entity_id),
            self.lineage,
            canonical_name=canonical_name,
            aliases=aliases,
            metadata=metadata,
        )

    async def resolve_entity(
        self,
        name: str,
        *,
        entity_type: str | None = None,
        context_hints: Mapping[str, Any] | None = None,
        enable_fuzzy: bool = False,
    ) -> list[dict[str, Any]]:
        """The entities a name may mean, the likeliest first; none is created."""
        return await entity_resolution.resolve_entity(
            self.handle,
            name,
            self.lineage,
            entity_type=entity_type,
            context_hints=context_hints,
            enable_fuzzy=enable_fuzzy,
        )

    async def merge_entities(self, source_id: Id, target_id: Id) -> MergeReport:
        """Make the source part of the target, with its facts and names."""
        return await entity_merge.merge_entities(
            self.handle,
            checked_id("source_id", source_id),
            checked_id("target_id", target_id),
            self.lineage,
        )
