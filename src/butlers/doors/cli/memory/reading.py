"""`butlers memory search`, `recall`, `context`, `get` and `stats`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.doors.cli.memory.asking import (
    LimitOption,
    ReferenceArgument,
    ScopeSeenOption,
    TenantOption,
    ask,
    nothing_there,
    reference,
)
from butlers.doors.cli.memory.wording import number, plain, says, state, when
from butlers.doors.cli.options import ButlerOption, HomeOption, JsonOption
from butlers.doors.cli.tables import Column, short_id, show_fields, show_json, show_line, show_table

if TYPE_CHECKING:
    from butlers.doors.python import Context, Recalled

_MEMORY = (Column("kind"), Column("id"), Column("says", wraps=True))
_SCORES = {"rrf_score": "score", "similarity": "meaning", "rank": "words"}
_PARTS = {"rel": "relevance", "imp": "importance", "rec": "recency", "conf": "confidence"}
_SHOWN_FIRST = ("memory_type", "id", "subject", "predicate", "content")
_TOLD_BY_STATE = ("state", "validity", "maturity", "consolidation_status", "consolidated")


def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    mode: Annotated[
        str | None, typer.Option(help="hybrid, semantic or keyword [default: the butler's].")
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="fact, rule or episode; may be repeated.")
    ] = None,
    scope: ScopeSeenOption = None,
    limit: LimitOption = 10,
    min_confidence: Annotated[
        float | None, typer.Option(help="Leave out what has faded below it, 0 to 1.")
    ] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find memories by meaning and by words, with their scores."""
    found = ask(
        butler,
        home,
        tenant,
        lambda memory: memory.search(
            query,
            types=types or (),
            scope=scope,
            mode=mode,
            limit=limit,
            min_confidence=min_confidence,
        ),
    )
    if as_json:
        show_json(found)
    else:
        _show_found(found)


def recall(
    topic: Annotated[str, typer.Argument(help="What it is about.")],
    scope: ScopeSeenOption = None,
    limit: LimitOption = 10,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recall what matters about a topic; it counts as a use.

    Each score comes with its parts: relevance, importance, recency and confidence.
    """
    found = ask(butler, home, tenant, lambda memory: memory.recall(topic, scope=scope, limit=limit))
    if as_json:
        from butlers.memory.flows.recall import as_recalled

        show_json([as_recalled(one) for one in found])
    else:
        _show_recalled(found)


def context(
    prompt: Annotated[str, typer.Argument(help="What the agent is about to be asked.")],
    budget: Annotated[
        int | None, typer.Option(help="Most tokens it may take [default: the butler's].")
    ] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the block an agent would start with, and nothing else."""
    built = ask(butler, home, tenant, lambda memory: memory.context(prompt, token_budget=budget))
    if as_json:
        show_json(_context_json(built))
    else:
        typer.echo(built.text, nl=False)


def get(
    given: ReferenceArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read one memory whole, whatever its state; it counts as a use."""
    kind, memory_id = reference(given)
    found = ask(butler, home, tenant, lambda memory: memory.get(memory_id, kind))
    if found is None:
        raise nothing_there(butler, kind or "memory", memory_id)
    if as_json:
        show_json(found)
    else:
        show_fields(_fields(found))


def stats(
    scope: ScopeSeenOption = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count memories by kind and state."""
    counted = ask(butler, home, tenant, lambda memory: memory.stats(scope))
    if as_json:
        show_json(counted)
        return
    from butlers.memory.tools.results import Stats

    ordered = Stats.model_validate(counted).model_dump(exclude_none=True)
    rows = [
        (kind, name.replace("_", " "), plain(value))
        for kind, counts in ordered.items()
        for name, value in counts.items()
    ]
    show_table((Column("kind"), Column("state"), Column("count", "right")), rows)


def _show_found(found: Sequence[Mapping[str, Any]]) -> None:
    if not found:
        show_line("nothing found")
        return
    scores = [name for name in _SCORES if any(name in one for one in found)]
    columns = [*(Column(_SCORES[name], "right") for name in scores), *_MEMORY]
    rows = [
        [*(number(one.get(name), 4 if name == "rrf_score" else 2) for name in scores), *_cells(one)]
        for one in found
    ]
    show_table(columns, rows)


def _show_recalled(found: "Sequence[Recalled]") -> None:
    if not found:
        show_line("nothing to recall")
        return
    columns = [Column(title, "right") for title in ("score", *_PARTS)]
    rows = [
        [
            number(one.composite_score),
            *(number(asdict(one.parts)[part]) for part in _PARTS.values()),
            *_cells({**one.row, "memory_type": one.ref.type, "id": str(one.ref.id)}),
        ]
        for one in found
    ]
    show_table([*columns, *_MEMORY], rows)


def _cells(memory: Mapping[str, Any]) -> list[str]:
    return [memory["memory_type"], short_id(memory["id"]), says(memory)]


def _fields(memory: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything a memory has that says something, what it is first."""
    first = [name for name in _SHOWN_FIRST if name in memory]
    rest = [name for name in memory if name not in (*first, *_TOLD_BY_STATE)]
    told = [(name, _value(name, memory[name])) for name in (*first, *rest)]
    told.insert(len(first), ("state", state(memory)))
    return [(name.replace("_", " "), value) for name, value in told if value]


def _value(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return when(value)
    return "" if value in (None, [], {}) else plain(value)


def _context_json(built: "Context") -> dict[str, Any]:
    included = [
        {"section": section, "memory_type": line.ref.type, "id": str(line.ref.id)}
        for section, lines in built.block.included.items()
        for line in lines
    ]
    return {"text": built.text, "tokens": built.block.tokens, "included": included}
