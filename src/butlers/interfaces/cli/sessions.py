"""`butlers ask` and `butlers sessions`: asking a butler, and what is on record of sessions."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    NameArgument,
    example,
    home_of,
    with_butler,
)
from butlers.interfaces.cli.tables import Column, short_id, show_fields, show_json, show_table
from butlers.kernel.text import replace_surrogates

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.host.home import Home
    from butlers.host.status import Running
    from butlers.sessions.log import SessionRecord
    from butlers.settings.sections import ButlerSettings

app = typer.Typer(
    help="Which sessions there were, and what came of them. Times are UTC.", no_args_is_help=True
)
TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Whose [default: the butler's own tenant].")
]
_PATIENCE_SECONDS = 120.0
_NUMBERS = ("input_tokens", "output_tokens", "cost_usd")


def ask(
    name: NameArgument,
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads standard input.")],
    home: HomeOption = None,
) -> None:
    """Ask a butler: it answers knowing what it remembers, and remembers what happened.

    Its instructions are CLAUDE.md in its directory; [runtime] in its butler.toml says what runs
    the session. While `butlers up` runs, the session is run there, and has the butler's tools where
    its runtime can use any; otherwise it is run here, without. A memory that is down or slow does
    not keep it from answering: it is then said that it was missing.
    """
    from butlers.errors import InvalidInput
    from butlers.settings.files import load_butler

    place = home_of(name, home)
    settings = load_butler(place.butler_file(name), home_file=place.settings_file)
    given = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    if not given.strip():
        raise InvalidInput("prompt: found nothing; say what to ask")
    served = _served(place, name)
    if served is not None:
        _complain(_asked_there(place, served, settings, given))
    else:
        _complain(_asked_here(place, settings, given))


@app.command("list", epilog=example("butlers sessions list -n 5"))
def list_sessions(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 20,
    butler: ButlerOption = "general",
    tenant: TenantOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List sessions, the newest first: asked, scheduled, and those of connected agents."""
    found = with_butler(butler, home, lambda one: one.session_log.find(_tenant(one, tenant), limit))
    if as_json:
        show_json([one.shown() for one in found])
        return
    titles = ("id", "started", "kind", "asked by", "agent", "project", "outcome")
    columns = [*map(Column, titles), Column("took", "right"), Column("asked", wraps=True)]
    show_table(columns, [_row(one) for one in found])


@app.command("show", epilog=example("butlers sessions show 3f2a91c0"))
def show_session(
    session: Annotated[str, typer.Argument(help="Its id, or how that begins.")],
    butler: ButlerOption = "general",
    tenant: TenantOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a session: who asked, which agent and model, what it cost, was told and has stored."""
    found = with_butler(
        butler, home, lambda one: one.session_log.get(_tenant(one, tenant), session)
    )
    if as_json:
        show_json(found.shown())
        return
    show_fields([(key.replace("_", " "), _plain(value)) for key, value in found.shown().items()])


def _served(home: "Home", name: str) -> "Running | None":
    """The process that serves the butler, if one does."""
    from butlers.host.status import served

    found = served(home)
    return found if found is not None and name in found.butlers else None


def _asked_there(
    home: "Home", served: "Running", settings: "ButlerSettings", prompt: str
) -> dict[str, Any]:
    """Say what the process that serves the butler answers; all that it tells."""
    from butlers.host.own_tokens import command_token
    from butlers.host.status import post

    name, tenant = settings.butler.name, settings.butler.tenant
    limits = settings.runtime
    told = post(
        f"{served.url}/api/butlers/{name}/ask",
        {"prompt": replace_surrogates(prompt), "project": _project()},
        command_token(home, name, tenant),
        limits.timeout_seconds + limits.context_timeout_seconds + _PATIENCE_SECONDS,
    )
    typer.echo(told["answer"])
    return told


def _asked_here(home: "Home", settings: "ButlerSettings", prompt: str) -> dict[str, Any]:
    """Say what a session in this process answers; all that it tells."""
    import asyncio

    from butlers.logs import configure

    configure("warning")
    if settings.runtime.kind != "none":
        _say(
            f"{settings.butler.name} is not served by `butlers up`: this session loads its memory "
            "itself, which takes longer, and has no tools"
        )
    return asyncio.run(_session(home, settings, prompt))


async def _session(home: "Home", settings: "ButlerSettings", prompt: str) -> dict[str, Any]:
    from butlers.host.hosting import opened_spawner
    from butlers.sessions.spawner import SessionRequest

    async with opened_spawner(home, settings) as spawner:
        session = await spawner.ask(SessionRequest(prompt, "cli", project=_project()))
        # Said before it is stored: the answer waits for nothing.
        typer.echo(session.completion.text)
        record, episode = await spawner.remember(session)
    return {
        "episode_id": str(episode) if episode else None,
        "session": record.shown(),
    }


def _project() -> str:
    """What is worked on, by the name of where; nothing in a directory that is gone."""
    with suppress(OSError):
        return replace_surrogates(Path.cwd().name)[:200]
    return ""


def _complain(told: dict[str, Any]) -> None:
    session = told["session"]
    if not session["had_memory"]:
        _say("its memories could not be had, it answered without; `butlers doctor` may say why")
    if told["episode_id"] is None and session["outcome"] == "ok":
        _say("it left no episode: nothing of it is remembered")


def _say(words: str) -> None:
    typer.echo(f"butlers: {words}", err=True)


def _tenant(butler: "Butler", tenant: str | None) -> str:
    from butlers.host.token_record import acting_tenant

    return acting_tenant(butler.settings.butler.tenant, tenant)


def _row(one: "SessionRecord") -> list[str]:
    took = "" if one.seconds is None else f"{one.seconds:.1f} s"
    who = [str(one.kind), one.asked_by, " ".join(filter(None, (one.agent, one.model)))]
    ending = [one.project, str(one.outcome), took, one.asked]
    return [short_id(one.id), _when(one.started_at), *who, *ending]


def _plain(value: Any) -> str:
    match value:
        case None | "" | []:
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return _when(value)
        case list():
            return "\n".join(value)
    return str(value)


def _when(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}"
