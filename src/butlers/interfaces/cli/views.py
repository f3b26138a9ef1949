"""What operations of the memory answer, as a person reads it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from butlers.interfaces.cli import writing_views
from butlers.interfaces.cli.commands import View
from butlers.interfaces.cli.conflicts import show_conflicts
from butlers.interfaces.cli.doubts import doubted, validity_lines, with_doubts, with_sources
from butlers.interfaces.cli.tables import Column, short_id, show_fields, show_line, show_table
from butlers.interfaces.cli.wording import (
    change,
    happened,
    listed,
    number,
    says,
    state,
    times,
    when,
)

Row = Mapping[str, Any]
_MEMORY = (Column("kind"), Column("id"), Column("says", wraps=True))
_SCORES = {"relevance": "relevance", "similarity": "meaning", "rank": "words"}
_PARTS = {"rel": "relevance", "imp": "importance", "rec": "recency", "conf": "confidence"}
_SHOWN_FIRST = ("memory_type", "id", "subject", "predicate", "content")
_TOLD_BY_STATE = ("state", "validity", "maturity", "consolidation_status", "consolidated")
_IN_USE = ("active", "fading")
_MOST_COLUMNS = 6


def _result_lines(found: Sequence[Row], _: Row) -> None:
    if not found:
        show_line("nothing found")
        return
    scores = [name for name in _SCORES if any(name in one for one in found)]
    columns = [*(Column(_SCORES[name], "right") for name in scores), *_MEMORY]
    rows = [[*(number(one.get(name)) for name in scores), *_cells(one)] for one in found]
    show_table(columns, rows)


def _recalled(found: Sequence[Row], _: Row) -> None:
    if not found:
        show_line("nothing that is remembered answers this; --nearest shows what comes nearest")
        return
    columns = [Column(title, "right") for title in ("score", *_PARTS)]
    rows = [
        [
            number(one["composite_score"]),
            *(number(one["score_parts"][part]) for part in _PARTS.values()),
            *_cells(one),
        ]
        for one in found
    ]
    show_table([*columns, *_MEMORY], rows)


def _cells(memory: Row) -> list[str]:
    return [memory["memory_type"], short_id(memory["id"]), says(memory)]


def _memory(memory: Row, _: Row) -> None:
    """Everything a memory has that says something, what it is first."""
    first = [name for name in _SHOWN_FIRST if name in memory]
    rest = [name for name in memory if name not in (*first, *_TOLD_BY_STATE)]
    told = [(name, _value(name, memory[name])) for name in (*first, *rest)]
    told.insert(len(first), ("state", state(memory)))
    show_fields([(name.replace("_", " "), value) for name, value in told if value])


def _fields(answer: Row, _: Row) -> None:
    told = [(name, _value(name, value)) for name, value in answer.items()]
    show_fields([(name.replace("_", " "), value) for name, value in told if value])


def _value(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return when(value)
    return "" if value in (None, [], {}) else listed(value)


def _counts(counted: Mapping[str, Row], _: Row) -> None:
    rows = [
        (kind, name.replace("_", " "), listed(counted[kind][name]))
        for kind in ("episodes", "facts", "rules")
        for name in counted[kind]
        if counted[kind][name] is not None
    ]
    show_table((Column("kind"), Column("state"), Column("count", "right")), rows)


def _consolidation(report: Row, given: Row) -> None:
    if not report["dry_run"]:
        _anything(report, given)
        return
    show_line(
        f"nothing was done, for there is no language model: {report['episodes_processed']} "
        "waiting; name one in [runtime] of butler.toml"
    )


def _rule(rule: Row, _: Row) -> None:
    counted = f"{rule['success_count']} helpful, {rule['harmful_count']} harmful"
    show_line(
        f"{rule['maturity']}, effectiveness {number(rule['effectiveness_score'])} "
        f"({counted}): {says(rule)}"
    )


def _events(told: Sequence[Row], _: Row) -> None:
    titles = ("when (UTC)", "what", "by", "request")
    columns = [*(Column(title) for title in titles), Column("change", wraps=True)]
    show_table(columns, [_event(event) for event in told])


def _event(event: Row) -> list[str]:
    return [
        when(event["created_at"]),
        happened(event["event_type"]),
        event["actor"] or "–",
        event["request_id"] or "–",
        change(event["payload"]),
    ]


def _listed(*columns: str) -> View:
    """A page of a listing, and how to ask for the next."""

    def show(page: Row, _: Row) -> None:
        _table(page["items"], columns)
        if page["next_cursor"]:
            show_line(f"there is more: --cursor {page['next_cursor']}")

    return show


def _rows(otherwise: str, *columns: str) -> View:
    def show(rows: Sequence[Row], _: Row) -> None:
        _table(rows, columns, otherwise)

    return show


def _table(rows: Sequence[Row], columns: Sequence[str], otherwise: str = "nothing there") -> None:
    if not rows:
        show_line(otherwise)
        return
    titles = [Column(name.replace("_", " "), wraps=name == "content") for name in columns]
    show_table(titles, [[_cell(name, row.get(name)) for name in columns] for row in rows])


def _cell(name: str, value: Any) -> str:
    if name == "id" or name.endswith("_id"):
        return short_id(str(value))
    return number(value) if isinstance(value, float) else _value(name, value)


def _activity(page: Row, given: Row) -> None:
    _events(page["items"], given)
    if page["next_cursor"]:
        show_line(f"there is more: --cursor {page['next_cursor']}")


def _explained(told: Row, _: Row) -> None:
    memory = told["memory"]
    fields = [
        (told["memory_type"], f"{memory['id']}\n{says(memory)}"),
        ("state", state(memory)),
        *validity_lines(told),
        ("confidence", _confidence(told)),
        ("stored", _by(memory["created_at"], told["stored_by"], told["source_butler"])),
        ("said by", memory["origin"] + (", less trusted" if memory["trust"] < 4 else "")),
        ("from", _lines(_source(one) for one in told["source_episodes"])),
        ("replaced", _lines(_version(one) for one in told["replaced"])),
        ("replaced by", _lines(_version(one) for one in told["replaced_by"])),
        ("confirmed", _lines(_by(one["at"], one["by"]) for one in told["confirmations"])),
        ("applied", _lines(_application(one) for one in told["applications"])),
        ("links", _lines(_link(one, memory["id"]) for one in told["links"])),
        ("used", times(told["reference_count"])),
        ("fades", when(told["fades_at"])),
        ("expires", when(told["expires_at"])),
    ]
    show_fields([(name, value) for name, value in fields if value])


def _confidence(told: Row) -> str:
    """What is left of it now; nothing for an episode, or for what is no longer in use."""
    if told["effective_confidence"] is None or told["memory"]["state"] not in _IN_USE:
        return ""
    kept = f"{number(told['effective_confidence'])} now"
    permanence = told["memory"].get("permanence")
    return f"{kept} ({permanence})" if permanence else kept


def _by(instant: str, actor: str | None, butler: str | None = None) -> str:
    by = f" by {actor}" if actor else ""
    return f"{when(instant)}{by}{f' (butler {butler})' if butler else ''}"


def _source(episode: Row) -> str:
    if episode["gone"]:
        return f"episode {short_id(episode['id'])}, which is gone"
    return f"episode {short_id(episode['id'])} of {when(episode['created_at'])}: {says(episode)}"


def _version(fact: Row) -> str:
    return f"{short_id(fact['id'])} of {when(fact['created_at'])}: {fact['content']}"


def _application(use: Row) -> str:
    by, lost = _by(use["created_at"], use["actor"]), "" if use["counted"] else ", not counted"
    return ": ".join(filter(None, (f"{by}, {use['outcome']}{lost}", use["reason"])))


def _link(link: Row, memory_id: str) -> str:
    leaves = link["source_id"] == memory_id
    kind, other = ("target_type", "target_id") if leaves else ("source_type", "source_id")
    named = f"{link[kind]} {short_id(link[other])}"
    return f"{link['relation']} {named}" if leaves else f"{named} {link['relation']} it"


def _lines(lines: Iterable[str]) -> str:
    """One line each, whatever they say."""
    return "\n".join(" ".join(line.split()) for line in lines)


def _entity(told: Row, given: Row) -> None:
    _fields(told["entity"], given)
    _table(told["facts"], ("id", "predicate", "content", "state"), "nothing is known about it")


def _anything(answer: Any, given: Row) -> None:
    """An answer that needs no form of its own: a table of rows, or fields."""
    rows = answer.get("items") if isinstance(answer, dict) else answer
    if rows is None:
        _memory(answer, given) if "memory_type" in answer else _fields(answer, given)
        return
    columns = dict.fromkeys(name for row in rows for name in row)
    _table(rows, list(columns)[:_MOST_COLUMNS])


_MODELS = _rows(
    "nothing is stored yet, so no model is in use", "tenant", "model", "state", "embedded", "of"
)
VIEWS: Mapping[str, View] = {
    "": _anything,
    "store_episode": writing_views.store_result_view("episode"),
    "store_fact": with_doubts(writing_views.store_result_view("fact")),
    "store_rule": writing_views.store_result_view("rule"),
    "correct": with_doubts(writing_views.store_result_view("fact")),
    "undo_correction": with_doubts(writing_views.store_result_view("fact")),
    "search": _result_lines,
    "recall": _recalled,
    "context": lambda built, _: typer.echo(built["text"], nl=False),
    "history": _events,
    "explain": _explained,
    "confirm": writing_views.done("confirmed"),
    "forget": with_sources(with_doubts(writing_views.done("forgot"))),
    "keep": writing_views.done("kept"),
    "list_doubts": doubted,
    "restore": writing_views.done("restored"),
    "mark_helpful": _rule,
    "mark_harmful": _rule,
    "create_link": lambda told, _: show_line("linked" if told["linked"] else "linked already"),
    "get_links": _rows(
        "no links", "source_type", "source_id", "relation", "target_type", "target_id"
    ),
    "list_facts": _listed("id", "state", "subject", "predicate", "content"),
    "list_rules": _listed("id", "state", "maturity", "content"),
    "list_episodes": _listed("id", "created_at", "consolidation_status", "content"),
    "list_entities": _listed("id", "entity_type", "canonical_name", "aliases", "active_facts"),
    "list_conflicts": show_conflicts,
    "activity": _activity,
    "stats": _counts,
    "overview": _counts,
    "create_entity": lambda told, _: show_line(f"created entity {told['entity_id']}"),
    "explain_entity": _entity,
    "preview_merge": writing_views.merge_preview,
    "unmerge_entities": writing_views.parted,
    "resolve_entity": _rows(
        "not known", "score", "name_match", "entity_id", "entity_type", "canonical_name"
    ),
    "run_consolidation": _consolidation,
    "requeue": lambda told, _: show_line(f"requeued {told['requeued']}"),
    "dead_letters": _rows(
        "no dead letters", "id", "consolidation_attempts", "dead_letter_reason", "content"
    ),
    "removed_episodes": _rows("the bin is empty", "id", "reason", "binned_at", "until", "content"),
    "list_projects": _rows(
        "no session worked in a project yet", "id", "name", "memories", "shared", "moved_to"
    ),
    "embedding_models": _MODELS,
    "reembed": _MODELS,
}
