"""Confirming, marking, forgetting and taking back."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field

from butlers.doors.http.answers import Restored
from butlers.doors.http.asking import Asked
from butlers.doors.http.seats import Seat, Seated
from butlers.memory.flows.feedback import confirm_memory, mark_harmful, mark_helpful
from butlers.memory.flows.forget import forget_memory
from butlers.memory.flows.restore import restore_memory
from butlers.memory.model import MemoryType
from butlers.memory.policy.inputs import MAX_REASON
from butlers.memory.tools.results import Confirmation, Forgetting, MarkedRule

router = APIRouter(tags=["writing"])


class Harm(Asked):
    """What went wrong when the rule was followed."""

    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = None


@router.post("/facts/{fact_id}/confirm", response_model=Confirmation)
async def confirm_fact(seat: Seated, fact_id: UUID) -> Any:
    """Say that a fact still holds; false when none that holds has this id."""
    return await _confirm(seat, MemoryType.FACT, fact_id)


@router.post("/facts/{fact_id}/forget", response_model=Forgetting)
async def forget_fact(seat: Seated, fact_id: UUID) -> Any:
    """Retract a fact; false when there is none, or it was retracted before."""
    return await _forget(seat, MemoryType.FACT, fact_id)


@router.post("/facts/{fact_id}/restore", response_model=Restored)
async def restore_fact(seat: Seated, fact_id: UUID) -> Any:
    """Take back that a fact was forgotten; 409 when another has taken its place."""
    return await _restore(seat, MemoryType.FACT, fact_id)


@router.post("/rules/{rule_id}/confirm", response_model=Confirmation)
async def confirm_rule(seat: Seated, rule_id: UUID) -> Any:
    """Say that a rule still holds; false when none in use has this id."""
    return await _confirm(seat, MemoryType.RULE, rule_id)


@router.post("/rules/{rule_id}/helpful", response_model=MarkedRule)
async def helpful(seat: Seated, rule_id: UUID) -> Any:
    """Say that following a rule helped; it may rise a step."""
    return await mark_helpful(seat.memory, rule_id, seat.lineage)


@router.post("/rules/{rule_id}/harmful", response_model=MarkedRule)
async def harmful(seat: Seated, rule_id: UUID, asked: Harm) -> Any:
    """Say that following a rule did harm; it may fall a step or become a warning."""
    return await mark_harmful(seat.memory, rule_id, asked.reason, seat.lineage)


@router.post("/rules/{rule_id}/forget", response_model=Forgetting)
async def forget_rule(seat: Seated, rule_id: UUID) -> Any:
    """Forget a rule; false when there is none, or it was forgotten before."""
    return await _forget(seat, MemoryType.RULE, rule_id)


@router.post("/rules/{rule_id}/restore", response_model=Restored)
async def restore_rule(seat: Seated, rule_id: UUID) -> Any:
    """Take back that a rule was forgotten."""
    return await _restore(seat, MemoryType.RULE, rule_id)


@router.post("/episodes/{episode_id}/forget", response_model=Forgetting)
async def forget_episode(seat: Seated, episode_id: UUID) -> Any:
    """Let an episode expire at once; cleanup removes it."""
    return await _forget(seat, MemoryType.EPISODE, episode_id)


async def _confirm(seat: Seat, kind: MemoryType, memory_id: UUID) -> dict[str, bool]:
    return {"confirmed": await confirm_memory(seat.memory, kind, memory_id, seat.lineage)}


async def _forget(seat: Seat, kind: MemoryType, memory_id: UUID) -> dict[str, bool]:
    return {"forgotten": await forget_memory(seat.memory, kind, memory_id, seat.lineage)}


async def _restore(seat: Seat, kind: MemoryType, memory_id: UUID) -> dict[str, bool]:
    return {"restored": await restore_memory(seat.memory, kind, memory_id, seat.lineage)}
