"""`butlers memory store-fact`, `store-rule` and `store-episode`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from butlers.doors.cli.memory.asking import TenantOption, ask
from butlers.doors.cli.options import ButlerOption, HomeOption, JsonOption
from butlers.doors.cli.tables import show_json, show_line

if TYPE_CHECKING:
    from butlers.doors.python import StoredFact

ContentArgument = Annotated[str, typer.Argument(help="What to remember; - reads standard input.")]
ImportanceOption = Annotated[float, typer.Option(help="0 (trivial) to 10 (vital).")]
ScopeOption = Annotated[str, typer.Option(help="global, or the butler it is for.")]
TagsOption = Annotated[list[str] | None, typer.Option("--tag", help="A label; may be repeated.")]


def store_fact(
    subject: Annotated[str, typer.Argument(help="Who or what it is about.")],
    predicate: Annotated[str, typer.Argument(help="What about it, e.g. allergy.")],
    content: ContentArgument,
    importance: ImportanceOption = 5.0,
    permanence: Annotated[
        str, typer.Option(help="permanent, stable, standard, volatile or ephemeral.")
    ] = "standard",
    scope: ScopeOption = "global",
    tags: TagsOption = None,
    entity: Annotated[str | None, typer.Option(help="The id of the entity it is about.")] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store what is true; an earlier fact of that subject and predicate gives way."""
    said = _content(content)
    stored = ask(
        butler,
        home,
        tenant,
        lambda memory: memory.store_fact(
            subject,
            predicate,
            said,
            importance=importance,
            permanence=permanence,
            scope=scope,
            tags=tags or (),
            entity_id=entity,
        ),
    )
    _tell_fact(stored, as_json)


def store_rule(
    content: ContentArgument,
    scope: ScopeOption = "global",
    tags: TagsOption = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store how to behave."""
    said = _content(content)
    stored = ask(
        butler, home, tenant, lambda memory: memory.store_rule(said, scope=scope, tags=tags or ())
    )
    if as_json:
        show_json({"id": str(stored.id)})
    else:
        show_line(f"stored rule {stored.id}")


def store_episode(
    content: ContentArgument,
    importance: ImportanceOption = 5.0,
    session: Annotated[str | None, typer.Option(help="The id of the session it was in.")] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store what happened."""
    said = _content(content)
    stored = ask(
        butler,
        home,
        tenant,
        lambda memory: memory.store_episode(said, importance=importance, session_id=session),
    )
    if as_json:
        show_json({"id": str(stored.id), "expires_at": stored.expires_at.isoformat()})
    else:
        show_line(f"stored episode {stored.id}, which expires on {stored.expires_at:%Y-%m-%d}")


def _tell_fact(stored: "StoredFact", as_json: bool) -> None:
    replaced = stored.superseded_id
    if as_json:
        show_json({"id": str(stored.id), "superseded_id": str(replaced) if replaced else None})
    else:
        show_line(f"stored fact {stored.id}{f', which replaces {replaced}' if replaced else ''}")


def _content(given: str) -> str:
    """What was typed, or for - what comes in; bytes that are no UTF-8 are replaced."""
    return sys.stdin.buffer.read().decode("utf-8", "replace") if given == "-" else given
