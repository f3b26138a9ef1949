"""Consolidation: episodes become facts and rules, one batch after the other.

A run goes on while something waits and there is time and budget; tenants take turns.
The tenant whose oldest episode waits longest comes first, with one batch; then the next. Everybody
has had a turn before anybody has a second.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from butlers.llm import LanguageModel
from butlers.memory.flows import consolidation_lease as leases
from butlers.memory.flows.consolidation_batch import Stop, consolidate_batch, safe_message
from butlers.memory.flows.consolidation_report import ConsolidationReport
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage

# A model of which nothing can be used any more is not asked about everything that waits.
_MOST_FAILURES = 10

_log = structlog.get_logger(__name__)


async def run_consolidation(
    memory: Memory, model: LanguageModel | None, lineage: Lineage
) -> ConsolidationReport:
    """Consolidate what waits of one tenant; without a model nothing at all changes."""
    if model is None:
        rows = await leases.find_waiting(memory, lineage)
        waiting = dict(sorted((row["butler"], row["episodes"]) for row in rows))
        return ConsolidationReport.of_dry_run(waiting)
    run = _Run(memory, model)
    await run.drain([lineage])
    return run.report(lineage.tenant_id)


async def consolidate_all(
    memory: Memory, model: LanguageModel, actor: str
) -> dict[str, ConsolidationReport]:
    """Consolidate for every tenant; the failure of one is reported and stops no other."""
    lineages = [Lineage(tenant, actor) for tenant in await memory.database.tenants()]
    run = _Run(memory, model)
    await run.drain(lineages)
    return {one.tenant_id: run.report(one.tenant_id) for one in lineages}


@dataclass(frozen=True, slots=True, order=True)
class _TenantTurn:
    """Whose turn it is: in each round, whoever waits longest."""

    round: int
    oldest: datetime
    tenant_id: str
    butler: str
    lineage: Lineage = field(compare=False)


class _Run:
    """One run, and what it came to for each tenant."""

    def __init__(self, memory: Memory, model: LanguageModel) -> None:
        self._memory = memory
        self._model = model
        self._ends_at = memory.now() + timedelta(minutes=memory.settings.consolidation.run_minutes)
        self._reports: dict[str, list[ConsolidationReport]] = {}
        self._finished: set[tuple[str, str]] = set()
        self._failures: Counter[tuple[str, str]] = Counter()

    def report(self, tenant_id: str) -> ConsolidationReport:
        """What happened to one tenant's episodes."""
        return ConsolidationReport.of_groups(self._reports.get(tenant_id, ()))

    async def drain(self, lineages: Sequence[Lineage]) -> None:
        """Serve one batch after the other while there is backlog, time and budget."""
        turns = [turn for one in lineages if (turn := await self._turn(one, 0))]
        heapq.heapify(turns)
        while turns and self._memory.now() < self._ends_at:
            turn = heapq.heappop(turns)
            stop = await self._serve(turn)
            if stop is Stop.RUN:
                return
            again = stop is not Stop.TENANT and await self._turn(turn.lineage, turn.round + 1)
            if again:
                heapq.heappush(turns, again)

    async def _turn(self, lineage: Lineage, number: int) -> _TenantTurn | None:
        """The next turn of a tenant that has something to read; whatever fails is its own."""
        try:
            rows = await leases.find_waiting(self._memory, lineage)
        except Exception as error:  # noqa: BLE001 - one tenant's failure must not reach another's
            _log.warning(
                "consolidation_failed", tenant=lineage.tenant_id, error=type(error).__name__
            )
            self._note(lineage.tenant_id, ConsolidationReport(errors=[safe_message(error)]))
            return None
        for row in rows:
            if (lineage.tenant_id, row["butler"]) not in self._finished:
                return _TenantTurn(number, row["oldest"], lineage.tenant_id, row["butler"], lineage)
        return None

    async def _serve(self, turn: _TenantTurn) -> Stop:
        """One batch; a butler none of whose episodes move is left for the next run."""
        batch = await consolidate_batch(self._memory, self._model, turn.butler, turn.lineage)
        self._note(turn.tenant_id, batch.report)
        group = (turn.tenant_id, turn.butler)
        self._failures[group] += 1
        if batch.report.episodes_consolidated:
            self._failures[group] = 0
        exhausted = self._failures[group] >= _MOST_FAILURES
        if batch.stop is Stop.BUTLER or exhausted or not batch.report.has_moved:
            self._finished.add(group)
        return batch.stop

    def _note(self, tenant_id: str, report: ConsolidationReport) -> None:
        self._reports.setdefault(tenant_id, []).append(report)
