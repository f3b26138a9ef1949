"""Tools about entities: who and what facts are about."""

from dataclasses import asdict
from typing import Any

from butlers.modules.memory.flows import entities, entity_merge, entity_resolution
from butlers.modules.memory.policy.inputs import checked_id
from butlers.modules.memory.policy.presentation import as_json
from butlers.modules.memory.tools.calling import Desk, RequestContext, traced


class EntityTools:
    """Creating, reading, changing, resolving and merging entities."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def entity_create(
        self,
        canonical_name: str,
        entity_type: str,
        tenant_id: str,
        aliases: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        request_context: RequestContext = None,
    ) -> dict[str, Any]:
        """Create an entity: a person, organization, place or other thing that facts are about.

        Call entity_resolve first; create only what is not there. tenant_id must be your own.
        aliases: other names it goes by. Returns {entity_id}.
        """
        self._desk.refuse_other_tenant(tenant_id)
        lineage = self._desk.lineage(request_context)
        created = await entities.create_entity(
            self._desk.memory(), canonical_name, entity_type, aliases, metadata, lineage
        )
        return traced({"entity_id": str(created)}, lineage)

    async def entity_get(
        self,
        entity_id: str,
        tenant_id: str | None = None,
        request_context: RequestContext = None,
    ) -> dict[str, Any] | None:
        """Read an entity by its id. Returns it, or null; a merged one names merged_into."""
        self._desk.refuse_other_tenant(tenant_id)
        lineage = self._desk.lineage(request_context)
        wanted = checked_id("entity_id", entity_id)
        found = await entities.get_entity(self._desk.memory(), wanted, lineage)
        return traced(found, lineage) if found else None

    async def entity_update(
        self,
        entity_id: str,
        canonical_name: str | None = None,
        aliases: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        tenant_id: str | None = None,
        request_context: RequestContext = None,
    ) -> dict[str, Any]:
        """Change an entity. canonical_name replaces the name, aliases replaces the whole list,
        metadata is merged key by key. Returns the entity as it is now."""
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
        return traced(changed, lineage)

    async def entity_resolve(
        self,
        name: str,
        tenant_id: str = "default",
        entity_type: str | None = None,
        context_hints: dict[str, Any] | None = None,
        enable_fuzzy: bool = False,
        request_context: RequestContext = None,
    ) -> list[dict[str, Any]]:
        """Find out which entity a name means. Nothing is created.

        context_hints may hold topic (text), mentioned_with (names) and domain_scores
        ({entity_id: number}) to tell namesakes apart; enable_fuzzy forgives misspelling.
        Returns candidates, best first: entity_id, canonical_name, entity_type, score,
        name_match (exact, alias, prefix, fuzzy), aliases. Empty means: not known.
        """
        if tenant_id != "default":
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
        return [traced(one, lineage) for one in found]

    async def entity_merge(
        self,
        source_entity_id: str,
        target_entity_id: str,
        tenant_id: str | None = None,
        request_context: RequestContext = None,
    ) -> dict[str, Any]:
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
        return traced(as_json(asdict(report)), lineage)
