"""Consolidation: episodes become facts and rules.

claim a leased batch → read what is known → pure prompt → completion with no connection held,
the lease renewed meanwhile → pure parse and plan → artifacts, links, events and the terminal
state in one transaction that the lease guards → report.
"""

import asyncio
from pathlib import Path
from typing import Any

import structlog

from butlers.db.lease import to_its_end
from butlers.db.postgres import Row
from butlers.errors import ButlersError, Unavailable
from butlers.llm import CompletionFailed, LanguageModel
from butlers.memory.flows import consolidation_lease as leases
from butlers.memory.flows.consolidation_apply import Applied, Effect, apply
from butlers.memory.flows.consolidation_lease import Claimed, GivenBack
from butlers.memory.flows.consolidation_report import ConsolidationReport
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, Maturity, Permanence
from butlers.memory.policy.consolidation import (
    Known,
    KnownFact,
    KnownRule,
    answer_schema,
    build_prompt,
)
from butlers.memory.policy.consolidation_parser import parse_consolidation
from butlers.memory.policy.consolidation_plan import Batch, plan
from butlers.memory.store import consolidation

TRIGGER = "schedule:consolidation"
TEMPLATE = Path(__file__).parents[1].joinpath("consolidation.md").read_text(encoding="utf-8")

_log = structlog.get_logger(__name__)


class _NoSession(Exception):
    """No session could be had: a spent budget, a runtime that is not there."""


async def run_consolidation(
    memory: Memory, model: LanguageModel | None, lineage: Lineage
) -> ConsolidationReport:
    """Consolidate a batch of each butler's episodes; without a model nothing at all changes."""
    claimable = await _claimable(memory, lineage)
    if model is None:
        return ConsolidationReport.of_dry_run(claimable)
    reports = [await _group(memory, model, butler, lineage) for butler in claimable]
    return ConsolidationReport.of_groups(reports)


async def consolidate_all(
    memory: Memory, model: LanguageModel | None, actor: str
) -> dict[str, ConsolidationReport]:
    """Consolidate for every tenant; the failure of one is reported and stops no other."""
    return {
        tenant: await _tenant(memory, model, Lineage(tenant, actor))
        for tenant in await memory.database.tenants()
    }


async def _tenant(
    memory: Memory, model: LanguageModel | None, lineage: Lineage
) -> ConsolidationReport:
    try:
        return await run_consolidation(memory, model, lineage)
    except Exception as error:  # noqa: BLE001 - one tenant's failure must not reach another's
        _log.warning("consolidation_failed", tenant=lineage.tenant_id, error=_name(error))
        return ConsolidationReport(errors=[_told(error)], dry_run=model is None)


async def _claimable(memory: Memory, lineage: Lineage) -> dict[str, int]:
    """How many episodes of each butler a run would take, in butler order."""
    size, now = memory.settings.consolidation.batch_size, memory.now()
    async with memory.transaction(lineage) as tx:
        rows = await consolidation.find_claimable(tx, batch_size=size, now=now)
    return {row["butler"]: row["episodes"] for row in rows}


async def _group(
    memory: Memory, model: LanguageModel, butler: str, lineage: Lineage
) -> ConsolidationReport:
    """What became of one butler's episodes; a failure here stops no other butler."""
    try:
        claimed = await leases.claim(memory, butler, lineage)
        if not claimed.episodes:
            return ConsolidationReport(
                episodes_failed=claimed.failed, episodes_dead_lettered=claimed.dead_lettered
            )
        return await _settled(memory, model, claimed, lineage)
    except Exception as error:  # noqa: BLE001 - one group's failure must not block the others
        _log.warning("consolidation_group_failed", butler=butler, error=_name(error))
        return ConsolidationReport(errors=[f"{butler}: {_told(error)}"])


async def _settled(
    memory: Memory, model: LanguageModel, claimed: Claimed, lineage: Lineage
) -> ConsolidationReport:
    """The attempt's report; whatever ends it early, the episodes are given back."""
    try:
        applied = await _attempt(memory, model, claimed, lineage)
    except asyncio.CancelledError:
        # A caller that is gone may cancel again and again; letting go must not be cut short.
        await to_its_end(leases.release(memory, claimed.lease, lineage))
        raise
    except _NoSession as error:
        _log.warning("consolidation_not_attempted", butler=claimed.butler, error=_told(error))
        await leases.release(memory, claimed.lease, lineage)
        return _unfinished(claimed, GivenBack(0, 0), [_told(error)])
    except Exception as error:  # noqa: BLE001 - whatever failed, the attempt counts as failed
        _log.warning("consolidation_attempt_failed", butler=claimed.butler, error=_name(error))
        return await _failed(memory, claimed, [_told(error)], lineage)
    if applied.errors and not applied.effects:
        _log.warning(
            "consolidation_attempt_failed", butler=claimed.butler, errors=len(applied.errors)
        )
        return await _failed(memory, claimed, applied.errors, lineage)
    return _finished(claimed, applied)


async def _attempt(
    memory: Memory, model: LanguageModel, claimed: Claimed, lineage: Lineage
) -> Applied:
    known = await _known(memory, claimed, lineage)
    prompt = build_prompt(TEMPLATE, claimed.episodes, known)
    completion = _complete(memory, model, prompt)
    answer = await leases.while_held(memory, claimed.lease, lineage, completion)
    batch = Batch(claimed.butler, claimed.lease.episode_ids)
    planned = plan(parse_consolidation(answer), batch, known, memory.settings)
    return await apply(memory, claimed, known, planned, lineage)


async def _complete(memory: Memory, model: LanguageModel, prompt: str) -> str:
    """The model's answer; a session that could not be had at all is no attempt."""
    try:
        completion = await model.complete(
            prompt,
            schema=answer_schema(),
            timeout_seconds=memory.settings.consolidation.timeout_seconds,
            label=TRIGGER,
        )
    except CompletionFailed:
        raise
    except Unavailable as error:
        raise _NoSession(str(error)) from error
    return completion.text


async def _known(memory: Memory, claimed: Claimed, lineage: Lineage) -> Known:
    """What the prompt shows of what this butler knows."""
    settings = memory.settings.consolidation
    asked = {"butler": claimed.butler, "episode_ids": claimed.lease.episode_ids}
    async with memory.transaction(lineage) as tx:
        facts = await consolidation.find_known_facts(tx, limit=settings.max_known_facts, **asked)
        rules = await consolidation.find_known_rules(tx, limit=settings.max_known_rules, **asked)
    return Known(
        facts={row["id"]: _fact(row) for row in facts},
        rules={
            row["id"]: KnownRule(row["id"], row["content"], Maturity(row["maturity"]))
            for row in rules
        },
    )


def _fact(row: Row) -> KnownFact:
    columns = {**row, "permanence": Permanence(row["permanence"])}
    return KnownFact(**columns | {"tags": tuple(map(str, row["tags"]))})


async def _failed(
    memory: Memory, claimed: Claimed, errors: list[str], lineage: Lineage
) -> ConsolidationReport:
    back = await leases.give_back(memory, claimed.lease, "; ".join(errors), lineage)
    return _unfinished(claimed, back, errors)


def _unfinished(claimed: Claimed, back: GivenBack, errors: list[str]) -> ConsolidationReport:
    return ConsolidationReport(
        **_group_of(claimed),
        episodes_failed=back.failed,
        episodes_dead_lettered=claimed.dead_lettered + back.dead_lettered,
        errors=[f"{claimed.butler}: {error}" for error in errors],
    )


def _finished(claimed: Claimed, applied: Applied) -> ConsolidationReport:
    return ConsolidationReport(
        **_group_of(claimed),
        facts_created=applied.effects[Effect.FACT_CREATED],
        facts_updated=applied.effects[Effect.FACT_UPDATED],
        rules_created=applied.effects[Effect.RULE_CREATED],
        confirmations_made=applied.effects[Effect.CONFIRMED],
        episodes_consolidated=len(claimed.episodes),
        episodes_dead_lettered=claimed.dead_lettered,
        errors=[f"{claimed.butler}: {error}" for error in applied.errors],
    )


def _group_of(claimed: Claimed) -> dict[str, Any]:
    episodes = len(claimed.episodes)
    return {
        "episodes_processed": episodes,
        "butlers_processed": 1,
        "groups": {claimed.butler: episodes},
    }


def _name(error: Exception) -> str:
    return type(error).__name__


def _told(error: Exception) -> str:
    """What may be told of an error: our own messages carry no content, a stranger's might."""
    ours = isinstance(error, ButlersError | _NoSession)
    return str(error) if ours else f"unexpected {_name(error)}"
