"""Tools about entities: who and what facts are about."""

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from butlers.memory.flows import entities, entity_merge, entity_resolution
from butlers.memory.model import EntityType
from butlers.memory.policy.inputs import checked_id
from butlers.memory.policy.presentation import as_json
from butlers.memory.tools.calling import Desk
from butlers.memory.tools.parameters import (
    Aliases,
    EntityId,
    EntityKind,
    Fuzzy,
    Metadata,
    Name,
    NewName,
    OwnTenant,
    OwnTenantId,
    RequestContext,
    SoughtName,
)
from butlers.memory.tools.results import (
    EntitiesMerged,
    Entity,
    EntityCandidate,
    EntityCreated,
)

Hints = Annotated[
    dict[str, Any] | None,
    Field(
        description="What tells namesakes apart: topic (text), mentioned_with (names), "
        "domain_scores ({entity_id: number})."
    ),
]
KindSought = Annotated[
    str | None,
    Field(
        description="Only entities of this type.",
        json_schema_extra={"enum": [*EntityType, None]},
    ),
]


class EntityTools:
    """Creating, reading, changing, resolving and merging entities."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def entity_create(
        self,
        canonical_name: Name,
        entity_type: EntityKind,
        tenant_id: Annotated[str, Field(description="Your own tenant; any other is refused.")],
        aliases: Aliases = None,
        metadata: Metadata = None,
        request_context: RequestContext = None,
    ) -> EntityCreated:
        """Create an entity: a person, organization, place or other thing that facts are about.

        Call entity_resolve first and create only what is not there; a second one of the same type
        and name is refused, naming the first. A wrong tenant_id is refused, naming your own.
        Returns {entity_id}, for memory_store_fact.
        """
        self._desk.refuse_other_tenant(tenant_id)
        lineage = self._desk.lineage(request_context)
        created = await entities.create_entity(
            self._desk.memory(), canonical_name, entity_type, aliases, metadata, lineage
        )
        return EntityCreated(entity_id=str(created))

    async def entity_get(
        self,
        entity_id: EntityId,
        tenant_id: OwnTenantId = None,
        request_context: RequestContext = None,
    ) -> Entity | None:
        """Read an entity by its id.

        Returns it with its names and metadata, or null if you have none of that id. One that was
        merged into another says so in metadata.merged_into: use that other one.
        """
        self._desk.refuse_other_tenant(tenant_id)
        lineage = self._desk.lineage(request_context)
        wanted = checked_id("entity_id", entity_id)
        found = await entities.get_entity(self._desk.memory(), wanted, lineage)
        return Entity.model_validate(as_json(found)) if found else None

    async def entity_update(
        self,
        entity_id: EntityId,
        canonical_name: NewName = None,
        aliases: Aliases = None,
        metadata: Metadata = None,
        tenant_id: OwnTenantId = None,
        request_context: RequestContext = None,
    ) -> Entity:
        """Change an entity's names or metadata.

        canonical_name replaces the name, aliases replaces the whole list, metadata is merged key
        by key; what is left out stays. Returns the entity as it is now.
        """
        self._desk.refuse_other_tenant(tenant_id)
        lineage = self._desk.lineage(request_context)
        changed = await entities.update_entity(
            self._desk.memory(),
            checked_id("entity_id", entity_id),
            lineage,
            canonical_name=canonical_name,
            aliases=aliases,
            metadata=metadata,
        )
        return Entity.model_validate(as_json(changed))

    async def entity_resolve(
        self,
        name: SoughtName,
        tenant_id: Annotated[
            str, Field(description="Your own tenant, which leaving it out means too.")
        ] = OwnTenant("default"),
        entity_type: KindSought = None,
        context_hints: Hints = None,
        enable_fuzzy: Fuzzy = False,
        request_context: RequestContext = None,
    ) -> list[EntityCandidate]:
        """Find out which entity a name means. Nothing is created.

        Use it before storing a fact about somebody or something that has a name; give
        context_hints where there may be namesakes.
        Returns candidates, best first: entity_id, canonical_name, entity_type, score,
        name_match (exact, alias, prefix, fuzzy), aliases. Empty means: not known.
        """
        self._desk.refuse_other_tenant(tenant_id)
        lineage = self._desk.lineage(request_context)
        found = await entity_resolution.resolve_entity(
            self._desk.memory(),
            name,
            lineage,
            entity_type=entity_type,
            context_hints=context_hints,
            enable_fuzzy=enable_fuzzy,
        )
        return [EntityCandidate.model_validate(one) for one in found]

    async def entity_merge(
        self,
        source_entity_id: EntityId,
        target_entity_id: EntityId,
        tenant_id: OwnTenantId = None,
        request_context: RequestContext = None,
    ) -> EntitiesMerged:
        """Merge two entities that are one: the source's facts and names go to the target.

        Where both have a fact under one key, the more confident stays. It cannot be undone.
        Returns {source_entity_id, target_entity_id, facts_repointed, facts_superseded,
        aliases_added}.
        """
        self._desk.refuse_other_tenant(tenant_id)
        lineage = self._desk.lineage(request_context)
        report = await entity_merge.merge_entities(
            self._desk.memory(),
            checked_id("source_entity_id", source_entity_id),
            checked_id("target_entity_id", target_entity_id),
            lineage,
        )
        return EntitiesMerged.model_validate(asdict(report))
