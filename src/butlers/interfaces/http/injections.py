"""Routes for injections: what a session was given, why something was not, and what it was worth."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from butlers.interfaces.http.access import ButlerAccess, CurrentAccess
from butlers.memory.operations import OperationContext
from butlers.memory.operations.results import Instant
from butlers.operation import Output
from butlers.sessions import proof

router = APIRouter(tags=["sessions"])
SessionId = Annotated[str, Path(max_length=100, description="Its id, or the beginning of it.")]


class LineShown(Output):
    """A memory as it was delivered."""

    memory_type: str
    id: str
    text: str
    why: str
    relevance: float | None
    verdict: str | None
    """used, ignored or harmful; null until it is judged."""


class LeftOutShown(Output):
    """A memory that came near and was left out."""

    memory_type: str
    id: str
    relevance: float | None
    why: str


class InjectionShown(Output):
    """What a session was given once."""

    id: str
    session_id: str
    project: str
    agent: str
    at: Instant
    event: str
    """start, prompt or tool."""
    asked: str
    """The beginning of the prompt, secrets masked."""
    outcome: str
    """delivered, nothing, late (found by words alone) or failed."""
    reason: str | None
    tokens: int
    milliseconds: int
    lines: list[LineShown]
    left_out: list[LeftOutShown]
    sentences: list[str]


class InjectionList(Output):
    """What a session was given, oldest first."""

    injections: list[InjectionShown]


class PromptAnswer(Output):
    """Why a memory was not given at one prompt, or that it was."""

    at: Instant
    asked: str
    answer: str


class WhyNot(Output):
    """A memory, and the answer for each prompt of a session."""

    memory_type: str
    id: str
    text: str
    prompts: list[PromptAnswer]


class WorthSums(Output):
    """How many prompts were given memory, and what became of it."""

    prompts: int
    given: int
    used: int
    ignored: int
    harmful: int
    unjudged: int
    failed: int
    late: int
    tokens: int


class WorthOf(WorthSums):
    """The same for one project and agent."""

    project: str
    agent: str


class MemoryWorth(Output):
    """How often a memory was used, ignored or corrected."""

    memory_type: str
    id: str
    text: str
    used: int
    ignored: int
    harmful: int


class Worth(WorthSums):
    """What memory was worth."""

    days: int
    starts: int
    start_tokens: int
    by: list[WorthOf]
    most_used: list[MemoryWorth]
    most_ignored: list[MemoryWorth]
    sentences: list[str]


@router.get("/sessions/{session_id}/injections", response_model=InjectionList)
async def list_injections(access: CurrentAccess, session_id: SessionId) -> Any:
    """List what a session was given: what and why, what came near, and what became of it."""
    session = await access.butler.session_log.get(access.caller.tenant_id, session_id)
    ctx = _context(access)
    return {"injections": await proof.injections_of(ctx, access.butler.injections, session.id)}


@router.get("/sessions/{session_id}/why-not", response_model=WhyNot)
async def explain_absence(
    access: CurrentAccess,
    session_id: SessionId,
    memory: Annotated[str, Query(max_length=1_000, description="A memory's id, or what it says.")],
) -> Any:
    """Explain for each prompt of a session why a memory was not given."""
    session = await access.butler.session_log.get(access.caller.tenant_id, session_id)
    ctx = _context(access)
    return await proof.absence_of(ctx, access.butler.injections, session.id, memory)


@router.get("/worth", response_model=Worth)
async def sum_up_worth(
    access: CurrentAccess,
    days: Annotated[int, Query(ge=1, le=3_650, description="Over how many days.")] = 30,
) -> Any:
    """Sum up what memory was worth: given, used, ignored, corrected; by project and agent."""
    return await proof.worth_of(access.butler.injections, access.caller.tenant_id, days)


def _context(access: ButlerAccess) -> OperationContext:
    return OperationContext.of(access.butler.memory, access.caller, access.request_id)
