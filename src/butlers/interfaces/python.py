"""The door for programs in Python: every operation of a memory as a method."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self
from uuid import UUID

import structlog

from butlers.auth.tokens import acting_tenant
from butlers.host.home import FIRST_BUTLER, Home
from butlers.host.hosting import opened_butler
from butlers.interfaces.methods import Methods
from butlers.memory.flows.batch import StoredBatch
from butlers.memory.flows.context import Context
from butlers.memory.flows.entity_merge import MergeReport
from butlers.memory.flows.recall import Recalled
from butlers.memory.flows.results import StoredEpisode, StoredFact, StoredRule
from butlers.memory.model import Lineage, MemoryRef
from butlers.memory.operations import OperationContext
from butlers.module import request_id as checked_request_id

__all__ = [
    "ButlerMemory",
    "Context",
    "MergeReport",
    "Recalled",
    "StoredBatch",
    "StoredEpisode",
    "StoredFact",
    "StoredRule",
    "open_memory",
]


class ButlerMemory(Methods):
    """One butler's memory as one tenant has it.

    Ids may be given as UUID, as text, or as the beginning of one (six digits or more). A fault in
    what is given is an InvalidInput that names field, value and what is valid.
    """

    def for_request(self, request_id: str) -> Self:
        """The same memory; what is done through it carries this request's id in the audit."""
        checked = checked_request_id({"request_id": request_id})
        return replace(self, lineage=replace(self.lineage, request_id=checked))

    async def find(self, memory_id: str | UUID, memory_type: str | None = None) -> MemoryRef | None:
        """Which memory an id, or the beginning of one, stands for; None where there is none."""
        return await OperationContext(self.handle, self.lineage).find(str(memory_id), memory_type)


@asynccontextmanager
async def open_memory(
    butler: str = FIRST_BUTLER,
    *,
    home: str | Path | None = None,
    tenant: str | None = None,
    actor: str = "python",
) -> AsyncIterator[ButlerMemory]:
    """A butler's memory, open within the block; a daemon of the same home serves on beside it.

    Without `home` it is `$BUTLERS_HOME` or `~/.butlers`; an empty home gets its first butler,
    `general`. Without `tenant` it is the one that butler.toml names. `actor` is who the audit
    stream says it was.
    """
    _leave_logging_to_the_program()
    place = Home.locate(None if home is None else Path(home))
    if butler == FIRST_BUTLER and not place.butler_names():
        place.ensure_general()
    async with opened_butler(place, butler) as opened:
        acting = acting_tenant(opened.settings.butler.tenant, tenant)
        yield ButlerMemory(opened.memory, Lineage(acting, actor))


def _leave_logging_to_the_program() -> None:
    """Unless told otherwise structlog prints every line; a library's belong to `logging`."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
