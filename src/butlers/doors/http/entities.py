"""Entities: who and what the facts are about."""

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from butlers.doors.http import answers, asking
from butlers.doors.http.asking import Asked
from butlers.doors.http.seats import Seated
from butlers.errors import NotFound
from butlers.memory.flows import browse, entities
from butlers.memory.flows.detail import entity_detail
from butlers.memory.flows.entity_merge import merge_entities, preview_merge
from butlers.memory.model import EntityType
from butlers.memory.policy.inputs import MAX_NAME
from butlers.memory.policy.presentation import as_json
from butlers.memory.tools.results import EntitiesMerged, Entity, EntityCreated

router = APIRouter(tags=["entities"])
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Aliases = list[Name]


class EntityToCreate(Asked):
    """Who or what."""

    canonical_name: Name
    entity_type: EntityType
    aliases: Aliases = []
    metadata: dict[str, Any] = {}


class EntityChange(Asked):
    """What changes: aliases are replaced, metadata is merged, what is not given stays."""

    canonical_name: Name | None = None
    aliases: Aliases | None = None
    metadata: dict[str, Any] | None = None


class Merge(Asked):
    """Which entity becomes part of which."""

    source_entity_id: UUID
    target_entity_id: UUID


@router.get("/entities", response_model=answers.Entities)
async def list_entities(seat: Seated, asked: Annotated[asking.AskedEntities, Query()]) -> Any:
    """Entities, newest first, those merged away included, a page at a time."""
    where = browse.EntityFilter(asked.state, asked.entity_type, asked.name)
    return asdict(await browse.browse_entities(seat.memory, where, asked.wanted(), seat.lineage))


@router.post("/entities", status_code=201, response_model=EntityCreated)
async def create_entity(seat: Seated, asked: EntityToCreate) -> Any:
    """Create an entity; 409 when one of the same type bears the name."""
    created = await entities.create_entity(
        seat.memory,
        asked.canonical_name,
        asked.entity_type,
        asked.aliases,
        asked.metadata,
        seat.lineage,
    )
    return {"entity_id": str(created)}


@router.get("/entities/merge", response_model=EntitiesMerged)
async def see_merge(seat: Seated, asked: Annotated[Merge, Query()]) -> Any:
    """What a merge would do now; nothing changes."""
    return asdict(
        await preview_merge(
            seat.memory, asked.source_entity_id, asked.target_entity_id, seat.lineage
        )
    )


@router.post("/entities/merge", response_model=EntitiesMerged)
async def merge(seat: Seated, asked: Merge) -> Any:
    """Make the source part of the target, with its facts, names and metadata."""
    return asdict(
        await merge_entities(
            seat.memory, asked.source_entity_id, asked.target_entity_id, seat.lineage
        )
    )


@router.get("/entities/{entity_id}", response_model=answers.EntityDetail)
async def get_entity(seat: Seated, entity_id: UUID) -> Any:
    """An entity with the facts about it and its events."""
    found = await entity_detail(seat.memory, entity_id, seat.lineage)
    if found is None:
        raise NotFound(f"entity_id: you have no entity {entity_id}")
    return found


@router.patch("/entities/{entity_id}", response_model=Entity)
async def update_entity(seat: Seated, entity_id: UUID, asked: EntityChange) -> Any:
    """Change the name, the aliases or the metadata of an entity."""
    changed = await entities.update_entity(
        seat.memory,
        entity_id,
        seat.lineage,
        canonical_name=asked.canonical_name,
        aliases=asked.aliases,
        metadata=asked.metadata,
    )
    return as_json(changed)
