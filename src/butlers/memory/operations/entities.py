"""Operations on entities: who and what facts are about."""

from typing import Any
from uuid import UUID

from butlers.memory.flows import entities, entity_merge, entity_resolution, lookup
from butlers.memory.flows.undo_entities import Parted
from butlers.memory.model import EntityType, EventSubject
from butlers.memory.operations import input_fields, page_results
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext, writes
from butlers.memory.operations.results import report, single
from butlers.operation import Input, Route, Toolset


class CreateEntity(Input):
    """A new entity."""

    canonical_name: input_fields.Name
    """The full name."""
    entity_type: input_fields.EntityKind = EntityType.OTHER
    """The type: person, organization, place or other."""
    aliases: input_fields.Aliases = None
    metadata: input_fields.Document | None = None
    """Anything else to keep about it, as a JSON object."""


@writes(
    output=single("entity_id", "The entity that was created.", UUID),
    tool="entity_create",
    toolset=Toolset.STANDARD,
    tool_needs=("entity_type",),
    tool_tenant="required",
    command="entity create",
    positional=("entity_type",),
    example='entity create "Jonas Weber" --entity-type person --alias Jo',
    routes=(Route("POST", "/entities", 201),),
)
async def create_entity(ctx: OperationContext, params: CreateEntity) -> UUID:
    """Create an entity: a person, organization, place or other thing that facts are about.

    Call entity_resolve first and create only what is missing. A second entity of the same type
    and name is refused; the error names the first. Returns {entity_id}, for memory_store_fact.
    """
    given = (params.canonical_name, params.entity_type, params.aliases, params.metadata)
    return await entities.create_entity(ctx.memory, *given, ctx.lineage)


class OneEntity(Input):
    """One entity, by its id."""

    entity_id: input_fields.EntityId


@OPERATIONS.add(
    output=page_results.Entity,
    tool="entity_get",
    toolset=Toolset.STANDARD,
    tool_tenant="optional",
    command="entity show",
    example="entity show 5b7d10aa",
    routes=(Route("GET", "/entities/{entity_id}/names"),),
)
async def get_entity(ctx: OperationContext, params: OneEntity) -> dict[str, Any] | None:
    """Read an entity by its id.

    Returns its names and metadata, or null if there is none. If metadata.merged_into is set, the
    entity was merged into that one: use it instead.
    """
    entity_id = await ctx.known_id("entity_id", params.entity_id, EventSubject.ENTITY)
    return await entities.get_entity(ctx.memory, entity_id, ctx.lineage)


@OPERATIONS.add(
    output=page_results.EntityDetail,
    tool="entity_explain",
    tool_tenant="optional",
    command="entity explain",
    example="entity explain 5b7d10aa",
    routes=(Route("GET", "/entities/{entity_id}"),),
)
async def explain_entity(ctx: OperationContext, params: OneEntity) -> dict[str, Any] | None:
    """Read an entity with the newest facts about it, past ones included, and its events.

    Returns {entity, facts, more_facts, events}, or null if there is none.
    """
    entity_id = await ctx.known_id("entity_id", params.entity_id, EventSubject.ENTITY)
    return await lookup.entity_detail(ctx.memory, entity_id, ctx.lineage)


class UpdateEntity(OneEntity):
    """The changes; omitted fields stay as they are."""

    canonical_name: input_fields.Name | None = None
    """The new name."""
    aliases: input_fields.Aliases = None
    metadata: input_fields.Document | None = None
    """Keys to add or replace, as a JSON object."""


@writes(
    output=page_results.Entity,
    tool="entity_update",
    toolset=Toolset.STANDARD,
    tool_tenant="optional",
    command="entity update",
    example="entity update 5b7d10aa --alias Jo --alias J.",
    routes=(Route("PATCH", "/entities/{entity_id}"),),
)
async def update_entity(ctx: OperationContext, params: UpdateEntity) -> dict[str, Any]:
    """Change an entity's names or metadata.

    canonical_name replaces the name, aliases replaces the whole list, metadata is merged key
    by key. Omitted fields stay as they are. Returns the updated entity.
    """
    entity_id = await ctx.known_id("entity_id", params.entity_id, EventSubject.ENTITY)
    changes = params.model_dump(exclude={"entity_id"})
    return await entities.update_entity(ctx.memory, entity_id, ctx.lineage, **changes)


class ResolveEntity(Input):
    """A name, and hints that tell namesakes apart."""

    name: input_fields.Name
    """The name as you heard it; case does not matter."""
    entity_type: input_fields.EntityKind | None = None
    """Only entities of this type."""
    context_hints: input_fields.Document | None = None
    """Hints that tell namesakes apart: topic (text), mentioned_with (names), domain_scores
    ({entity_id: number})."""
    enable_fuzzy: bool = False
    """Also match misspelt names."""


@OPERATIONS.add(
    output=list[page_results.EntityCandidate],
    tool="entity_resolve",
    toolset=Toolset.STANDARD,
    tool_tenant="default",
    command="entity resolve",
    example="entity resolve jo --entity-type person",
    routes=(Route("POST", "/entities/resolve"),),
)
async def resolve_entity(ctx: OperationContext, params: ResolveEntity) -> list[dict[str, Any]]:
    """Find the entities that a name may mean. Nothing is created.

    Use it before you store a fact about somebody or something with a name. Give context_hints
    where there may be namesakes.
    Returns candidates, best first: entity_id, canonical_name, entity_type, score,
    name_match (exact, alias, prefix, fuzzy), aliases. An empty list means: unknown.
    """
    given = params.model_dump(exclude={"name"})
    return await entity_resolution.resolve_entity(ctx.memory, params.name, ctx.lineage, **given)


class MergeEntities(Input):
    """The two entities to merge."""

    source_entity_id: input_fields.Id
    """The entity that is merged away."""
    target_entity_id: input_fields.Id
    """The entity that remains."""


@writes(
    output=page_results.EntitiesMerged,
    tool="entity_merge",
    toolset=Toolset.STANDARD,
    tool_tenant="optional",
    command="entity merge",
    example="entity merge 5b7d10aa 80e1b2c4",
    routes=(Route("POST", "/entities/merge"),),
)
async def merge_entities(ctx: OperationContext, params: MergeEntities) -> entity_merge.MergeReport:
    """Merge two entities that are the same: the source's facts and names move to the target.

    Where both have a current fact under one key, the more confident one stays current.
    Returns {source_entity_id, target_entity_id, facts_repointed, facts_superseded,
    aliases_added}.
    """
    return await entity_merge.merge_entities(ctx.memory, *await _pair(ctx, params), ctx.lineage)


@writes(
    output=report(Parted),
    command="entity unmerge",
    left_out={"mcp": "agents can merge and preview; only a person undoes a merge"},
    example="entity unmerge 5b7d10aa",
    routes=(Route("POST", "/entities/{entity_id}/unmerge"),),
)
async def unmerge_entities(ctx: OperationContext, params: OneEntity) -> Parted:
    """Undo the last merge of an entity, given either side of it.

    The facts, names and metadata that the merge moved go back, and facts it superseded are
    current again. What was stored about the target since then stays with it.
    Returns {source_entity_id, target_entity_id, facts_returned, facts_restored, facts_left};
    facts_left stay superseded, because another fact has their key now.
    """
    entity_id = await ctx.known_id("entity_id", params.entity_id, EventSubject.ENTITY)
    return await entity_merge.unmerge_entities(ctx.memory, entity_id, ctx.lineage)


@OPERATIONS.add(
    output=page_results.MergePreviewed,
    tool="entity_preview_merge",
    tool_tenant="optional",
    command="entity preview-merge",
    example="entity preview-merge 5b7d10aa 80e1b2c4",
    routes=(Route("GET", "/entities/merge"),),
)
async def preview_merge(ctx: OperationContext, params: MergeEntities) -> entity_merge.MergePreview:
    """Preview a merge of two entities. Nothing changes.

    Returns what entity_merge would return, and the facts: rivalries, each {stays, gives_way,
    why}, and repointed; at most a hundred of each.
    """
    return await entity_merge.preview_merge(ctx.memory, *await _pair(ctx, params), ctx.lineage)


async def _pair(ctx: OperationContext, params: MergeEntities) -> tuple[UUID, UUID]:
    kind = EventSubject.ENTITY
    return (
        await ctx.known_id("source_entity_id", params.source_entity_id, kind),
        await ctx.known_id("target_entity_id", params.target_entity_id, kind),
    )
