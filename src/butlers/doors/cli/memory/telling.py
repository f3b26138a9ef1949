"""`butlers memory history` and `explain`: a memory's life, and why it is believed."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.doors.cli.memory.asking import (
    ReferenceArgument,
    TenantOption,
    ask,
    nothing_there,
    reference,
)
from butlers.doors.cli.memory.wording import change, happened, number, says, state, times, when
from butlers.doors.cli.options import ButlerOption, HomeOption, JsonOption
from butlers.doors.cli.tables import Column, short_id, show_fields, show_json, show_table

if TYPE_CHECKING:
    from butlers.doors.python import ButlerMemory

Row = Mapping[str, Any]
_IN_USE = ("active", "fading")


def history(
    memory_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id, or at least its first 6 digits.")
    ],
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell a memory's whole life: when, what, from what to what, who, in which request."""
    told = ask(butler, home, tenant, lambda memory: memory.history(memory_id))
    if not told:
        raise nothing_there(butler, "memory", memory_id)
    if as_json:
        show_json(told)
        return
    titles = ("when (UTC)", "what", "by", "request")
    columns = [*(Column(title) for title in titles), Column("change", wraps=True)]
    show_table(columns, [_event(event) for event in told])


def explain(
    given: ReferenceArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell where a memory comes from, what it replaced, who confirmed it and when it fades."""
    kind, memory_id = reference(given)
    found = ask(butler, home, tenant, lambda memory: _explain(memory, memory_id, kind))
    if found is None:
        raise nothing_there(butler, kind or "memory", memory_id)
    if as_json:
        show_json(found)
    else:
        show_fields(explained(found))


async def _explain(
    memory: "ButlerMemory", memory_id: str, kind: str | None
) -> dict[str, Any] | None:
    explanation = await memory.explain(memory_id, kind)
    if explanation is None:
        return None
    first, *_ = await memory.history(explanation["memory"]["id"]) or [{}]
    return explanation | {"stored_by": first.get("actor")}


def explained(told: Row) -> list[tuple[str, str]]:
    """An explanation as names and values."""
    memory = told["memory"]
    fields = [
        (told["memory_type"], f"{memory['id']}\n{says(memory)}"),
        ("state", state(memory)),
        ("confidence", _confidence(told)),
        ("stored", _by(memory["created_at"], told.get("stored_by"), told["source_butler"])),
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
    return [(name, value) for name, value in fields if value]


def _event(event: Row) -> list[str]:
    return [
        when(event["created_at"]),
        happened(event["event_type"]),
        event["actor"],
        event["request_id"] or "–",
        change(event["payload"]),
    ]


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
    told = says(episode)
    return f"episode {short_id(episode['id'])} of {when(episode['created_at'])}: {told}"


def _version(fact: Row) -> str:
    return f"{short_id(fact['id'])} of {when(fact['created_at'])}: {fact['content']}"


def _application(use: Row) -> str:
    reason = f": {use['reason']}" if use["reason"] else ""
    return f"{_by(use['created_at'], use['actor'])}, {use['outcome']}{reason}"


def _link(link: Row, memory_id: str) -> str:
    leaves = link["source_id"] == memory_id
    kind, other = ("target_type", "target_id") if leaves else ("source_type", "source_id")
    named = f"{link[kind]} {short_id(link[other])}"
    return f"{link['relation']} {named}" if leaves else f"{named} {link['relation']} it"


def _lines(lines: Iterable[str]) -> str:
    """One line each, whatever they say."""
    return "\n".join(" ".join(line.split()) for line in lines)
