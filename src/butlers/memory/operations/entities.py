"""Who and what facts are about."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from butlers.memory.flows import detail, entities, entity_merge, entity_resolution
from butlers.memory.flows.entity_merge import MergePreview, MergeReport
from butlers.memory.flows.undo_entities import Parted
from butlers.memory.model import EntityType, EventSubject
from butlers.memory.operations import entity_results as answers
from butlers.memory.operations import fields
from butlers.memory.operations.context import OperationContext
from butlers.memory.operations.pages import EntityDetail
from butlers.memory.operations.table import OPERATIONS
from butlers.operation import Input, OperationEffect, Route, Toolset


class CreateEntity(Input):
    """Who or what."""

    canonical_name: fields.Name
    """What it is called in full."""
    entity_type: fields.EntityKind = EntityType.OTHER
    """What the entity is: person, organization, place or other."""
    aliases: fields.Aliases = None
    metadata: fields.Document | None = None
    """Anything else to keep about it, as a JSON object."""


@OPERATIONS.add(
    answers=answers.EntityCreated,
    effect=OperationEffect.WRITES,
    tool="entity_create",
    toolset=Toolset.STANDARD,
    tool_needs=("entity_type",),
    tool_tenant="required",
    command="entity create",
    also_by_place=("entity_type",),
    example='entity create "Jonas Weber" --entity-type person --alias Jo',
    routes=(Route("POST", "/entities", 201),),
)
async def create_entity(desk: OperationContext, asked: CreateEntity) -> UUID:
    """Create an entity: a person, organization, place or other thing that facts are about.

    Call entity_resolve first and create only what is not there; a second one of the same type
    and name is refused, naming the first.
    Returns {entity_id}, for memory_store_fact.
    """
    return await entities.create_entity(
        desk.memory,
        asked.canonical_name,
        asked.entity_type,
        asked.aliases,
        asked.metadata,
        desk.lineage,
    )


class OneEntity(Input):
    """One entity, by its id."""

    entity_id: fields.EntityId


@OPERATIONS.add(
    answers=answers.Entity,
    tool="entity_get",
    toolset=Toolset.STANDARD,
    tool_tenant="optional",
    command="entity get",
    example="entity get 5b7d10aa",
    routes=(Route("GET", "/entities/{entity_id}/names"),),
)
async def get_entity(desk: OperationContext, asked: OneEntity) -> dict[str, Any] | None:
    """Read an entity by its id.

    Returns it with its names and metadata, or null if you have none of that id. One that was
    merged into another says so in metadata.merged_into: use that other one.
    """
    entity_id = await desk.known_id("entity_id", asked.entity_id, EventSubject.ENTITY)
    return await entities.get_entity(desk.memory, entity_id, desk.lineage)


@OPERATIONS.add(
    answers=EntityDetail,
    tool="entity_explain",
    tool_tenant="optional",
    command="entity explain",
    example="entity explain 5b7d10aa",
    routes=(Route("GET", "/entities/{entity_id}"),),
)
async def explain_entity(desk: OperationContext, asked: OneEntity) -> dict[str, Any] | None:
    """Read an entity with the newest facts about it, past ones included, and its events.

    Returns {entity, facts, more_facts, events}, or null if you have none of that id.
    """
    entity_id = await desk.known_id("entity_id", asked.entity_id, EventSubject.ENTITY)
    return await detail.entity_detail(desk.memory, entity_id, desk.lineage)


class UpdateEntity(OneEntity):
    """What changes; what is left out stays."""

    canonical_name: fields.Name | None = None
    """What it is called from now on."""
    aliases: fields.Aliases = None
    metadata: fields.Document | None = None
    """Keys to add or replace, as a JSON object."""


@OPERATIONS.add(
    answers=answers.Entity,
    effect=OperationEffect.WRITES,
    tool="entity_update",
    toolset=Toolset.STANDARD,
    tool_tenant="optional",
    command="entity update",
    example="entity update 5b7d10aa --alias Jo --alias J.",
    routes=(Route("PATCH", "/entities/{entity_id}"),),
)
async def update_entity(desk: OperationContext, asked: UpdateEntity) -> dict[str, Any]:
    """Change an entity's names or metadata.

    canonical_name replaces the name, aliases replaces the whole list, metadata is merged key
    by key; what is left out stays. Returns the entity as it is now.
    """
    return await entities.update_entity(
        desk.memory,
        await desk.known_id("entity_id", asked.entity_id, EventSubject.ENTITY),
        desk.lineage,
        canonical_name=asked.canonical_name,
        aliases=asked.aliases,
        metadata=asked.metadata,
    )


class ResolveEntity(Input):
    """A name, and what tells namesakes apart."""

    name: fields.Name
    """The name as you heard it; case does not matter."""
    entity_type: fields.EntityKind | None = None
    """Only entities of this type."""
    context_hints: fields.Document | None = None
    """What tells namesakes apart: topic (text), mentioned_with (names), domain_scores
    ({entity_id: number})."""
    enable_fuzzy: bool = False
    """Whether to forgive misspelling."""


@OPERATIONS.add(
    answers=list[answers.EntityCandidate],
    tool="entity_resolve",
    toolset=Toolset.STANDARD,
    tool_tenant="default",
    command="entity resolve",
    example="entity resolve jo --entity-type person",
    routes=(Route("POST", "/entities/resolve"),),
)
async def resolve_entity(desk: OperationContext, asked: ResolveEntity) -> list[dict[str, Any]]:
    """Find out which entity a name means. Nothing is created.

    Use it before storing a fact about somebody or something that has a name; give
    context_hints where there may be namesakes.
    Returns candidates, best first: entity_id, canonical_name, entity_type, score,
    name_match (exact, alias, prefix, fuzzy), aliases. Empty means: not known.
    """
    return await entity_resolution.resolve_entity(
        desk.memory,
        asked.name,
        desk.lineage,
        entity_type=asked.entity_type,
        context_hints=asked.context_hints,
        enable_fuzzy=asked.enable_fuzzy,
    )


class MergeEntities(Input):
    """Which entity becomes part of which."""

    source_entity_id: Annotated[fields.EntityId, Field(description="The one that goes.")]
    target_entity_id: Annotated[fields.EntityId, Field(description="The one that stays.")]


@OPERATIONS.add(
    answers=answers.EntitiesMerged,
    effect=OperationEffect.WRITES,
    tool="entity_merge",
    toolset=Toolset.STANDARD,
    tool_tenant="optional",
    command="entity merge",
    example="entity merge 5b7d10aa 80e1b2c4",
    routes=(Route("POST", "/entities/merge"),),
)
async def merge_entities(desk: OperationContext, asked: MergeEntities) -> MergeReport:
    """Merge two entities that are one: the source's facts and names go to the target.

    Where both have a fact under one key at the same time, the one more confident now stays.
    Returns {source_entity_id, target_entity_id, facts_repointed, facts_superseded,
    aliases_added}.
    """
    pair = await _pair(desk, asked)
    return await entity_merge.merge_entities(desk.memory, *pair, desk.lineage)


@OPERATIONS.add(
    answers=answers.EntitiesParted,
    effect=OperationEffect.WRITES,
    command="entity unmerge",
    left_out={"mcp": "an agent is offered the merge and its preview; parting is a person's"},
    example="entity unmerge 5b7d10aa",
    routes=(Route("POST", "/entities/{entity_id}/unmerge"),),
)
async def unmerge_entities(desk: OperationContext, asked: OneEntity) -> Parted:
    """Take back the last merge of an entity: of the one that went, or into the one that stayed.

    Facts, names and metadata that the merge moved go back, and facts that gave way in it hold
    again. What was stored about the target since stays with it.
    Returns {source_entity_id, target_entity_id, facts_returned, facts_restored, facts_left};
    facts_left gave way and stay so, since another took their key.
    """
    entity_id = await desk.known_id("entity_id", asked.entity_id, EventSubject.ENTITY)
    return await entity_merge.unmerge_entities(desk.memory, entity_id, desk.lineage)


@OPERATIONS.add(
    answers=answers.MergePreviewed,
    tool="entity_preview_merge",
    tool_tenant="optional",
    command="entity preview-merge",
    example="entity preview-merge 5b7d10aa 80e1b2c4",
    routes=(Route("GET", "/entities/merge"),),
)
async def preview_merge(desk: OperationContext, asked: MergeEntities) -> MergePreview:
    """Tell what merging two entities would do now; nothing changes.

    Returns what merging would, and the facts: rivalries, each {stays, gives_way, why}, and those
    repointed, a hundred of each at most.
    """
    return await entity_merge.preview_merge(desk.memory, *await _pair(desk, asked), desk.lineage)


async def _pair(desk: OperationContext, asked: MergeEntities) -> tuple[UUID, UUID]:
    kind = EventSubject.ENTITY
    return (
        await desk.known_id("source_entity_id", asked.source_entity_id, kind),
        await desk.known_id("target_entity_id", asked.target_entity_id, kind),
    )
