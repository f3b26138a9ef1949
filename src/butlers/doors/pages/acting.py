"""The buttons of a memory's page: each leads to the flow that the tools and the API lead to."""

from typing import Any, Literal
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from butlers.doors.http import judging, storing
from butlers.doors.http.seats import Seat
from butlers.doors.pages.asked import read
from butlers.doors.pages.memory import KINDS, Kinds
from butlers.doors.pages.routing import PageRoute, go_to
from butlers.doors.pages.visits import Name, Sending
from butlers.errors import Conflict
from butlers.memory.flows.correct import correct_fact
from butlers.memory.flows.dead_letters import requeue
from butlers.memory.flows.detail import memory_detail
from butlers.memory.flows.feedback import confirm_memory
from butlers.memory.flows.forget import forget_memory
from butlers.memory.flows.restore import restore_memory
from butlers.memory.model import MemoryType

router = APIRouter(route_class=PageRoute)
_PATH = "/butlers/{name}/memory"
_FLOWS = {
    "confirm": (confirm_memory, "confirmed"),
    "forget": (forget_memory, "forgotten"),
    "restore": (restore_memory, "restored"),
}


@router.post(_PATH + "/rules/{rule_id}/helpful")
async def helpful(sent: Sending, name: Name, rule_id: UUID) -> Response:
    """Say that following a rule helped."""
    await judging.helpful(sent.visit.seat(name), rule_id)
    return _shown(name, "rules", rule_id, "helpful")


@router.post(_PATH + "/rules/{rule_id}/harmful")
async def harmful(sent: Sending, name: Name, rule_id: UUID) -> Response:
    """Say that following a rule did harm, and why."""
    harm = read(judging.Harm, {"reason": sent.form.optional("reason")})
    await judging.harmful(sent.visit.seat(name), rule_id, harm)
    return _shown(name, "rules", rule_id, "harmful")


@router.post(_PATH + "/facts/{fact_id}/correct")
async def correct(sent: Sending, name: Name, fact_id: UUID) -> Response:
    """Put a fact right: a new one takes its place."""
    fields = {key: sent.form.optional(key) for key in ("permanence", "importance")}
    correction = read(storing.Correction, {"content": sent.form["content"], **fields})
    stored = await storing.correct(sent.visit.seat(name), fact_id, correction)
    return _shown(name, "facts", stored["id"], "corrected")


@router.post(_PATH + "/facts/{fact_id}/undo")
async def undo_correction(sent: Sending, name: Name, fact_id: UUID) -> Response:
    """Let a fact say again what the one it replaced said; both stay readable."""
    seat = sent.visit.seat(name)
    before = await _replaced(seat, fact_id)
    stored = await correct_fact(
        seat.memory,
        fact_id,
        before["content"],
        seat.lineage,
        importance=before["importance"],
        permanence=before["permanence"],
    )
    return _shown(name, "facts", stored.id, "undone")


@router.post(_PATH + "/episodes/{episode_id}/requeue")
async def try_again(sent: Sending, name: Name, episode_id: UUID) -> Response:
    """Give a dead letter another chance."""
    seat = sent.visit.seat(name)
    if not await requeue(seat.memory, [episode_id], seat.lineage):
        raise Conflict("this episode is no dead letter any more; open it again to see how it is")
    return _shown(name, "episodes", episode_id, "requeued")


# After the actions of single kinds: its path would match theirs.
@router.post(_PATH + "/{kinds}/{memory_id}/{action}")
async def change(
    sent: Sending,
    name: Name,
    kinds: Kinds,
    memory_id: UUID,
    action: Literal["confirm", "forget", "restore"],
) -> Response:
    """Confirm a memory, forget it, or take that back."""
    seat = sent.visit.seat(name)
    flow, word = _FLOWS[action]
    if not await flow(seat.memory, KINDS[kinds], memory_id, seat.lineage):
        raise Conflict(
            f"nothing was {word}: meanwhile its state changed; open it again to see how it is"
        )
    return _shown(name, kinds, memory_id, word)


async def _replaced(seat: Seat, fact_id: UUID) -> dict[str, Any]:
    """The fact that another replaced, as it was."""
    detail = await memory_detail(seat.memory, MemoryType.FACT, fact_id, seat.lineage)
    replaced = detail["replaced"] if detail else []
    before = None
    if replaced:
        known = UUID(replaced[0]["id"])
        before = await memory_detail(seat.memory, MemoryType.FACT, known, seat.lineage)
    if before is None:
        raise Conflict("this fact replaced no other, so there is nothing to go back to")
    found: dict[str, Any] = before["memory"]
    return found


def _shown(name: str, kinds: str, memory_id: UUID | str, word: str) -> Response:
    return go_to(f"/butlers/{name}/memory/{kinds}/{memory_id}?done={word}")
