"""`butlers remember` and `butlers today`: one sentence in, one day out."""

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from butlers.errors import InvalidInput
from butlers.interfaces.cli.memory import ask
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    TenantOption,
    memory_context,
    with_butler,
)
from butlers.interfaces.cli.output import excerpt, short_id, show_json, show_line
from butlers.interfaces.cli.shell import current_shell

if TYPE_CHECKING:
    from butlers.host.butler import Butler

_MOST, _PAGES = 100, 20
_STORED = {"episodes": "Happened", "facts": "Learned", "rules": "New rules"}
_GONE = ("retracted", "forgotten", "expired")
_NO_SUBJECT = "found no subject in the sentence; use `butlers store fact SUBJECT PREDICATE CONTENT`"
_MANY = {"entity": "entities", "memory": "memories"}


def remember(
    text: Annotated[str, typer.Argument(help="What to remember; - reads standard input.")],
    kind: Annotated[
        Literal["episode", "fact", "rule"] | None,
        typer.Option("--as", help="Store it as this [default: what the sentence says]."),
    ] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remember a sentence, as a fact or a rule if it states one, else as an episode."""
    from butlers.interfaces.cli.memory_views import VIEWS
    from butlers.memory.operations import OPERATIONS

    if text == "-":
        text = current_shell().stdin().read().decode("utf-8", "replace").strip()
    name, given = _stored_as(text, kind)
    target = {"butler": butler, "home": home, "tenant": tenant}
    answer = ask(OPERATIONS[name], target, given)
    if as_json:
        show_json(answer)
    else:
        VIEWS[name](answer, given)


# The operation that stores a sentence, and its arguments.
def _stored_as(text: str, kind: str | None) -> tuple[str, dict[str, Any]]:
    from butlers.memory.model import NewFact, NewRule
    from butlers.memory.policy.statement_keys import statement_key
    from butlers.sessions.spoken import candidates, statements

    stated = next(iter(candidates(statements([text]), "global", "", {})), None)
    if kind == "rule" or (kind is None and isinstance(stated, NewRule)):
        return "store_rule", {"content": text}
    about = stated if isinstance(stated, NewFact) else statement_key(text)
    is_plain = about is not stated and statement_key(text).is_plain
    if kind == "episode" or (kind is None and is_plain):
        return "store_episode", {"content": text}
    if is_plain:
        raise InvalidInput(_NO_SUBJECT)
    return "store_fact", {"subject": about.subject, "predicate": about.predicate, "content": text}


def today(
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what happened, was learned and changed since midnight, and what waits for you."""
    day = with_butler(butler, home, lambda opened: _day(opened, tenant))
    (show_json if as_json else _show_day)(day)


def _show_day(day: dict[str, Any]) -> None:
    for name, title in _STORED.items():
        if day[name]:
            show_line(f"{title} today ({len(day[name])}):")
        for memory in day[name]:
            show_line(f"{short_id(memory['id'])}  {excerpt(memory)}", indent=2)
    changes = ", ".join(_counted(kind, number) for kind, number in day["changes"].items())
    show_line(f"Changed today: {changes}." if changes else "Nothing else happened today.")
    if day["waiting"]:
        show_line(f"{day['waiting']} waiting for your decision: butlers review")


def _counted(kind: str, number: int) -> str:
    """Count events in words: 2 facts superseded."""
    what, _, done = kind.partition("_")
    many = _MANY.get(what, f"{what}s") if number > 1 else what
    return f"{number} {many} {done.replace('_', ' ')}"


async def _day(opened: "Butler", tenant: str | None) -> dict[str, Any]:
    """Read what was stored since midnight, count the other events, and what waits."""
    from butlers.clock import utc_now
    from butlers.memory.operations import OPERATIONS

    context = memory_context(opened, tenant)
    midnight = utc_now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    day: dict[str, Any] = {"since": midnight.isoformat()}
    for name in _STORED:
        wanted = {"created_after": midnight, "limit": _MOST}
        rows = (await OPERATIONS[f"list_{name}"].perform(context, **wanted))["items"]
        day[name] = [row for row in rows if row["state"] not in _GONE]
    day["changes"] = await _changes(context, midnight)
    day["waiting"] = len(await OPERATIONS["list_inbox"].perform(context))
    return day


async def _changes(context: Any, since: datetime) -> dict[str, int]:
    """Count the latest events since a time by type, without those that stored something."""
    from butlers.memory.operations import OPERATIONS

    counts, page = Counter[str](), {"next_cursor": None}
    for _ in range(_PAGES):
        page = await OPERATIONS["activity"].perform(
            context, limit=_MOST, cursor=page["next_cursor"]
        )
        new = [e for e in page["items"] if datetime.fromisoformat(e["created_at"]) >= since]
        counts.update(event["event_type"] for event in new)
        if page["next_cursor"] is None or len(new) < len(page["items"]):
            break
    return {kind: number for kind, number in counts.items() if not kind.endswith("_created")}
