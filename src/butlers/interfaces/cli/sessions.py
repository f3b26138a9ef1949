"""`butlers ask` and `butlers sessions`: ask a butler, and list past sessions."""

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.errors import InvalidInput
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    LimitOption,
    TenantOption,
    acting_as,
    example,
    find_home,
    home_of,
    memory_context,
    run,
    with_butler,
)
from butlers.interfaces.cli.output import (
    plain,
    short_id,
    show_fields,
    show_json,
    show_line,
    show_table,
    to_the_second,
    when,
)
from butlers.interfaces.cli.shell import current_shell
from butlers.kernel.text import replace_surrogates

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.host.home import Home
    from butlers.host.status import Running
    from butlers.sessions.log import SessionRecord
    from butlers.settings.sections import ButlerSettings

app = typer.Typer(help="List and inspect past sessions. Times are UTC.", no_args_is_help=True)
_PATIENCE_SECONDS = 120.0
_WORTH = ("project", "agent", "prompts", "given", "used", "ignored", "harmful", "tokens")
_MISSING = ("at", "butler", "session", "transcript")
_NARROW = 14
_TITLES = ("id", "started", "kind", "asked by", "agent", "project", "outcome", "took", "asked")


def ask(
    name: Annotated[str, typer.Argument(metavar="BUTLER", help="Which butler; may be left out.")],
    prompt: Annotated[str | None, typer.Argument(help="What to ask; - reads stdin.")] = None,
    home: HomeOption = None,
) -> None:
    """Ask a butler a question. It answers from what it remembers, and remembers the session.

    Instructions come from CLAUDE.md in the butler's directory; [runtime] in butler.toml names the
    language model. While `butlers up` runs, the session runs there and can use the butler's tools.
    Otherwise it runs in this process, without tools. If the memory is down or slow, the butler
    answers without it and says so.
    """
    from butlers.host.home import butler_settings
    from butlers.host.status import served

    if prompt is None:
        name, prompt = "general", name
    located = home_of(name, home)
    settings = butler_settings(located, name)
    shell = current_shell()
    question = shell.stdin().read().decode("utf-8", "replace") if prompt == "-" else prompt
    if not question.strip():
        raise InvalidInput("prompt: found nothing; say what to ask")
    daemon = served(located)
    if daemon is not None and name in daemon.butlers:
        reply = _ask_daemon(located, daemon, settings, question)
    else:
        if settings.runtime.kind != "none":
            _say(
                f"`butlers up` is not serving {name}: this session is slower to start and has no "
                "tools"
            )
        reply = run(_ask_here(located, settings, question), "warning")
    session = reply["session"]
    if not session["had_memory"]:
        _say("memory was unavailable, so it answered without it; run `butlers doctor`")
    if reply["episode_id"] is None and session["outcome"] == "ok":
        _say("the session was not stored; nothing of it will be remembered")


@app.command("list", epilog=example("butlers sessions list -n 5"))
def list_sessions(
    limit: LimitOption = 20,
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
    show_table(_TITLES, [_row(record) for record in records], right=("took",), wraps=("asked",))


@app.command("show", epilog=example("butlers sessions show 3f2a91c0"))
def show_session(
    session: Annotated[str, typer.Argument(help="Its id, or the beginning of it.")],
    butler: ButlerOption = "general",
    tenant: TenantOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
    missing: Annotated[
        str,
        typer.Option("--why-not", help="Say why this memory was not given: its id or its text."),
    ] = "",
) -> None:
    """Show a session: who asked, cost, what memory gave each prompt, and whether it helped."""
    shown = with_butler(butler, home, lambda opened: _details(opened, tenant, session, missing))
    if as_json:
        show_json(shown)
        return
    injections, absence = shown.pop("injections"), shown.pop("why_not", None)
    if absence is not None:
        _show_absence(absence)
        return
    if injections:
        del shown["told"]  # told below, in sentences
    show_fields(*((name, _plain(value)) for name, value in shown.items()))
    _show_injections(injections)


@app.command("missing", epilog=example("butlers sessions missing"))
def list_missing(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the sessions of the last week that began more than a day ago and were never stored."""
    from butlers.clock import utc_now
    from butlers.sessions.session_alerts import missing_sessions

    missing = missing_sessions(find_home(home).checked().root, utc_now())
    if as_json:
        show_json(missing)
        return
    rows = [[str(note.get(name) or "–") for name in _MISSING] for note in missing]
    show_table(("began", "butler", "session", "transcript"), rows, wraps=("transcript",))


def _show_injections(injections: list[dict[str, Any]]) -> None:
    for injection in injections:
        typer.echo()
        for number, sentence in enumerate(injection["sentences"]):
            show_line(sentence, indent=2 if number else 0)


def worth(
    days: Annotated[int, typer.Option("--days", min=1, max=3_650, help="Over how many days.")] = 30,
    butler: ButlerOption = "general",
    tenant: TenantOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sum up whether memory helped: given, used, ignored, corrected, tokens."""
    from butlers.sessions.proof import worth_of

    found = with_butler(
        butler, home, lambda opened: worth_of(opened.injections, acting_as(opened, tenant), days)
    )
    if as_json:
        show_json(found)
        return
    _show_worth(found)


def _show_worth(found: dict[str, Any]) -> None:
    for sentence in found["sentences"]:
        show_line(sentence)
    if found["by"]:
        typer.echo()
        rows = [[_short(group[name]) for name in _WORTH] for group in found["by"]]
        show_table(_WORTH, rows, right=_WORTH[2:])


async def _details(
    opened: "Butler", tenant: str | None, session: str, missing: str
) -> dict[str, Any]:
    from butlers.sessions import proof

    record = await opened.session_log.get(acting_as(opened, tenant), session)
    if not opened.settings.is_enabled("memory"):
        return {**record.shown(), "injections": []}
    ctx = memory_context(opened, tenant)
    injections = await proof.injections_of(ctx, opened.injections, record.id)
    shown = {**record.shown(), "injections": injections}
    if missing:
        shown["why_not"] = await proof.absence_of(ctx, opened.injections, record.id, missing)
    return shown


def _show_absence(absence: dict[str, Any]) -> None:
    show_line(f"About the {absence['memory_type']} “{absence['text']}”:")
    for prompt in absence["prompts"]:
        asked = f" “{prompt['asked']}”" if prompt["asked"] else ""
        show_line(f"{when(prompt['at'])}{asked}", indent=2)
        show_line(prompt["answer"], indent=4)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _NARROW else f"{text[: _NARROW - 1]}…"


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


async def _ask_here(home: "Home", settings: "ButlerSettings", prompt: str) -> dict[str, Any]:
    """Run the session in this process, print the answer and return the whole reply."""
    from butlers.host.hosting import opened_spawner
    from butlers.sessions.spawner import SessionRequest

    async with opened_spawner(home, settings) as spawner:
        session = await spawner.ask(SessionRequest(prompt, "cli", project=_project()))
        # Printed before it is stored: the answer waits for nothing.
        typer.echo(session.completion.text)
        record, episode = await spawner.remember(session)
    return {"episode_id": str(episode) if episode else None, "session": record.shown()}


def _project() -> str:
    """The name of the working directory; empty if it no longer exists."""
    with suppress(OSError):
        return replace_surrogates(current_shell().path("").name)[:200]
    return ""


def _say(words: str) -> None:
    typer.echo(f"butlers: {words}", err=True)


def _row(record: "SessionRecord") -> list[str]:
    took = "" if record.seconds is None else f"{record.seconds:.1f} s"
    agent = " ".join(filter(None, (record.agent, record.model)))
    ending = [record.project, str(record.outcome), took, record.asked]
    started = to_the_second(record.started_at)
    return [short_id(record.id), started, str(record.kind), record.asked_by, agent, *ending]


def _plain(value: Any) -> str:
    if value in (None, "", []):
        return "–"
    if isinstance(value, datetime):
        return to_the_second(value)
    if isinstance(value, list):
        return "\n".join(value)
    return plain(value) if isinstance(value, bool) else str(value)
