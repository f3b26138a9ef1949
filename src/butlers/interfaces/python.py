"""The Python interface: every operation of a memory as a method."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self
from uuid import UUID

import structlog

from butlers.auth.token_grant import acting_tenant
from butlers.host.home import FIRST_BUTLER, Home
from butlers.host.home_tokens import check_operator_token
from butlers.host.hosting import opened_butler
from butlers.interfaces.methods import Methods
from butlers.memory.flows.batch import StoredBatch as StoredBatch
from butlers.memory.flows.context import Context as Context
from butlers.memory.flows.entity_merge import MergeReport as MergeReport
from butlers.memory.flows.recall import Recalled as Recalled
from butlers.memory.flows.results import StoredEpisode as StoredEpisode
from butlers.memory.flows.results import StoredFact as StoredFact
from butlers.memory.flows.results import StoredRule as StoredRule
from butlers.memory.model import Lineage, MemoryRef
from butlers.memory.operations import OperationContext
from butlers.module import request_id as checked_request_id


class ButlerMemory(Methods):
    """One butler's memory, for one tenant.

    An id may be a UUID, its text, or its first six or more digits. A bad argument raises
    InvalidInput, which names the field, the value and what is valid.
    """

    def for_request(self, request_id: str) -> Self:
        """Return the same memory; its changes carry this request id in the audit trail."""
        checked = checked_request_id({"request_id": request_id})
        return replace(self, lineage=replace(self.lineage, request_id=checked))

    async def find(self, memory_id: str | UUID, memory_type: str | None = None) -> MemoryRef | None:
        """Find the memory with this id, or the beginning of one; None if there is none."""
        return await OperationContext(self.handle, self.lineage).find(str(memory_id), memory_type)


@asynccontextmanager
async def open_memory(
    butler: str = FIRST_BUTLER,
    *,
    home: str | Path | None = None,
    tenant: str | None = None,
    actor: str = "python",
    operator_token: str = "",
) -> AsyncIterator[ButlerMemory]:
    """Open a butler's memory for this block; a daemon of the same home can run beside it.

    `home` defaults to `$BUTLERS_HOME` or `~/.butlers`; an empty home gets its first butler,
    `general`. `tenant` defaults to that of butler.toml. `actor` is the name in the audit trail.
    `operator_token` lets the program decide what waits for a person.
    """
    _leave_logging_to_the_program()
    located = Home.locate(None if home is None else Path(home))
    if butler == FIRST_BUTLER and not located.butler_names():
        located.ensure_general()
    async with opened_butler(located, butler) as opened:
        acting = acting_tenant(opened.settings.butler.tenant, tenant)
        if operator_token:
            await check_operator_token(located, butler, acting, operator_token)
        yield ButlerMemory(opened.memory, Lineage(acting, actor, may_decide=bool(operator_token)))


def _leave_logging_to_the_program() -> None:
    """Send log lines to `logging`; structlog by default prints them, which a library must not."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )
