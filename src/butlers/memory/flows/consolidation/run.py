"""Run consolidation: one batch after the other while episodes wait and time and budget last.

Tenants take turns, one batch each: the tenant whose oldest episode waits longest comes first.
Every tenant has had a turn before any has a second.
"""

import asyncio
import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

import structlog

from butlers.db.lease import to_its_end
from butlers.errors import BudgetExhausted, ButlersError, ShareExhausted, Unavailable
from butlers.llm import Bounded, CompletionFailed, LanguageModel, NotReached
from butlers.memory import limits
from butlers.memory.flows.consolidation import lease as leases
from butlers.memory.flows.consolidation.answer import (
    BRIEF,
    TEMPLATE,
    failed,
    read_known,
    take_answer,
)
from butlers.memory.flows.consolidation.lease import Claimed
from butlers.memory.flows.consolidation.report import Applied, ConsolidationReport
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.policy.consolidation import (
    ConsolidationPrompt,
    Reach,
    answer_schema,
    brief_schema,
    build_prompt,
    numbered,
    numbered_lines,
)
from butlers.memory.policy.consolidation_guards import paragraphs
from butlers.memory.policy.consolidation_sentences import statements
from butlers.module import HasBudget

TRIGGER = "schedule:consolidation"

_log = structlog.get_logger(__name__)


class Stop(IntEnum):
    """How much of a run ends after a batch."""

    NOTHING = 0
    BUTLER = 1
    TENANT = 2
    RUN = 3


class _NoSession(Exception):
    """No model session was available: the budget is spent, or the runtime is missing."""

    def __init__(self, error: Unavailable) -> None:
        self.timed_out = isinstance(error, NotReached) and error.timed_out
        self.stop = Stop.BUTLER
        if isinstance(error, NotReached | BudgetExhausted):
            self.stop = Stop.TENANT if isinstance(error, ShareExhausted) else Stop.RUN
        super().__init__(str(error))


Outcome = tuple[ConsolidationReport, Stop]
"""The report of a batch, and how much of the run ends with it."""


async def consolidate_batch(
    memory: Memory, model: LanguageModel, butler: str, lineage: Lineage
) -> Outcome:
    """Consolidate the oldest episodes of a butler, as many as the model can read at once."""
    try:
        if isinstance(model, HasBudget):
            model = model.for_tenant(lineage.tenant_id)
            await _check_budget(model)
        reach = Reach(await model.context_tokens() if isinstance(model, Bounded) else 0)
        episodes = memory.batch_sizes.get((lineage.tenant_id, butler))
        most = leases.claim_limits(memory, reach, episodes)
        claimed = await leases.claim(memory, butler, lineage, most)
        if not claimed.episodes:
            lost, dead = claimed.abandoned.failed, claimed.abandoned.dead_lettered
            report = ConsolidationReport(episodes_failed=lost, episodes_dead_lettered=dead)
            return report, Stop.BUTLER
        return await _settle(memory, model, claimed, reach, lineage)
    except _NoSession as error:
        return ConsolidationReport(errors=[f"{butler}: {error}"]), error.stop
    except Exception as error:  # noqa: BLE001 - one group's failure must not block the others
        _log.warning("consolidation_group_failed", butler=butler, error=type(error).__name__)
        return ConsolidationReport(errors=[f"{butler}: {_safe_message(error)}"]), Stop.BUTLER


async def _check_budget(model: HasBudget) -> None:
    """Check the budget before any episode is claimed; a spent one is no attempt."""
    try:
        await model.check()
    except Unavailable as error:
        raise _NoSession(error) from error


async def _settle(
    memory: Memory, model: LanguageModel, claimed: Claimed, reach: Reach, lineage: Lineage
) -> Outcome:
    """Attempt a batch; whatever ends it early, release the episodes or give them back."""
    try:
        return await _attempt(memory, model, claimed, reach, lineage), Stop.NOTHING
    except asyncio.CancelledError:
        # A caller that is gone may cancel again and again; letting go must not be cut short.
        await to_its_end(leases.release(memory, claimed.lease, lineage))
        raise
    except _NoSession as error:
        _log.warning("consolidation_not_attempted", butler=claimed.butler, error=str(error))
        await _release(memory, claimed, error, lineage)
        return ConsolidationReport.of_batch(claimed, Applied(errors=[str(error)])), error.stop
    except Exception as error:  # noqa: BLE001 - whatever failed, the attempt counts as failed
        _log.warning(
            "consolidation_attempt_failed", butler=claimed.butler, error=type(error).__name__
        )
        return await failed(memory, claimed, [_safe_message(error)], lineage), Stop.NOTHING


async def _attempt(
    memory: Memory, model: LanguageModel, claimed: Claimed, reach: Reach, lineage: Lineage
) -> ConsolidationReport:
    known = await read_known(memory, claimed, reach, lineage)
    shown = numbered(claimed.episodes, known)
    if reach.is_small:
        stated = tuple(statements(text for one in claimed.episodes for text in paragraphs(one)))
        asked = ConsolidationPrompt(known, shown, BRIEF, stated)
        lines = numbered_lines(stated)
        prompt = build_prompt(BRIEF, [replace(claimed.episodes[0], content=lines)], known)
        completion = _complete(model, prompt, brief_schema(stated)) if stated else _nothing()
    else:
        asked = ConsolidationPrompt(known, shown, TEMPLATE)
        prompt = build_prompt(TEMPLATE, claimed.episodes, known)
        completion = _complete(model, prompt, answer_schema())
    answer = await leases.while_held(memory, claimed.lease, lineage, completion)
    return await take_answer(memory, claimed, asked, answer, lineage)


async def _nothing() -> str:
    """Return the answer about episodes in which nobody states anything; no model is asked."""
    return "{}"


async def _complete(model: LanguageModel, prompt: str, wanted: Mapping[str, Any]) -> str:
    """Return the model's answer; a session that is unavailable is no attempt."""
    try:
        completion = await model.complete(prompt, schema=wanted, label=TRIGGER)
    except Unavailable as error:
        if isinstance(error, CompletionFailed) and not isinstance(error, NotReached):
            raise
        raise _NoSession(error) from error
    return completion.text


async def _release(memory: Memory, claimed: Claimed, error: _NoSession, lineage: Lineage) -> None:
    """Release the episodes: after a timeout in smaller batches, a single one behind the others."""
    count = len(claimed.episodes)
    if error.timed_out and count > 1:
        memory.batch_sizes[(lineage.tenant_id, claimed.butler)] = count // 2
    behind_others = error.timed_out and count == 1
    await leases.release(memory, claimed.lease, lineage, behind_others=behind_others)


def _safe_message(error: Exception) -> str:
    """Return what may be shown of an error: our messages carry no content, others' might."""
    is_ours = isinstance(error, ButlersError)
    return str(error) if is_ours else f"unexpected {type(error).__name__}"


# After so many failures in a row a butler waits for the next run.
_MOST_FAILURES = 10


async def run_consolidation(
    memory: Memory, model: LanguageModel | None, lineage: Lineage
) -> ConsolidationReport:
    """Consolidate one tenant's waiting episodes; without a model only count them."""
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
    """Consolidate every tenant; the failure of one is reported and stops no other."""
    lineages = [Lineage(tenant, actor) for tenant in await memory.database.tenants()]
    run = _Run(memory, model)
    await run.drain(lineages)
    return {lineage.tenant_id: run.report(lineage.tenant_id) for lineage in lineages}


@dataclass(frozen=True, slots=True, order=True)
class _TenantTurn:
    """A turn of a tenant: in each round, the longest waiting comes first."""

    round: int
    oldest: datetime
    tenant_id: str
    butler: str
    lineage: Lineage = field(compare=False)


class _Run:
    """One run, with the reports of each tenant."""

    def __init__(self, memory: Memory, model: LanguageModel) -> None:
        self._memory, self._model = memory, model
        self._ends_at = memory.now() + timedelta(minutes=limits.CONSOLIDATION_MINUTES)
        self._reports: defaultdict[str, list[ConsolidationReport]] = defaultdict(list)
        self._finished: set[tuple[str, str]] = set()
        self._failures: Counter[tuple[str, str]] = Counter()

    def report(self, tenant_id: str) -> ConsolidationReport:
        """Return the report of one tenant."""
        return ConsolidationReport.of_groups(self._reports[tenant_id])

    async def drain(self, lineages: Sequence[Lineage]) -> None:
        """Consolidate one batch after the other while episodes, time and budget last."""
        turns = [turn for lineage in lineages if (turn := await self._turn(lineage, 0))]
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
        """Return the next turn of a tenant that has waiting episodes; report what fails."""
        try:
            rows = await leases.find_waiting(self._memory, lineage)
        except Exception as error:  # noqa: BLE001 - one tenant's failure must not reach another's
            tenant_id = lineage.tenant_id
            _log.warning("consolidation_failed", tenant=tenant_id, error=type(error).__name__)
            self._reports[tenant_id].append(ConsolidationReport(errors=[_safe_message(error)]))
            return None
        for row in rows:
            if (lineage.tenant_id, row["butler"]) not in self._finished:
                return _TenantTurn(number, row["oldest"], lineage.tenant_id, row["butler"], lineage)
        return None

    async def _serve(self, turn: _TenantTurn) -> Stop:
        """Consolidate one batch; leave a butler without progress for the next run."""
        report, stop = await consolidate_batch(self._memory, self._model, turn.butler, turn.lineage)
        self._reports[turn.tenant_id].append(report)
        group = (turn.tenant_id, turn.butler)
        self._failures[group] += 1
        if report.episodes_consolidated:
            self._failures[group] = 0
        exhausted = self._failures[group] >= _MOST_FAILURES
        if stop is Stop.BUTLER or exhausted or not report.has_moved:
            self._finished.add(group)
        return stop
