"""The context of an operation: the memory, the caller and its scopes; the table of operations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from butlers.auth.rights import Caller, Project
from butlers.errors import Forbidden, InvalidInput, NotFound
from butlers.llm import LanguageModel
from butlers.memory.flows import lookup, projects
from butlers.memory.handle import Memory
from butlers.memory.model import EventSubject, Lineage, MemoryRef, MemoryType, Origin, Trust
from butlers.memory.policy import scopes as scoping
from butlers.operation import OperationEffect, OperationTable, Route

OPERATIONS = OperationTable("memory_")
writes = partial(OPERATIONS.add, effect=OperationEffect.WRITES)
maintains = partial(writes, is_maintenance=True)


def routes_of(*kinds: str, method: str = "POST", action: str = "") -> tuple[Route, ...]:
    """Return a route for each kind of memory, e.g. `/facts/{fact_id}/confirm`."""
    return tuple(Route(method, f"/{kind}s/{{{kind}_id}}{action}") for kind in kinds)


@dataclass(frozen=True, slots=True)
class OperationContext:
    """A memory, and the tenant, actor and request that use it."""

    memory: Memory
    lineage: Lineage
    model: LanguageModel | None = None
    on_progress: Callable[[int, int], None] = lambda done, total: None
    """Called with the progress of long work: done and total."""

    project: Project | None = None
    """The project the caller works in, if known."""

    scopes: tuple[str, ...] = ()
    """The scopes the caller's token is limited to; empty for all."""

    sessions_aside: Callable[[], list[dict[str, Any]]] = list
    """Lists the sessions that could not be stored, as the inbox does."""

    @classmethod
    def of(
        cls,
        memory: Memory,
        caller: Caller,
        request_id: str | None = None,
        model: LanguageModel | None = None,
    ) -> "OperationContext":
        """Return the context of a caller: a person who runs the home, or a program with a token."""
        origin = Origin.OPERATOR if caller.is_operator else Origin.AGENT
        ceiling = Trust.LOW if caller.low_trust else Trust.STATED
        agent = "" if caller.is_operator else caller.agent or caller.client
        lineage = Lineage(caller.tenant_id, caller.actor, request_id, origin, ceiling, agent)
        lineage = replace(lineage, may_decide=caller.may_decide)
        return cls(memory, lineage, model, project=caller.project, scopes=caller.scopes)

    def reader(self, *, current: bool = False) -> "OperationContext":
        """Return a read-only context, which may lag behind unless `current`."""
        return replace(self, memory=self.memory.reader(self.lineage.tenant_id, current=current))

    async def seen(self, given: str | None, field: str = "scope") -> str | None:
        """Return the scope filter of a search; None searches everything.

        In a project: the scope given, or all that belong to no project, with the project's own and
        the shared ones. A limited token sees global memories and its scopes.
        """
        if self.scopes:
            return await self._seen_within(given, field)
        if self.project is None:
            return given
        own = await projects.seen_scopes(self.memory, self.project, self.lineage)
        return scoping.seen_in_project(field, given, own)

    def list_scope(self, given: str | None, field: str = "scope") -> str | None:
        """Return the scope filter of a listing; None lists every scope."""
        if not self.scopes:
            return given
        return scoping.seen_within(field, given, (scoping.GLOBAL, *self.scopes))

    async def store_scope(
        self, otherwise: str, named: str | None = None, field: str = "scope"
    ) -> str:
        """Return the scope to store in: the one named, else the project's, else `otherwise`.

        A limited token stores in its scopes only, in the first of them if none is named.
        """
        if named is not None:
            return scoping.stored_within(field, named, self.scopes) if self.scopes else named
        if self.project is not None:
            otherwise = await projects.own_scope(self.memory, self.project, self.lineage)
        return otherwise if not self.scopes or otherwise in self.scopes else self.scopes[0]

    async def find(
        self, given: str, kind: str | None = None, *, to_read: bool = False
    ) -> MemoryRef | None:
        """Find the memory of an id or the beginning of one; None where there is none.

        Unless `to_read`, a limited token must be able to store in the memory's scope.
        """
        whole = lookup.whole_id(given)
        if whole is not None and kind is not None:
            ref: MemoryRef | None = MemoryRef(MemoryType(kind), whole)
        else:
            self._check_whole(given)
            ref = await lookup.find_memory(self.memory, given, kind, self.lineage)
        return ref if ref and await self._reaches(ref.id, to_read=to_read) else None

    async def must_find(
        self, given: str, kind: str | None = None, *, to_read: bool = False
    ) -> MemoryRef:
        """Find the memory of an id; raise NotFound where there is none."""
        ref = await self.find(given, kind, to_read=to_read)
        if ref is None:
            raise NotFound(f"memory_id: there is no {kind or 'memory'} {given}; search for it")
        return ref

    async def find_life(self, given: str) -> UUID | None:
        """Find the id of a memory or entity that exists or existed; None where there was none."""
        self._check_whole(given)
        known = await lookup.find_known(self.memory, given, None, self.lineage)
        return known.id if known and await self._reaches(known.id, to_read=True) else None

    async def known_id(self, field: str, given: str, kind: EventSubject) -> UUID:
        """Find the id of something of a known kind by at least its beginning, or raise NotFound.

        A memory must be one the caller may change; an entity, one about which it sees a fact.
        """
        id = lookup.whole_id(given)
        if id is None:
            self._check_whole(given)
            known = await lookup.find_known(self.memory, given, kind, self.lineage)
            id = known.id if known else None
        to_read = kind is EventSubject.ENTITY
        if id is None or not await self._reaches(id, to_read=to_read):
            raise NotFound(f"{field}: there is no {kind} {given}; search for it")
        return id

    async def check_source(self, episode: UUID) -> None:
        """Check that the caller sees a source episode; raise NotFound otherwise."""
        if not await self._reaches(episode, to_read=True):
            raise NotFound(f"source_episode_id: episode {episode} does not exist; leave it out")

    def sees(self, scope: str) -> bool:
        """Whether the caller's token may read a scope."""
        return not self.scopes or scope in (scoping.GLOBAL, *self.scopes)

    async def readable(self, rows: Sequence[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
        """Keep the rows in which the caller's token may read the memory of each of the columns."""
        if not self.scopes:
            return list(rows)
        ids = {UUID(str(row[column])) for row in rows for column in columns}
        scopes = await lookup.scopes_of(self.memory, ids, self.lineage)
        readable = {str(id) for id in ids if any(map(self.sees, scopes[id]))}
        return [row for row in rows if all(str(row[column]) in readable for column in columns)]

    async def _seen_within(self, given: str | None, field: str) -> str:
        """Return what a limited token sees; all of its scopes where it names this butler."""
        if given == self.memory.butler and (field == "butler" or given not in self.scopes):
            given = None
        limits = self.scopes
        if given is None and self.project is not None:
            own = await projects.seen_scopes(self.memory, self.project, self.lineage)
            limits = tuple(name for name in limits if name in own or not scoping.is_project(name))
        return scoping.seen_within(field, given, limits)

    def _check_whole(self, given: str) -> None:
        """Refuse a partial id from a limited token: the choice would name what it must not see."""
        if self.scopes and lookup.whole_id(given) is None:
            raise InvalidInput(f"found {given!r:.80}; valid for a token with scopes is a whole id")

    async def _reaches(self, id: UUID, *, to_read: bool) -> bool:
        """Whether the caller may use an id; raise Forbidden where it may only read it."""
        if not self.scopes:
            return True
        scopes = (await lookup.scopes_of(self.memory, [id], self.lineage))[id]
        if not scopes.isdisjoint(self.scopes):
            return True
        if scoping.GLOBAL in scopes and not to_read:
            raise Forbidden(
                f"{id} is global, and this token is limited to {', '.join(self.scopes)}: it "
                "changes nothing else"
            )
        return scoping.GLOBAL in scopes
