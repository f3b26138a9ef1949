"""Print what memory operations answer: one view per operation."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from butlers.interfaces.cli.commands import View
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
    TableColumn,
    excerpt,
    listed,
    number,
    short_id,
    show_fields,
    show_line,
    show_table,
)

Row = Mapping[str, Any]
_MEMORY = (TableColumn("kind"), TableColumn("id"), TableColumn("content", wraps=True))
_SCORES = {"relevance": "relevance", "similarity": "similarity", "rank": "keywords"}
_PARTS = {"rel": "relevance", "imp": "importance", "rec": "recency", "conf": "confidence"}
_CONFLICT = (
    TableColumn("conflict"), TableColumn("newer", wraps=True), TableColumn("older", wraps=True),
    TableColumn("reason", wraps=True),
)  # fmt: skip
_CONFLICT_KINDS = {"conflict": "contradicts", "same": "repeats"}
_MOST_COLUMNS = 6


def _search_results(memories: Sequence[Row], _: Row) -> None:
    if not memories:
        show_line("nothing found")
        return
    scores = [name for name in _SCORES if any(name in memory for memory in memories)]
    columns = [*(TableColumn(_SCORES[name], "right") for name in scores), *_MEMORY]
    rows = [
        [*(number(memory.get(name)) for name in scores), *_cells(memory)] for memory in memories
    ]
    show_table(columns, rows)


def _recall_results(memories: Sequence[Row], _: Row) -> None:
    if not memories:
        show_line("no memory answers this; --nearest lists the closest ones")
        return
    columns = [TableColumn(title, "right") for title in ("score", *_PARTS)]
    rows = [
        [
            number(memory["composite_score"]),
            *(number(memory["score_parts"][part]) for part in _PARTS.values()),
            *_cells(memory),
        ]
        for memory in memories
    ]
    show_table([*columns, *_MEMORY], rows)


def _cells(memory: Row) -> list[str]:
    return [memory["memory_type"], short_id(memory["id"]), excerpt(memory)]


def _fields(answer: Row, _: Row) -> None:
    fields = [(name, field_value(name, value)) for name, value in answer.items()]
    show_fields([(name.replace("_", " "), value) for name, value in fields if value])


def _counts(counts: Mapping[str, Row], _: Row) -> None:
    rows = [
        (kind, name.replace("_", " "), listed(counts[kind][name]))
        for kind in ("episodes", "facts", "rules")
        for name in counts[kind]
        if counts[kind][name] is not None
    ]
    show_table((TableColumn("kind"), TableColumn("state"), TableColumn("count", "right")), rows)


def _consolidation(report: Row, given: Row) -> None:
    if not report["dry_run"]:
        _anything(report, given)
        return
    show_line(
        f"nothing consolidated, {report['episodes_processed']} waiting: no language model is "
        "configured; set runtime.kind in butler.toml"
    )


def _rule(rule: Row, _: Row) -> None:
    counted = f"{rule['success_count']} helpful, {rule['harmful_count']} harmful"
    show_line(
        f"{rule['maturity']}, effectiveness {number(rule['effectiveness_score'])} "
        f"({counted}): {excerpt(rule)}"
    )


def _page(*columns: str) -> View:
    def show(page: Row, _: Row) -> None:
        _table(page["items"], columns)
        _next_page(page)

    return show


def _next_page(page: Row) -> None:
    if page["next_cursor"]:
        show_line(f"next page: --cursor {page['next_cursor']}")


def _rows(if_empty: str, *columns: str) -> View:
    def show(rows: Sequence[Row], _: Row) -> None:
        _table(rows, columns, if_empty)

    return show


def _table(rows: Sequence[Row], columns: Sequence[str], if_empty: str = "nothing found") -> None:
    if not rows:
        show_line(if_empty)
        return
    titles = [TableColumn(name.replace("_", " "), wraps=name == "content") for name in columns]
    show_table(titles, [[_cell(name, row.get(name)) for name in columns] for row in rows])


def _cell(name: str, value: Any) -> str:
    if name == "id" or name.endswith("_id"):
        return short_id(str(value))
    return number(value) if isinstance(value, float) else field_value(name, value)


def _activity(page: Row, given: Row) -> None:
    show_events(page["items"], given)
    _next_page(page)


def _entity(answer: Row, given: Row) -> None:
    _fields(answer["entity"], given)
    _table(answer["facts"], ("id", "predicate", "content", "state"), "no facts about this entity")


def _conflicts(page: Row, _: Row) -> None:
    """Print a page of conflicts; ids are whole, because `settle` needs them."""
    if not page["items"]:
        show_line("no open conflicts")
        return
    rows = [
        [row["id"], excerpt(row["newer"]), excerpt(row["older"]), row["why"]]
        for row in page["items"]
    ]
    show_table(_CONFLICT, rows)
    _next_page(page)


def _store_result_lines(kind: str) -> View:
    """Print what was stored, the conflicts it has and the memories it put in doubt."""

    def show(answer: Row, given: Row) -> None:
        show_line(_outcome(answer, kind) + _about(answer))
        for conflict in answer.get("conflicts") or ():
            verb = _CONFLICT_KINDS[conflict["kind"]]
            show_line(f"it {verb} “{conflict['says']}”: {conflict['why']}")
            show_line(f"  butlers memory settle {conflict['id']} newer|older|both|since|same")
        _new_doubts(answer)

    return show


def _outcome(stored: Row, kind: str) -> str:
    confirmed, replaced = stored.get("confirmed"), stored.get("superseded_id")
    parts = [f"{'confirmed' if confirmed and not replaced else 'stored'} {kind} {stored['id']}"]
    if replaced:
        parts.append(f", {'restates' if confirmed else 'replaces'} {replaced}")
    dates = (("valid_from", "since"), ("valid_to", "until"), ("expires_at", "expires"))
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
        show_line("review them with: butlers memory doubts")


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
        show_line(f"  butlers memory forget episode {episode['id']}")


def _anything(answer: Any, given: Row) -> None:
    """Print an answer without a view of its own: a table of rows, or fields."""
    rows = answer.get("items") if isinstance(answer, dict) else answer
    if rows is None:
        show_memory(answer, given) if "memory_type" in answer else _fields(answer, given)
        return
    columns = dict.fromkeys(name for row in rows for name in row)
    _table(rows, list(columns)[:_MOST_COLUMNS])


_MODELS = _rows("nothing is stored yet", "tenant", "model", "state", "embedded", "of")
VIEWS: Mapping[str, View] = {
    "": _anything,
    "store_episode": _store_result_lines("episode"),
    "store_fact": _store_result_lines("fact"),
    "store_rule": _store_result_lines("rule"),
    "correct": _store_result_lines("fact"),
    "undo_correction": _store_result_lines("fact"),
    "search": _search_results,
    "recall": _recall_results,
    "context": lambda context, _: typer.echo(context["text"], nl=False),
    "history": show_events,
    "explain": show_explanation,
    "confirm": _done("confirmed"),
    "forget": _forgotten,
    "keep": _done("kept"),
    "list_doubts": show_doubts,
    "restore": _done("restored"),
    "mark_helpful": _rule,
    "mark_harmful": _rule,
    "create_link": lambda answer, _: show_line("linked" if answer["linked"] else "already linked"),
    "get_links": _rows(
        "no links", "source_type", "source_id", "relation", "target_type", "target_id"
    ),
    "list_facts": _page("id", "state", "subject", "predicate", "content"),
    "list_rules": _page("id", "state", "maturity", "content"),
    "list_episodes": _page("id", "created_at", "consolidation_status", "content"),
    "list_entities": _page("id", "entity_type", "canonical_name", "aliases", "active_facts"),
    "list_conflicts": _conflicts,
    "activity": _activity,
    "stats": _counts,
    "overview": _counts,
    "create_entity": lambda answer, _: show_line(f"created entity {answer['entity_id']}"),
    "explain_entity": _entity,
    "preview_merge": show_merge_preview,
    "unmerge_entities": show_unmerge,
    "resolve_entity": _rows(
        "no entity found", "score", "name_match", "entity_id", "entity_type", "canonical_name"
    ),
    "run_consolidation": _consolidation,
    "requeue": lambda answer, _: show_line(f"requeued {answer['requeued']}"),
    "dead_letters": _rows(
        "no dead letters", "id", "consolidation_attempts", "dead_letter_reason", "content"
    ),
    "removed_episodes": _rows("the bin is empty", "id", "reason", "binned_at", "until", "content"),
    "list_projects": _rows("no projects yet", "id", "name", "memories", "shared", "moved_to"),
    "embedding_models": _MODELS,
    "reembed": _MODELS,
    "verify_events": show_verification,
}
