"""Print one memory or entity in detail: explanation, history, doubts, merges, the audit trail."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from butlers.interfaces.cli.output import (
    excerpt,
    is_reported,
    listed,
    number,
    plain,
    short_id,
    show_fields,
    show_line,
    show_table,
    when,
)
from butlers.kernel.word_tables import load_tables

Row = Mapping[str, Any]
_FIRST_FIELDS = ("memory_type", "id", "subject", "predicate", "content")
_STATE_FIELDS = ("state", "validity", "maturity", "consolidation_status", "consolidated")
_IN_USE = ("active", "fading")
_FAULTS: dict[str, str] = load_tables(__file__, "memory_views.toml")["faults"]


def show_memory(memory: Row, _: Row) -> None:
    """Print every field of a memory that has a value, its content first."""
    first = [name for name in _FIRST_FIELDS if name in memory]
    rest = [name for name in memory if name not in (*first, *_STATE_FIELDS)]
    fields = [(name, field_value(name, memory[name])) for name in (*first, *rest)]
    show_fields(*fields[: len(first)], ("state", _state(memory)), *fields[len(first) :])


def field_value(name: str, value: Any) -> str:
    """Format one field of an answer; empty where it has no value."""
    if name.endswith("_at"):
        return when(value)
    return "" if value in (None, [], {}) else listed(value)


def _state(memory: Row) -> str:
    if "consolidation_status" in memory:
        return str(memory["consolidation_status"])
    own = "feedback from its author only" if memory.get("own_marks") else ""
    harm = "reported harmful" if is_reported(memory) else ""
    return ", ".join(filter(None, (str(memory["state"]), memory.get("maturity"), own, harm)))


def show_explanation(answer: Row, _: Row) -> None:
    """Print where a memory came from, what it is based on and what became of it."""
    memory = answer["memory"]
    show_fields(
        (answer["memory_type"], f"{memory['id']}\n{excerpt(memory)}"),
        ("state", _state(memory)),
        ("valid", _window(memory, answer.get("holds"))),
        ("based on", _lines(map(_ground, answer.get("grounds", ())))),
        ("outdated by", _lines(map(_ground, answer.get("outdated_by", ())))),
        ("in doubt", "yes" if memory.get("in_doubt") else ""),
        ("confidence", _confidence(answer)),
        ("stored", _by(memory["created_at"], answer["stored_by"], answer["source_butler"])),
        ("origin", memory["origin"] + (" (low trust)" if memory["trust"] < 4 else "")),
        ("source", _lines(map(_source, answer["source_episodes"]))),
        ("replaced", _lines(map(_version, answer["replaced"]))),
        ("replaced by", _lines(map(_version, answer["replaced_by"]))),
        ("confirmed", _lines(_by(event["at"], event["by"]) for event in answer["confirmations"])),
        ("applied", _lines(map(_application, answer["applications"]))),
        ("links", _lines(_link(link, memory["id"]) for link in answer["links"])),
        ("used", _times(answer["reference_count"])),
        ("fades", when(answer["fades_at"])),
        ("expires", when(answer["expires_at"])),
    )


def _window(memory: Row, holds: bool | None) -> str:
    since, until = memory.get("valid_from"), memory.get("valid_to")
    if since is None and until is None:
        return ""
    if since == until:
        return "never: it was corrected"
    return _span((since, until)) + ("" if holds else ", not at the requested time")


def _span(ends: Sequence[str | None]) -> str:
    begin, end = ends
    if begin is not None and begin == end:
        return "never"
    words = [f"since {when(begin)}" if begin else "", f"until {when(end)}" if end else ""]
    return " ".join(filter(None, words)) or "always"


def _ground(ground: Row) -> str:
    """Describe a memory that another is based on, and what happened to it."""
    kind, id = ground.get("memory_type") or "memory", short_id(ground["id"])
    content = f": {excerpt(ground)}" if ground.get("content") else ""
    if ground["stands"]:
        return f"{kind} {id}{content}"
    last = ground.get("event_type")
    event = f" ({_event_name(last)} {when(ground['happened_at'])})" if last else ""
    return f"{kind} {id}{content}, {ground['state']}{event}"


def _confidence(answer: Row) -> str:
    """The confidence left now; empty for an episode and for a memory no longer in use."""
    if answer["effective_confidence"] is None or answer["memory"]["state"] not in _IN_USE:
        return ""
    now = f"{number(answer['effective_confidence'])} now"
    permanence = answer["memory"].get("permanence")
    return f"{now} ({permanence})" if permanence else now


def _by(instant: str, actor: str | None, butler: str | None = None) -> str:
    by = f" by {actor}" if actor else ""
    return f"{when(instant)}{by}{f' (butler {butler})' if butler else ''}"


def _source(episode: Row) -> str:
    if episode["gone"]:
        return f"episode {short_id(episode['id'])} (deleted)"
    return f"episode {short_id(episode['id'])} of {when(episode['created_at'])}: {excerpt(episode)}"


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


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(" ".join(line.split()) for line in lines)


def show_events(events: Sequence[Row], _: Row) -> None:
    """Print audit events, one row each."""
    rows = [
        [
            when(event["created_at"]),
            _event_name(event["event_type"]),
            event["actor"] or "–",
            event["request_id"] or "–",
            change(event["payload"]),
        ]
        for event in events
    ]
    show_table(("when (UTC)", "event", "by", "request", "change"), rows, wraps=("change",))


def _event_name(event_type: str) -> str:
    return event_type.replace("_", " ")


def change(payload: Row) -> str:
    """Describe what an event changed, from what to what, and its other fields."""
    moved = [_move("", payload)] if "to" in payload else []
    rest = [_as_words(key, value) for key, value in payload.items() if key not in ("from", "to")]
    return "; ".join(part for part in (*moved, *rest) if part)


def _as_words(key: str, value: Any) -> str:
    name = key.replace("_", " ")
    if key == "window":
        return f"valid: {_span(value['from'])} → {_span(value['to'])}"
    if isinstance(value, dict) and value.keys() == {"from", "to"}:
        return "" if value["from"] == value["to"] else _move(name, value)
    return "" if value in (None, "", [], {}) else f"{name}: {plain(value)}"


def _move(name: str, ends: Row) -> str:
    before, after = (plain(ends.get(end)) for end in ("from", "to"))
    arrow = f"{before} → {after}" if ends.get("from") is not None else f"→ {after}"
    return f"{name}: {arrow}" if name else arrow


def show_doubts(memories: Sequence[Row], _: Row) -> None:
    """Print the memories in doubt, each with the reason."""
    for memory in memories:
        show_line(f"{memory['memory_type']} {short_id(memory['id'])}: {excerpt(memory)}")
        for ground in memory["because"]:
            show_line(f"  because of {_ground({'stands': False, **ground})}")
    hint = "decide with: butlers conflicts keep ID, or butlers forget ID"
    show_line(hint if memories else "nothing is in doubt")


def show_verification(answer: Row, _: Row) -> None:
    """Print whether the audit trail is intact, and every fault; exit 1 if there are any."""
    erased = f", {answer['erased']:,} with erased text" if answer["erased"] else ""
    verdict = "intact" if answer["intact"] else f"not intact, {answer['faulty']:,} faults"
    show_line(f"{answer['events']:,} events{erased}: {verdict}")
    since = answer["since_head"]
    show_fields(("head", answer["head"]), ("since that head", since and f"{since:,} events"))
    if answer["intact"]:
        return
    rows = [
        [
            str(fault["number"] or "–"),
            str(fault["event_id"] or "–"),
            when(fault["at"]) or "–",
            _FAULTS[fault["fault"]],
        ]
        for fault in answer["faults"]
    ]
    titles = ("number", "event", "when (UTC)", "fault")
    show_table(titles, rows, right=("number",), wraps=("fault",))
    raise typer.Exit(1)


def show_merge_preview(answer: Row, _: Row) -> None:
    """Print which facts a merge of two entities would move or supersede."""
    counts = f"{answer['facts_repointed']} facts, supersede {answer['facts_superseded']}"
    show_line(f"would move {counts}, add {answer['aliases_added']} names")
    pairs = [
        [excerpt(pair["stays"]), pair["why"], excerpt(pair["gives_way"])]
        for pair in answer["rivalries"]
    ]
    if pairs:
        show_table(("keeps", "because it is", "supersedes"), pairs, wraps=("keeps", "supersedes"))
    moved = [
        [short_id(fact["id"]), fact["state"], number(fact["effective_confidence"]), excerpt(fact)]
        for fact in answer["repointed"]
    ]
    if moved:
        titles = ("id", "state", "confidence", "moves")
        show_table(titles, moved, right=("confidence",), wraps=("moves",))


def show_unmerge(answer: Row, _: Row) -> None:
    """Print which facts went back to the entity that was separated."""
    counts = f"{answer['facts_returned']} facts moved back, {answer['facts_restored']} restored"
    show_line(f"separated {answer['source_entity_id']} from {answer['target_entity_id']}: {counts}")
    if answer["facts_left"]:
        show_line(f"still superseded, replaced since: {', '.join(answer['facts_left'])}")
