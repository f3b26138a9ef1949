"""Where operations of a memory are called: the memory, and on whose behalf."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from butlers.errors import NotFound
from butlers.llm import LanguageModel
from butlers.memory.flows import lookup, projects
from butlers.memory.handle import Memory
from butlers.memory.model import EventSubject, Lineage, MemoryRef, MemoryType, Origin, Trust
from butlers.memory.policy import scopes as scoping
from butlers.module import Caller, Project


def lineage_of(caller: Caller, request_id: str | None = None) -> Lineage:
    """On whose behalf a caller acts: a person who runs the home, or a program with a token."""
    origin = Origin.OPERATOR if caller.is_operator else Origin.AGENT
    ceiling = Trust.LOW if caller.low_trust else Trust.STATED
    return Lineage(caller.tenant_id, caller.actor, request_id, origin, ceiling)


@dataclass(frozen=True, slots=True)
class Desk:
    """A memory, and the tenant, actor and request that act on it."""

    memory: Memory
    lineage: Lineage
    model: LanguageModel | None = None
    on_progress: Callable[[int, int], None] = lambda done, total: None
    """Told how far work of minutes is: so much done of so much."""

    project: Project | None = None
    """What the caller works in, where that is known."""

    async def seen(self, given: str | None, field: str = "scope") -> str | None:
        """From where a question is asked; None asks for everything.

        In a project that is the scope given, or all that are no project's, with the project's own
        and those that are shared.
        """
        if self.project is None:
            return given
        own = await projects.seen_scopes(self.memory, self.project, self.lineage)
        return scoping.seen_in_project(field, given, own)

    async def kept(self, given: str) -> str:
        """The scope of what is stored, where the caller did not choose one."""
        if self.project is None:
            return given
        return await projects.own_scope(self.memory, self.project, self.lineage)

    async def find(self, given: str, kind: str | None = None) -> MemoryRef | None:
        """Which memory an id, or the beginning of one, stands for; None where there is none."""
        whole = lookup.whole_id(given)
        if whole is not None and kind is not None:
            return MemoryRef(MemoryType(kind), whole)
        return await lookup.find_memory(self.memory, given, kind, self.lineage)

    async def must_find(self, given: str, kind: str | None = None) -> MemoryRef:
        """Which memory an id stands for; NotFound where there is none."""
        found = await self.find(given, kind)
        if found is None:
            raise NotFound(f"memory_id: there is no {kind or 'memory'} {given}; search for it")
        return found

    async def known_id(self, field: str, given: str, kind: EventSubject) -> UUID:
        """The id of something whose kind is known, by its beginning at least."""
        whole = lookup.whole_id(given)
        if whole is not None:
            return whole
        found = await lookup.find_known(self.memory, given, kind, self.lineage)
        if found is None:
            raise NotFound(f"{field}: there is no {kind} {given}; search for it")
        return found.id
