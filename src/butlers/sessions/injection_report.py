"""Say in sentences what a session was given, why, and what became of it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from butlers.memory.model import MemoryRef
from butlers.memory.operations import OperationContext
from butlers.memory.store.search import load_memories
from butlers.sessions.echo import memories_in
from butlers.sessions.injection_log import InjectionRecord
from butlers.sessions.injections import Delivery, InjectionEvent, LeftOut, count_verdicts
from butlers.sessions.log import excerpt
from butlers.sessions.verdicts import Verdict

_TEXT = 160
_BECAME = {
    Verdict.USED: "the answer used it",
    Verdict.IGNORED: "the answer did not use it",
    Verdict.HARMFUL: "the user corrected it",
    None: "not judged yet",
}
_EVENTS = {
    InjectionEvent.START: "The session started",
    InjectionEvent.PROMPT: "Prompt",
    InjectionEvent.TOOL: "Before or after a tool call",
}
Texts = Mapping[UUID, str]
Counts = Mapping[UUID, Counter[Verdict]]


def count_of(number: int, unit: str) -> str:
    """Return a number with its unit: 1 prompt, 2,000 prompts."""
    return f"{number:,} {unit}" + ("" if number == 1 else "s")


def plain_line(line: str) -> str:
    """Return a line of a context as a person reads it, without its figures."""
    parts = [f"{subject}: {text}" if subject else text for subject, text in memories_in(line)]
    return excerpt("; ".join(parts) or line, _TEXT)


async def report(ctx: OperationContext, records: Sequence[InjectionRecord]) -> list[dict[str, Any]]:
    """Return each injection as JSON values, with `sentences` that tell it."""
    ids = {line.id for record in records for line in record.lines}
    counts = await count_verdicts(ctx, sorted(ids))
    left_out = [one for record in records for one in record.left_out]
    texts = await _texts(ctx, left_out)
    return [
        {**record.shown(), "sentences": list(_sentences(record, texts, counts))}
        for record in records
    ]


async def _texts(ctx: OperationContext, left_out: Sequence[LeftOut]) -> dict[UUID, str]:
    refs = list({MemoryRef(one.memory_type, one.id) for one in left_out})
    if not refs:
        return {}
    rows = await load_memories(ctx.memory.database, ctx.lineage.tenant_id, refs, ctx.memory.now())
    return {ref.id: excerpt(str(row["content"]), _TEXT) for ref, row in rows.items()}


def _sentences(record: InjectionRecord, texts: Texts, counts: Counts) -> Iterator[str]:
    asked = f": “{record.asked}”" if record.asked else ""
    yield f"{record.at:%Y-%m-%d %H:%M} {_EVENTS[record.event]}{asked}."
    yield _delivery(record)
    for line in record.lines:
        became = _BECAME[record.verdicts.get(str(line.id))]
        often = _often(counts.get(line.id, Counter()))
        yield f"Given: {plain_line(line.text)} ({line.why}; {became}{often})"
    for one in record.left_out:
        near = "" if one.relevance is None else f"relevance {one.relevance:.2f}, "
        text = texts.get(one.id, f"a {one.memory_type} that no longer exists")
        yield f"Left out: {text} ({near}{one.why})"


def _delivery(record: InjectionRecord) -> str:
    spent = f"{count_of(record.tokens, 'token')} in {record.milliseconds} ms"
    if record.outcome is Delivery.FAILED:
        return f"Memory was not delivered: {record.reason or 'the reason is not known'}."
    if record.outcome is Delivery.LATE:
        return f"Found by words alone, because the search by meaning was late: {spent}."
    if not record.lines:
        return "Nothing was given: no memory came near enough."
    return f"{count_of(len(record.lines), 'line')} given, {spent}."


def _often(counts: Counter[Verdict]) -> str:
    """Say how often a memory was ignored, if that is more than once."""
    ignored = counts[Verdict.IGNORED]
    return f"; ignored {count_of(ignored, 'time')} in 30 days" if ignored > 1 else ""
