"""What everything done to a memory needs: the memory, and on whose behalf."""

from dataclasses import dataclass, replace
from typing import Self
from uuid import UUID

from butlers.errors import NotFound
from butlers.memory.flows import lookup
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryRef
from butlers.module import request_id as checked_request_id

Id = str | UUID


@dataclass(frozen=True, slots=True)
class Acting:
    """A memory, and the tenant, actor and request that act on it."""

    handle: Memory
    lineage: Lineage

    def for_request(self, request_id: str) -> Self:
        """The same memory; what is done through it carries this request's id in the audit."""
        checked = checked_request_id({"request_id": request_id})
        return replace(self, lineage=replace(self.lineage, request_id=checked))

    async def find(self, memory_id: Id, memory_type: str | None = None) -> MemoryRef | None:
        """Which memory an id, or the beginning of one, stands for; None where there is none."""
        return await lookup.find_memory(self.handle, memory_id, memory_type, self.lineage)

    async def must_find(self, memory_id: Id, memory_type: str | None = None) -> MemoryRef:
        """Which memory an id stands for; NotFound where there is none."""
        found = await self.find(memory_id, memory_type)
        if found is None:
            kind = memory_type or "memory"
            raise NotFound(f"memory_id: there is no {kind} {memory_id}; search for it")
        return found
