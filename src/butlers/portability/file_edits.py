"""Take over what was edited in the files of a project's memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from uuid import UUID

from butlers.errors import Conflict, Forbidden
from butlers.memory.flows.proposals import propose_edit
from butlers.memory.model import MemoryType, NewFact, NewRule, Origin
from butlers.memory.operations import OPERATIONS
from butlers.memory.operations.operation_context import OperationContext
from butlers.portability.memory_files import (
    DECISIONS,
    FACTS,
    RULES,
    SESSIONS,
    Line,
    fingerprint,
    read_files,
    read_state,
)

Kind = Literal["correct", "forget", "store", "propose", "not read"]
Written = dict[str, list[str]]
"""By id, the file in which a memory was written, and its fingerprint."""
_BOTH = "the memory has changed as well"


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a file, and what it becomes."""

    kind: Kind
    line: Line
    """What the file says now, with the id of the memory."""
    before: str = ""
    why: str = ""


def find_edits(directory: Path, known: Sequence[Line]) -> list[Edit]:
    """Compare the files with what was written last, and with what the memory says now."""
    written: Written = read_state(directory)["lines"]
    current, found = {line.id: line for line in known}, read_files(directory)
    ids = {line.id for line in found}
    edits = [
        Edit("forget", current[id], current[id].text)
        for id, (file, _) in written.items()
        # A file that is missing was not edited: it is written anew.
        if id not in ids and id in current and (directory / file).exists()
    ]
    edits += filter(None, (_edit(line, current.get(line.id), written) for line in found))
    return edits


def _edit(line: Line, now: Line | None, written: Written) -> Edit | None:
    """Return what a line becomes; None if nobody edited it."""
    _, was = written.get(line.id, ("", ""))
    if line.id and fingerprint(line) in (was, now and fingerprint(now)):
        return None
    if line.file.startswith(SESSIONS) and line.mark:
        return Edit("not read", line, why="a session is a record; it is not edited")
    if now is None:
        why = _why_unread(line)
        if why or was:
            return Edit("not read" if why else "propose", line, why=why or "it has changed since")
        return Edit("store", line)
    if not line.text.startswith(now.prefix):
        return Edit("not read", line, now.text, "another predicate is another fact: add a line")
    changed = replace(now, text=line.text.removeprefix(now.prefix))
    has_changed = fingerprint(now) != was
    return Edit("propose" if has_changed else "correct", changed, now.text, _BOTH * has_changed)


def _why_unread(line: Line) -> str:
    """Say why a line that is no memory cannot become one, or nothing."""
    if not line.mark:
        return "only lines that begin with `- ` are read"
    if line.file == DECISIONS:
        return "a new decision is said in a session, or written as a rule"
    if line.file == FACTS and not (line.group and _predicate(line)[1]):
        return "a fact stands under a subject, as `- predicate: what holds`"
    return ""


def _predicate(line: Line) -> tuple[str, str]:
    predicate, _, content = line.text.partition(": ")
    return (line.prefix.removesuffix(": "), line.text) if line.prefix else (predicate, content)


async def apply(
    ctx: OperationContext, edits: Sequence[Edit], scope: str, *, confirmed: bool
) -> list[Line]:
    """Take edits over; return the lines that stay as they are in their files.

    What no person confirmed comes from a document. What may not be changed is proposed.
    """
    if not confirmed and ctx.lineage.origin.is_person:
        ctx = replace(ctx, lineage=replace(ctx.lineage, origin=Origin.DOCUMENT))
    return [edit.line for edit in edits if not await _is_taken(ctx, edit, scope)]


async def _is_taken(ctx: OperationContext, edit: Edit, scope: str) -> bool:
    line, ask = edit.line, OPERATIONS
    if edit.kind == "store":
        given = {**_fields_of(line), "scope": scope, "idempotency_key": f"file:{scope}:{line.text}"}
        await ask["store_rule" if line.file == RULES else "store_fact"].perform(ctx, **given)
        return True
    try:
        if edit.kind == "forget":
            await ask["forget"].perform(ctx, memory_id=line.id, memory_type=line.type)
            return True
        if edit.kind == "correct":
            await ask["correct"].perform(ctx, fact_id=line.id, content=line.text)
            return True
    except (Conflict, Forbidden):
        pass
    if edit.kind == "not read" or line.type is MemoryType.EPISODE:
        return False
    new = NewRule(line.text, scope) if line.file == RULES else NewFact(*_fact(line), scope=scope)
    await propose_edit(ctx.memory, new, UUID(line.id) if line.id else None, ctx.lineage)
    return True


def _fields_of(line: Line) -> dict[str, str]:
    if line.file == RULES:
        return {"content": line.text}
    return dict(zip(("subject", "predicate", "content"), _fact(line), strict=True))


def _fact(line: Line) -> tuple[str, str, str]:
    return line.group, *_predicate(line)
