"""Pages of entities: names, facts, merging and unmerging."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from butlers.errors import InvalidInput, NotFound
from butlers.interfaces.http.access import ButlerAccess
from butlers.interfaces.web import pictures
from butlers.interfaces.web.pages import go_to, render_butler
from butlers.interfaces.web.visits import ButlerSending, ButlerVisiting
from butlers.memory.flows.browse import MAX_LIMIT
from butlers.memory.operations import entities, listing
from butlers.memory.policy.states import EntityState

router = APIRouter(prefix="/butlers/{name}/memory/entities")


@router.get("/{entity_id}")
async def entity(visit: ButlerVisiting, entity_id: UUID) -> Response:
    """Show an entity with its names, facts and possible merges."""
    detail = await _detail(visit, entity_id)
    return render_butler(
        visit,
        "entities",
        template="entity.html",
        **detail | {"facts": pictures.with_decay(detail["facts"], visit)},
        others=await _others(visit, entity_id),
        here=f"{visit.home}/entities/{entity_id}",
    )


@router.get("/{entity_id}/merge")
async def preview(visit: ButlerVisiting, entity_id: UUID, into: str = "") -> Response:
    """Show what a merge would change."""
    pair = _merge(entity_id, into)
    return render_butler(
        visit,
        "entities",
        template="merge.html",
        report=await visit.ask(entities.preview_merge, **pair),
        source=(await _detail(visit, pair["source_entity_id"]))["entity"],
        target=(await _detail(visit, pair["target_entity_id"]))["entity"],
        here=f"{visit.home}/entities/{entity_id}",
    )


@router.post("/{entity_id}/merge")
async def merge(visit: ButlerSending, entity_id: UUID) -> Response:
    """Merge the entity into another."""
    pair = _merge(entity_id, visit.form["into"])
    await visit.ask(entities.merge_entities, **pair)
    return go_to(f"{visit.home}/entities/{pair['target_entity_id']}?done=merged")


@router.post("/{entity_id}/unmerge")
async def unmerge(visit: ButlerSending, entity_id: UUID) -> Response:
    """Undo the merge of an entity."""
    await visit.ask(entities.unmerge_entities, entity_id=entity_id)
    return go_to(f"{visit.home}/entities/{entity_id}?done=parted")


@router.post("/{entity_id}/change")
async def change(visit: ButlerSending, entity_id: UUID) -> Response:
    """Change the name and the aliases of an entity."""
    aliases = [line.strip() for line in visit.form["aliases"].splitlines() if line.strip()]
    names = {"canonical_name": visit.form["name"], "aliases": aliases}
    await visit.ask(entities.update_entity, entity_id=entity_id, **names)
    return go_to(f"{visit.home}/entities/{entity_id}?done=changed")


async def _detail(access: ButlerAccess, entity_id: UUID) -> Any:
    detail = await access.ask(entities.explain_entity, entity_id=entity_id)
    if detail is None:
        raise NotFound(f"entity_id: you have no entity {entity_id}")
    return detail


async def _others(access: ButlerAccess, entity_id: UUID) -> list[dict[str, Any]]:
    """List the newest other active entities, by name."""
    page = await access.ask(listing.list_entities, state=EntityState.ACTIVE, limit=MAX_LIMIT)
    others = [entity for entity in page["items"] if entity["id"] != str(entity_id)]
    return sorted(others, key=lambda entity: (entity["canonical_name"].casefold(), entity["id"]))


def _merge(entity_id: UUID, into: str) -> dict[str, UUID]:
    try:
        return {"source_entity_id": entity_id, "target_entity_id": UUID(into.strip())}
    except ValueError:
        raise InvalidInput(f"into: found {into[:80]!r}; valid is the id of an entity") from None
