"""`butlers ask` and `butlers sessions`: ask a butler, and list past sessions."""

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
    acting_as,
    example,
    home_of,
    with_butler,
)
from butlers.interfaces.cli.output import (
    TableColumn,
    short_id,
    show_fields,
    show_json,
    show_table,
    to_the_second,
)
from butlers.kernel.text import replace_surrogates

if TYPE_CHECKING:
    from butlers.host.home import Home
    from butlers.host.status import Running
    from butlers.sessions.log import SessionRecord
    from butlers.settings.sections import ButlerSettings

app = typer.Typer(help="List and inspect past sessions. Times are UTC.", no_args_is_help=True)
TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Which tenant [default: the butler's own].")
]
_PATIENCE_SECONDS = 120.0
_NUMBERS = ("input_tokens", "output_tokens", "cost_usd")


def ask(
    name: NameArgument,
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads standard input.")],
    home: HomeOption = None,
) -> None:
    """Ask a butler. It answers from what it remembers, and remembers the session.

    Instructions come from CLAUDE.md in the butler's directory; [runtime] in butler.toml names the
    language model. While `butlers up` runs, the session runs there and can use the butler's tools.
    Otherwise it runs in this process, without tools. If the memory is down or slow, the butler
    answers without it and says so.
    """
    from butlers.errors import InvalidInput
    from butlers.settings.files import load_butler

    located = home_of(name, home)
    settings = load_butler(located.butler_file(name), home_file=located.settings_file)
    given = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    if not given.strip():
        raise InvalidInput("prompt: found nothing; say what to ask")
    daemon = _daemon(located, name)
    if daemon is not None:
        _warn(_ask_daemon(located, daemon, settings, given))
    else:
        _warn(_ask_here(located, settings, given))


@app.command("list", epilog=example("butlers sessions list -n 5"))
def list_sessions(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 20,
    butler: ButlerOption = "general",
    tenant: TenantOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List sessions, newest first: asked, scheduled, and those of connected agents."""
    records = with_butler(
        butler, home, lambda opened: opened.session_log.find(acting_as(opened, tenant), limit)
    )
    if as_json:
        show_json([record.shown() for record in records])
        return
    titles = ("id", "started", "kind", "asked by", "agent", "project", "outcome")
    columns = [
        *map(TableColumn, titles),
        TableColumn("took", "right"),
        TableColumn("asked", wraps=True),
    ]
    show_table(columns, [_row(record) for record in records])


@app.command("show", epilog=example("butlers sessions show 3f2a91c0"))
def show_session(
    session: Annotated[str, typer.Argument(help="Its id, or the beginning of it.")],
    butler: ButlerOption = "general",
    tenant: TenantOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a session: who asked, agent, model, cost, injected context and stored memories."""
    record = with_butler(
        butler, home, lambda opened: opened.session_log.get(acting_as(opened, tenant), session)
    )
    if as_json:
        show_json(record.shown())
        return
    show_fields([(key.replace("_", " "), _plain(value)) for key, value in record.shown().items()])


def _daemon(home: "Home", name: str) -> "Running | None":
    """Find the process that serves the butler."""
    from butlers.host.status import served

    running = served(home)
    return running if running is not None and name in running.butlers else None


def _ask_daemon(
    home: "Home", daemon: "Running", settings: "ButlerSettings", prompt: str
) -> dict[str, Any]:
    """Run the session in the daemon, print the answer and return the whole reply."""
    from butlers.host.home_tokens import command_token
    from butlers.host.status import post
    from butlers.sessions.session import CONTEXT_SECONDS

    name, tenant = settings.butler.name, settings.butler.tenant
    reply = post(
        f"{daemon.url}/api/butlers/{name}/ask",
        {"prompt": replace_surrogates(prompt), "project": _project()},
        command_token(home, name, tenant),
        settings.runtime.timeout_seconds + CONTEXT_SECONDS + _PATIENCE_SECONDS,
    )
    typer.echo(reply["answer"])
    return reply


def _ask_here(home: "Home", settings: "ButlerSettings", prompt: str) -> dict[str, Any]:
    """Run the session in this process, print the answer and return the whole reply."""
    import asyncio

    from butlers.logs import configure

    configure("warning")
    if settings.runtime.kind != "none":
        _say(
            f"`butlers up` is not serving {settings.butler.name}: this session is slower to start "
            "and has no tools"
        )
    return asyncio.run(_session(home, settings, prompt))


async def _session(home: "Home", settings: "ButlerSettings", prompt: str) -> dict[str, Any]:
    from butlers.host.hosting import opened_spawner
    from butlers.sessions.spawner import SessionRequest

    async with opened_spawner(home, settings) as spawner:
        session = await spawner.ask(SessionRequest(prompt, "cli", project=_project()))
        # Printed before it is stored: the answer waits for nothing.
        typer.echo(session.completion.text)
        record, episode = await spawner.remember(session)
    return {
        "episode_id": str(episode) if episode else None,
        "session": record.shown(),
    }


def _project() -> str:
    """The name of the working directory; empty if it no longer exists."""
    with suppress(OSError):
        return replace_surrogates(Path.cwd().name)[:200]
    return ""


def _warn(reply: dict[str, Any]) -> None:
    session = reply["session"]
    if not session["had_memory"]:
        _say("memory was unavailable, so it answered without it; run `butlers doctor`")
    if reply["episode_id"] is None and session["outcome"] == "ok":
        _say("the session was not stored; nothing of it will be remembered")


def _say(words: str) -> None:
    typer.echo(f"butlers: {words}", err=True)


def _row(record: "SessionRecord") -> list[str]:
    took = "" if record.seconds is None else f"{record.seconds:.1f} s"
    agent = " ".join(filter(None, (record.agent, record.model)))
    ending = [record.project, str(record.outcome), took, record.asked]
    started = to_the_second(record.started_at)
    return [short_id(record.id), started, str(record.kind), record.asked_by, agent, *ending]


def _plain(value: Any) -> str:
    match value:
        case None | "" | []:
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return to_the_second(value)
        case list():
            return "\n".join(value)
    return str(value)
