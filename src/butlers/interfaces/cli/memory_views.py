"""Print what memory operations answer: one view per operation."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from butlers.interfaces.cli.commands import View
from butlers.interfaces.cli.inbox_view import show_inbox
from butlers.interfaces.cli.memory_details import (
    field_value,
    show_doubts,
    show_events,
    show_explanation,
    show_memory,
    show_merge_preview,
    show_unmerge,
    show_verification,
)
from butlers.interfaces.cli.output import (
    excerpt,
    listed,
    number,
    short_id,
    show_fields,
    show_line,
    show_table,
)
from butlers.kernel.word_tables import load_tables

Row = Mapping[str, Any]
_MEMORY = ("kind", "id", "content")
_SCORES = {"relevance": "relevance", "similarity": "similarity", "rank": "keywords"}
_PARTS = {"rel": "relevance", "imp": "importance", "rec": "recency", "conf": "confidence"}
_CONFLICT_KINDS = {"conflict": "contradicts", "same": "repeats"}
_MOST_COLUMNS = 6


def _search_results(memories: Sequence[Row], _: Row) -> None:
    if not memories:
        show_line("nothing found")
        return
    names = [name for name in _SCORES if any(name in memory for memory in memories)]
    scores = [_SCORES[name] for name in names]
    rows = [[*(number(memory.get(name)) for name in names), *_cells(memory)] for memory in memories]
    show_table([*scores, *_MEMORY], rows, right=scores, wraps=("content",))


def _recall_results(memories: Sequence[Row], _: Row) -> None:
    if not memories:
        show_line("no memory answers this; --nearest shows the closest one")
        return
    scores = ("score", *_PARTS)
    rows = [
        [
            number(memory["composite_score"]),
            *(number(memory["score_parts"][part]) for part in _PARTS.values()),
            *_cells(memory),
        ]
        for memory in memories
    ]
    show_table([*scores, *_MEMORY], rows, right=scores, wraps=("content",))
    if memories[0].get("unsure"):
        show_line("unsure: no memory answers this, these come nearest")


def _cells(memory: Row) -> list[str]:
    return [memory["memory_type"], short_id(memory["id"]), excerpt(memory)]


def _fields(answer: Row, _: Row) -> None:
    show_fields(*((name, field_value(name, value)) for name, value in answer.items()))


def _undone(report: Row, given: Row) -> None:
    """Print how much an undo takes, then the memories that it takes, leaves or may take too."""
    lists = {name: rows for name, rows in report.items() if isinstance(rows, list)}
    _fields({name: value for name, value in report.items() if name not in lists}, given)
    for name, (title, *columns) in _TABLES["undone"].items():
        if lists[name]:
            show_line(title)
            _rows("", *columns)(lists[name], given)


def _counts(counts: Mapping[str, Row], _: Row) -> None:
    rows = [
        (kind, name.replace("_", " "), listed(counts[kind][name]))
        for kind in ("episodes", "facts", "rules", "inbox")
        for name in counts[kind]
        if counts[kind][name] is not None
    ]
    show_table(("kind", "state", "count"), rows, right=("count",))


def _consolidation(report: Row, given: Row) -> None:
    if report["dry_run"]:
        waiting = f"nothing consolidated, {report['episodes_processed']} waiting"
        show_line(f"{waiting}: no language model is configured; set runtime.kind in butler.toml")
    else:
        _anything(report, given)


def _rule(rule: Row, _: Row) -> None:
    marks = f"{rule['success_count']} helpful, {rule['harmful_count']} harmful"
    effectiveness = number(rule["effectiveness_score"])
    show_line(f"{rule['maturity']}, effectiveness {effectiveness} ({marks}): {excerpt(rule)}")


def _page(show_items: View) -> View:
    """Print the items of a page, and how to get the next one."""

    def show(page: Row, given: Row) -> None:
        show_items(page["items"], given)
        if page["next_cursor"]:
            show_line(f"next page: --cursor {page['next_cursor']}")

    return show


def _rows(if_empty: str, *columns: str) -> View:
    def show(rows: Sequence[Row], _: Row) -> None:
        if not rows:
            show_line(if_empty)
            return
        cells = [[_cell(name, row.get(name)) for name in columns] for row in rows]
        show_table(
            [name.replace("_", " ") for name in columns], cells, wraps=("content", "original")
        )

    return show


def _cell(name: str, value: Any) -> str:
    if name == "id" or name.endswith("_id"):
        return short_id(str(value))
    return number(value) if isinstance(value, float) else field_value(name, value)


def _entity(answer: Row, given: Row) -> None:
    _fields(answer["entity"], given)
    columns = ("id", "predicate", "content", "state")
    _rows("no facts about this entity", *columns)(answer["facts"], given)


def _conflicts(conflicts: Sequence[Row], _: Row) -> None:
    if not conflicts:
        show_line("no open conflicts")
        return
    rows = [
        [short_id(row["id"]), excerpt(row["newer"]), excerpt(row["older"]), row["why"]]
        for row in conflicts
    ]
    titles = ("conflict", "newer", "older", "reason")
    show_table(titles, rows, wraps=titles[1:])


def _store_result(kind: str) -> View:
    """Print what was stored, the conflicts it has and the memories it put in doubt."""

    def show(answer: Row, given: Row) -> None:
        show_line(_outcome(answer, kind) + _about(answer))
        for conflict in answer.get("conflicts") or ():
            verb = _CONFLICT_KINDS[conflict["kind"]]
            show_line(f"it {verb} “{conflict['says']}”: {conflict['why']}")
            show_line(
                f"  butlers conflicts settle {short_id(conflict['id'])} newer|older|both|since|same"
            )
        _new_doubts(answer)

    return show


def _outcome(stored: Row, kind: str) -> str:
    confirmed, replaced = stored.get("confirmed"), stored.get("superseded_id")
    parts = [f"{'confirmed' if confirmed and not replaced else 'stored'} {kind} {stored['id']}"]
    if replaced:
        parts.append(f", {'restates' if confirmed else 'replaces'} {replaced}")
    dates = (("valid_from", "since"), ("valid_to", "until"), ("expires_at", "kept at least until"))
    parts += [f", {word} {at[:10]}" for name, word in dates if (at := stored.get(name))]
    parts.append(f"; secrets masked: {masked}" if (masked := stored.get("masked")) else "")
    return "".join(parts)


def _about(answer: Row) -> str:
    if answer.get("anchored"):
        new = "new entity" if answer.get("entity_created") else "entity"
        return f", about {new} {answer['entity_id']}"
    candidates = answer.get("entity_candidates")
    if not candidates:
        return ""
    best = candidates[0]
    likely = f"{best['canonical_name']} {best['entity_id']} (ahead by {number(answer['margin'])})"
    return f"; the subject may name {len(candidates)} or more entities, most likely {likely}"


def _new_doubts(answer: Row) -> None:
    for memory in answer.get("in_doubt") or ():
        kind, id = memory["memory_type"], short_id(memory["id"])
        show_line(f"in doubt now: {kind} {id}: {memory['says']}")
    if answer.get("in_doubt"):
        show_line("review them with: butlers conflicts doubts")


def _decisions(rows: list[Row], given: Row) -> None:
    """Print each decision that holds on a line, and under it those that it made past."""
    for row in rows:
        show_line(f"{short_id(row['id'])} {row['decided_at'][:10]} {row['content']}")
        for past in row["earlier"]:
            show_line(f"{short_id(past['id'])} {past['line']}", indent=2)
    if not rows:
        show_line("no decisions yet")


def _done(word: str) -> View:
    """Print that something was done to the memory that was named."""

    def show(answer: Row, given: Row) -> None:
        named = (given.get("memory_type"), given["memory_id"])
        show_line(f"{word} {' '.join(filter(None, named))}")

    return show


def _forgotten(answer: Row, given: Row) -> None:
    _done("forgot")(answer, given)
    _new_doubts(answer)
    for episode in answer.get("sources_forgotten") or ():
        show_line(f"also forgot episode {short_id(episode['id'])}: {episode['says']}")
    for episode in answer.get("sources") or ():
        show_line(f"its source episode remains: {episode['says']}")
        show_line(f"  butlers forget episode {episode['id']}")


def _anything(answer: Any, given: Row) -> None:
    """Print an answer without a view of its own: a table of rows, or fields."""
    rows = answer.get("items") if isinstance(answer, dict) else answer
    if rows is None:
        show_memory(answer, given) if "memory_type" in answer else _fields(answer, given)
        return
    columns = dict.fromkeys(name for row in rows for name in row)
    _rows("nothing found", *list(columns)[:_MOST_COLUMNS])(rows, given)


_TABLES = load_tables(__file__)
VIEWS: Mapping[str, View] = {
    "": _anything,
    "search": _search_results,
    "recall": _recall_results,
    "context": lambda context, _: typer.echo(context["text"], nl=False),
    "history": show_events,
    "explain": show_explanation,
    "forget": _forgotten,
    "list_doubts": show_doubts,
    "mark_helpful": _rule,
    "mark_harmful": _rule,
    "create_link": lambda answer, _: show_line("linked" if answer["linked"] else "already linked"),
    "list_conflicts": _page(_conflicts),
    "list_inbox": lambda items, _: show_inbox(items),
    "list_decisions": _decisions,
    "activity": _page(show_events),
    "stats": _counts,
    "undo_source": _undone,
    "overview": _counts,
    "create_entity": lambda answer, _: show_line(f"created entity {answer['entity_id']}"),
    "explain_entity": _entity,
    "preview_merge": show_merge_preview,
    "unmerge_entities": show_unmerge,
    "run_consolidation": _consolidation,
    "requeue": lambda answer, _: show_line(f"requeued {answer['requeued']}"),
    "verify_events": show_verification,
    **{name: _rows(*row) for name, row in _TABLES["rows"].items()},
    **{name: _page(_rows(*row)) for name, row in _TABLES["pages"].items()},
    **{name: _done(word) for name, word in _TABLES["done"].items()},
    **{name: _store_result(kind) for name, kind in _TABLES["stored"].items()},
}
