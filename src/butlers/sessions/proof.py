"""What interfaces ask about injections: what was given, what was not, and what it was worth."""

from datetime import timedelta
from typing import Any

from butlers.memory.operations import OperationContext
from butlers.sessions.injection_log import InjectionLog
from butlers.sessions.injection_report import report
from butlers.sessions.why_not import why_not
from butlers.sessions.worth import in_sentences, sum_up


async def injections_of(
    ctx: OperationContext, log: InjectionLog, session_id: str
) -> list[dict[str, Any]]:
    """List what a session was given, oldest first, each with sentences that tell it."""
    return await report(ctx, await log.of_session(ctx.lineage.tenant_id, session_id))


async def absence_of(
    ctx: OperationContext, log: InjectionLog, session_id: str, wanted: str
) -> dict[str, Any]:
    """Say for each prompt of a session why a memory, by id or text, was not given."""
    return await why_not(ctx, await log.of_session(ctx.lineage.tenant_id, session_id), wanted)


async def worth_of(log: InjectionLog, tenant_id: str, days: int) -> dict[str, Any]:
    """Sum up the last days of a tenant, with sentences that tell it."""
    records = await log.since(tenant_id, log.clock() - timedelta(days=days))
    worth = sum_up(records, days)
    return {**worth, "sentences": in_sentences(worth)}
