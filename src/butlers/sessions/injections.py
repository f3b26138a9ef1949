"""What a session is given at its start, a prompt or a tool call, and how useful it has been."""

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from butlers.db.postgres import Row
from butlers.db.queries import load
from butlers.db.statements import Rows
from butlers.memory.flows.context import Context
from butlers.memory.flows.prompt_context import LEAST_USES, PromptContext
from butlers.memory.model import MemoryRef, MemoryType
from butlers.memory.operations import OperationContext
from butlers.memory.policy.context import ContextLine
from butlers.memory.policy.focus import Focused
from butlers.sessions.verdicts import Verdict, keys

_SQL = load(__file__)
_find_uses = Rows(_SQL["find_uses"])
_find_given = Rows(_SQL["find_given"])

MAX_LEFT_OUT = 5
USES_DAYS = 30
"""Within how many days the use of a memory counts."""
_MOST_USES = 500
_LOWEST, _HIGHEST = 0.8, 1.15
_NO_ROOM, _KNOWN, _BELOW = "no room", "already told in this session", "below the gate"
_DECIDED = "decided in a session about this"


class Delivery(StrEnum):
    """How an injection ended."""

    DELIVERED = "delivered"
    NOTHING = "nothing"
    LATE = "late"
    """Found by words alone, because embedding took too long."""
    FAILED = "failed"


class InjectionEvent(StrEnum):
    """When a session is given memories."""

    START = "start"
    PROMPT = "prompt"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class InjectedLine:
    """A memory as it was delivered, and why."""

    memory_type: MemoryType
    id: UUID
    text: str
    why: str = ""
    relevance: float | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A memory that came near, and why it was left out."""

    memory_type: MemoryType
    id: UUID
    relevance: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Injection:
    """One delivery of a context to a session: the text, its memories, and what was left out."""

    text: str = ""
    lines: tuple[InjectedLine, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    tokens: int = 0
    outcome: Delivery = Delivery.NOTHING

    @property
    def ids(self) -> tuple[UUID, ...]:
        """The memories in it."""
        return tuple(line.id for line in self.lines)


def as_injection(text: str, context: Context) -> Injection:
    """Return the injection of a text that was made from a context."""
    block = context.block
    lines = [_line(context, one) for some in block.included.values() for one in some]
    rest = [one.ref for some in block.left_out.values() for one in some]
    left_out = [LeftOut(ref.type, ref.id, _relevance(context, ref), _NO_ROOM) for ref in rest]
    outcome = Delivery.DELIVERED if text else Delivery.NOTHING
    return Injection(text, tuple(lines), tuple(left_out[:MAX_LEFT_OUT]), block.tokens, outcome)


def prompt_injection(text: str, found: PromptContext, known: Set[UUID] = frozenset()) -> Injection:
    """Return the injection of a prompt: what it got, and what came near but was left out."""
    block, chosen = found.block, {one.ref: one for one in found.chosen}
    given = [line for some in block.included.values() for line in some]
    lines = [_prompt_line(chosen[line.ref], line) for line in given]
    rest = [one for ref, one in chosen.items() if ref not in {line.ref for line in given}]
    left_out = [
        LeftOut(one.ref.type, one.id, one.relevance, _KNOWN if one.id in known else _NO_ROOM)
        for one in rest
    ]
    left_out += [LeftOut(ref.type, ref.id, near, _BELOW) for ref, near in found.nearest.items()]
    delivered = Delivery.LATE if found.by_words else Delivery.DELIVERED
    outcome = delivered if text else Delivery.NOTHING
    tokens = block.tokens if text else 0
    return Injection(text, tuple(lines), tuple(left_out[:MAX_LEFT_OUT]), tokens, outcome)


def _prompt_line(one: Focused, line: ContextLine) -> InjectedLine:
    why = f"relevance {one.relevance:.2f}" if one.relevance else _DECIDED
    return InjectedLine(one.ref.type, one.id, line.text.strip(), why, one.relevance)


def _line(context: Context, line: ContextLine) -> InjectedLine:
    ref, near = line.ref, _relevance(context, line.ref)
    always = "recent" if ref.type is MemoryType.EPISODE else "standing"
    why = always if near is None else f"relevance {near:.2f}"
    return InjectedLine(ref.type, ref.id, line.text.strip(), why, near)


def _relevance(context: Context, ref: MemoryRef) -> float | None:
    recalled = context.recalled.get(ref)
    return recalled.parts.relevance if recalled else None


async def usefulness(
    ctx: OperationContext, ids: Sequence[UUID], prompt: str = ""
) -> dict[UUID, float]:
    """Return by how much the use of memories so far changes their rank for a prompt; one read.

    A memory that is missing counts 1: it was given too rarely, or not for a while.
    """
    if not ids or not ctx.memory.settings.context.learn_from_use:
        return {}
    words, uses = keys(prompt), defaultdict[UUID, list[tuple[bool, int]]](list)
    for row in await _uses(ctx, ids):
        weight = 2 if words & keys(row["asked"]) else 1  # a prompt like this one says more
        uses[row["memory_id"]].append((row["verdict"] == Verdict.USED, weight))
    return {id: factor(some) for id, some in uses.items() if len(some) >= LEAST_USES}


async def find_given(ctx: OperationContext, session_id: str) -> set[str]:
    """Return the ids of the memories that a session was given since it last started."""
    async with ctx.memory.database.transaction(ctx.lineage.tenant_id) as tx:
        rows = await _find_given(tx, session_id=session_id)
    return {str(row["memory_id"]) for row in rows}


async def count_verdicts(
    ctx: OperationContext, ids: Sequence[UUID]
) -> dict[UUID, Counter[Verdict]]:
    """Count what became of memories at prompts within the last 30 days."""
    counts: defaultdict[UUID, Counter[Verdict]] = defaultdict(Counter)
    for row in await _uses(ctx, ids):
        counts[row["memory_id"]][Verdict(row["verdict"])] += 1
    return dict(counts)


async def _uses(ctx: OperationContext, ids: Sequence[UUID]) -> list[Row]:
    since = ctx.memory.now() - timedelta(days=USES_DAYS)
    # Not of the memory: that would wait until the uses of earlier answers are counted.
    async with ctx.memory.database.transaction(ctx.lineage.tenant_id) as tx:
        return await _find_uses(tx, ids=list(ids), since=since, limit=_MOST_USES)


def factor(uses: Sequence[tuple[bool, int]]) -> float:
    """Return 0.8 for what was never used, 1 for what was used half of the time, at most 1.15."""
    share = sum(weight for used, weight in uses if used) / sum(weight for _, weight in uses)
    bound = _HIGHEST if share > 0.5 else _LOWEST  # noqa: PLR2004 - half
    return 1 + (bound - 1) * abs(2 * share - 1)
