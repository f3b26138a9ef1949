"""Lifecycle: what fades, expires and is removed, for one tenant or for each in turn."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from butlers.errors import ButlersError
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage

_log = structlog.get_logger(__name__)

Report = TypeVar("Report")


@dataclass(frozen=True, slots=True)
class TenantReports(Generic[Report]):
    """What a job did for each tenant, and why it failed for the others."""

    done: dict[str, Report]
    failed: dict[str, str]


async def for_every_tenant(
    memory: Memory, actor: str, job: Callable[[Memory, Lineage], Awaitable[Report]]
) -> TenantReports[Report]:
    """Run a job for each tenant in the order of their names; one that fails stops no other."""
    done: dict[str, Report] = {}
    failed: dict[str, str] = {}
    for tenant_id in await memory.database.tenants():
        try:
            done[tenant_id] = await job(memory, Lineage(tenant_id, actor))
        except ButlersError as error:
            failed[tenant_id] = f"{type(error).__name__}: {error}"
            _log.warning("tenant_job_failed", tenant_id=tenant_id, reason=failed[tenant_id])
    return TenantReports(done, failed)
