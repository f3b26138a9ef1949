"""The inbox: one operation that lists everything that waits for a person."""

from typing import Annotated, Any

from butlers.kernel.word_tables import load_tables
from butlers.memory.flows import inbox
from butlers.memory.flows.inbox import WaitingKind
from butlers.memory.operations import input_fields
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext
from butlers.memory.operations.results import Instant, MemoryKind
from butlers.memory.policy import suspicion
from butlers.operation import Output, Route

_KINDS = load_tables(suspicion.__file__, "inbox.toml")


class Decision(Output):
    """What a person can decide, and the operation that does it."""

    decision: str
    does: str
    operation: str
    arguments: dict[str, Any]
    command: str


class WaitingItem(Output):
    """Something that waits for a person's decision, with both sides."""

    kind: str
    id: str
    memory_type: MemoryKind | None
    what: str
    says: str
    """What it says; only a person gets the text of a quarantined memory."""
    other: str | None
    """The other side: the older fact, what it would replace or what it depends on."""
    why: str
    source: str
    since: Instant
    decisions: list[Decision]


class InboxInput(input_fields.Limited):
    """Which of what waits."""

    kind: Annotated[WaitingKind, *input_fields.word(WaitingKind)] | None = None
    """Only this kind, e.g. quarantined, proposal, conflict or session."""


@OPERATIONS.add(
    output=list[WaitingItem],
    command="inbox",
    example="inbox --kind conflict",
    routes=(Route("GET", "/inbox", wraps="items"),),
)
async def list_inbox(ctx: OperationContext, params: InboxInput) -> list[dict[str, Any]]:
    """List everything that waits for a person's decision, the longest waiting first.

    Quarantined memories, proposals, conflicts, duplicates, memories in doubt, a person's rules
    reported harmful, and sessions that could not be stored. Only a person decides: `butlers review`
    asks one by one. Returns each with what it says, the other side, why it waits, its source and
    the decisions possible.
    """
    rows = await inbox.find_waiting(ctx.memory, params.limit, params.kind, ctx.lineage)
    sessions = ctx.sessions_aside() if ctx.lineage.origin.is_person else []
    rows += [row for row in sessions if params.kind in (None, WaitingKind.SESSION)]
    return [_item(row) for row in sorted(rows, key=lambda row: row["since"])[: params.limit]]


def _item(row: dict[str, Any]) -> dict[str, Any]:
    kind = _KINDS[row["kind"]]
    by = row["stored_by"] and f"by {row['stored_by']}"
    other = row["other"] and f"{kind.get('other', 'the other')}: {row['other']}"
    content = row["content"] or "(only a person sees it)"
    says = f"{row['subject']} {row['predicate']}: {content}" if row["predicate"] else content
    return {
        **{name: row[name] for name in ("kind", "memory_type", "why", "since")},
        "id": str(row["id"]),
        "what": kind["what"].format(**row),
        "says": says,
        "other": other,
        "source": ", ".join(filter(None, (row["origin"], by))),
        "decisions": [_decision(decision, row) for decision in kind["decisions"]],
    }


def _decision(decision: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    operation = OPERATIONS[decision["operation"]]
    given = decision.get("arguments", {})
    arguments = {operation.arguments[0]: str(row["id"]), **given}
    if "memory_type" in operation.fields:
        arguments["memory_type"] = row["memory_type"]
    command = " ".join(("butlers", operation.command, str(row["id"]), *given.values()))
    return {**decision, "arguments": arguments, "command": command}
