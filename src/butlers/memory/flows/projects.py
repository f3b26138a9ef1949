"""Projects: which memories a repository has, and which others its sessions see.

A project's scope is `project:` and its id. Its episodes, and what is drawn from them, are stored
in that scope.
"""

import hashlib
from datetime import timedelta
from typing import Any

from butlers.auth.rights import Project
from butlers.db.postgres import Row, Transaction
from butlers.errors import InvalidInput, NotFound
from butlers.kernel.json_values import as_json
from butlers.kernel.secrets import masked
from butlers.kernel.text import one_line
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import Event, EventType, Lineage
from butlers.memory.policy.scopes import PROJECT
from butlers.memory.store import projects

_MOST_KEYS, _MOST_PLACES = 20, 10
_LONGEST_NAME = 100
# How often `last_seen_at` of a project is written.
_NOTED = timedelta(minutes=10)


async def own_scope(memory: Memory, project: Project, lineage: Lineage) -> str:
    """Return the scope that a session in this project stores in; register a new project."""
    async with memory.begin(lineage) as work:
        return PROJECT + await _register(work, project)


async def seen_scopes(memory: Memory, project: Project, lineage: Lineage) -> tuple[str, ...]:
    """Return the scopes that a session in this project sees, besides global.

    A new project is registered after the answer.
    """
    async with memory.transaction(lineage) as tx:
        row = await projects.find_known(tx, keys=project.keys)
        own = str(row["moved_to"] or row["id"]) if row else _id(project)
        seen = {other["id"] for other in await projects.find_scopes(tx, id=own)}
    if row is None or _has_changed(memory, row, project):

        async def register(tx: Transaction) -> None:
            await _register(UnitOfWork(memory, tx, lineage), project)

        memory.uses.later(lineage.tenant_id, f"project {project.keys[0]}", register)
    return tuple(PROJECT + id for id in sorted({own, *seen}))


async def _register(work: UnitOfWork, project: Project) -> str:
    """Return the id of a project, or of the one it was moved into; register a new one."""
    row = await projects.find_known(work.tx, keys=project.keys)
    if row is None:
        await _add(work, project)
        row = await projects.find_known(work.tx, keys=project.keys)
        if row is None:  # one of the same id, which is known by something else
            raise InvalidInput(
                f"project: the id of {project.name!r:.80} belongs to another project"
            )
    elif _has_changed(work.memory, row, project):
        keys = _with(row["keys"], project.keys, _MOST_KEYS)
        places = _with(row["places"], [project.place], _MOST_PLACES)
        await projects.touch(work.tx, id=row["id"], keys=keys, places=places, now=work.now)
    return str(row["moved_to"] or row["id"])


def _id(project: Project) -> str:
    """Derive the id of a new project from its first key; a plain word such as `personal` is one."""
    surest = project.keys[0]
    return hashlib.sha256(surest.encode()).hexdigest()[:12] if ":" in surest else surest


async def _add(work: UnitOfWork, project: Project) -> None:
    id = _id(project)
    name = masked(one_line(project.name)).text[:_LONGEST_NAME] or id
    keys, places = list(project.keys), list(filter(None, [project.place]))
    await projects.insert(work.tx, id=id, name=name, keys=keys, places=places, now=work.now)


def _has_changed(memory: Memory, row: Row, project: Project) -> bool:
    moved = project.place and [project.place] != row["places"][-1:]
    is_known = set(project.keys) <= set(row["keys"]) and not moved
    return not is_known or memory.now() - row["last_seen_at"] > _NOTED


def _with(known: list[str], more: Any, most: int) -> list[str]:
    """Add new values to known ones, the newest last, up to `most`."""
    new = [value for value in more if value]
    return [*(value for value in known if value not in new), *new][-most:]


async def find_projects(memory: Memory, lineage: Lineage) -> list[dict[str, Any]]:
    """List the projects of a tenant, the latest first."""
    async with memory.transaction(lineage) as tx:
        return [as_json(row) for row in await projects.find(tx, id=None, prefix=PROJECT)]


async def get_project(memory: Memory, given: str, lineage: Lineage) -> dict[str, Any]:
    """Return a project by its id or name."""
    async with memory.transaction(lineage) as tx:
        return await _get_project(tx, await _resolve(tx, given))


async def share_project(
    memory: Memory, given: str, shared: bool, lineage: Lineage
) -> dict[str, Any]:
    """Share a project's memories with every project, or stop. Records `project_shared`."""
    async with memory.begin(lineage) as work:
        id = await _resolve(work.tx, given)
        before = await _get_project(work.tx, id)
        await projects.share(work.tx, id=id, shared=shared)
        if before["shared"] != shared:
            change = {"shared": {"from": before["shared"], "to": shared}}
            await _record(work, EventType.PROJECT_SHARED, id, change)
        return await _get_project(work.tx, id)


async def move_project(memory: Memory, given: str, to: str, lineage: Lineage) -> dict[str, Any]:
    """Move a project into another, or back to itself. Records `project_moved`."""
    async with memory.begin(lineage) as work:
        id, target = await _resolve(work.tx, given), await _resolve(work.tx, to)
        before = await _get_project(work.tx, id)
        await projects.move(work.tx, id=id, to=target)
        after = await _get_project(work.tx, id)
        if before["moved_to"] != after["moved_to"]:
            change = {"moved_to": {"from": before["moved_to"], "to": after["moved_to"]}}
            await _record(work, EventType.PROJECT_MOVED, id, change)
        return after


async def _record(work: UnitOfWork, kind: EventType, id: str, change: dict[str, Any]) -> None:
    """Record an event; a project has no UUID, so the payload names it."""
    await work.record(Event(kind, None, {"project": id, **change}))


async def _resolve(tx: Transaction, given: str) -> str:
    """Return the id of the project of this id or name."""
    rows = await projects.resolve(tx, given=given)
    if not rows:
        raise NotFound(f"there is no project {given!r:.80}; `butlers project list` shows them")
    ids = [str(row["id"]) for row in rows]
    if len(ids) > 1 and ids[0] != given:
        raise InvalidInput(
            f"project: found {given!r:.80}, the name of several; valid are {', '.join(ids)}"
        )
    return ids[0]


async def _get_project(tx: Transaction, id: str) -> dict[str, Any]:
    [row] = await projects.find(tx, id=id, prefix=PROJECT)
    return as_json(row)
