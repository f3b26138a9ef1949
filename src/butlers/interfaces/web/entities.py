"""Pages of entities: names, facts, merging and unmerging."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from butlers.errors import InvalidInput, NotFound
from butlers.interfaces.http.access import ButlerAccess
from butlers.interfaces.web import pictures
from butlers.interfaces.web.memories import listed_page, render_list
from butlers.interfaces.web.pages import PageRoute, go_to, render_butler
from butlers.interfaces.web.visits import Name, Sending, Visiting
from butlers.memory.flows.browse import MAX_LIMIT
from butlers.memory.model import EntityType
from butlers.memory.operations import entities, listing
from butlers.memory.policy.states import EntityState

router = APIRouter(route_class=PageRoute)
_PATH = "/butlers/{name}/memory/entities"


@router.get(_PATH)
async def listed(visit: Visiting, name: Name) -> Response:
    """List entities, newest first."""
    page = await listed_page(visit, name, listing.list_entities)
    words = {"types": list(EntityType), "states": list(EntityState)}
    return render_list(visit, name, "entities", page, {"entities": page["items"], **words})


@router.get(_PATH + "/{entity_id}")
async def one(
    visit: Visiting,
    name: Name,
    entity_id: UUID,
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """Show an entity with its names, facts and possible merges."""
    access = visit.access(name)
    detail = await _detail(access, entity_id)
    others = await _others(access, entity_id)
    return render_butler(
        visit,
        name,
        "entities",
        template="entity.html",
        entity=detail["entity"],
        facts=pictures.with_decay(detail["facts"], access),
        more_facts=detail["more_facts"],
        events=detail["events"],
        others=others,
        here=f"/butlers/{name}/memory/entities/{entity_id}",
        done=done,
    )


@router.get(_PATH + "/{entity_id}/merge")
async def preview(visit: Visiting, name: Name, entity_id: UUID, into: str = "") -> Response:
    """Show what a merge would change."""
    access = visit.access(name)
    asked = _merge(entity_id, into)
    return render_butler(
        visit,
        name,
        "entities",
        template="merge.html",
        report=await access.ask(entities.preview_merge, **asked),
        source=(await _detail(access, asked["source_entity_id"]))["entity"],
        target=(await _detail(access, asked["target_entity_id"]))["entity"],
        here=f"/butlers/{name}/memory/entities/{entity_id}",
    )


@router.post(_PATH + "/{entity_id}/merge")
async def merge(sent: Sending, name: Name, entity_id: UUID) -> Response:
    """Merge the entity into another."""
    asked = _merge(entity_id, sent.form["into"])
    await sent.visit.access(name).ask(entities.merge_entities, **asked)
    return go_to(f"/butlers/{name}/memory/entities/{asked['target_entity_id']}?done=merged")


@router.post(_PATH + "/{entity_id}/unmerge")
async def unmerge(sent: Sending, name: Name, entity_id: UUID) -> Response:
    """Undo the merge of an entity."""
    await sent.visit.access(name).ask(entities.unmerge_entities, entity_id=entity_id)
    return go_to(f"/butlers/{name}/memory/entities/{entity_id}?done=parted")


@router.post(_PATH + "/{entity_id}/change")
async def change(sent: Sending, name: Name, entity_id: UUID) -> Response:
    """Change the name and the aliases of an entity."""
    aliases = [line.strip() for line in sent.form["aliases"].splitlines() if line.strip()]
    await sent.visit.access(name).ask(
        entities.update_entity,
        entity_id=entity_id,
        canonical_name=sent.form["name"],
        aliases=aliases,
    )
    return go_to(f"/butlers/{name}/memory/entities/{entity_id}?done=changed")


async def _detail(access: ButlerAccess, entity_id: UUID) -> Any:
    found = await access.ask(entities.explain_entity, entity_id=entity_id)
    if found is None:
        raise NotFound(f"entity_id: you have no entity {entity_id}")
    return found


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
