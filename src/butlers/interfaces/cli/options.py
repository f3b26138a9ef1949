"""Shared by commands: options, finding the home, and opening a butler for one command."""

import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from butlers.interfaces.cli.shell import current_shell

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.host.home import Home

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Home directory [default: $BUTLERS_HOME, else ~/.butlers]."),
]
LowTrustOption = Annotated[
    bool,
    typer.Option(
        "--low-trust", help="Trust this agent's statements less, e.g. because strangers reach it."
    ),
]
ButlerOption = Annotated[str, typer.Option("--butler", "-b", help="Which butler.")]
NameArgument = Annotated[str, typer.Argument(help="Which butler.")]
TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Which tenant [default: the butler's own].")
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
PrintOption = Annotated[bool, typer.Option("--print", help="Show it and write nothing.")]

T = TypeVar("T")


def example(command: str) -> str:
    """Format the example at the end of a help text."""
    # \b keeps the line breaks; without it the lines would be filled like a paragraph.
    return f"\b\nExample:\n  {command}"


def find_home(home: Path | None) -> "Home":
    """Locate the home, which need not exist yet."""
    from butlers.host.home import Home

    daemon = current_shell().daemon
    return Home.locate(home) if daemon is None else daemon.home


def check_may_store(home: Path | None, given: Any) -> None:
    """Raise Conflict if words may not be stored here and now, because they are private."""
    from butlers.sessions.privacy import check_call, check_switch
    from butlers.sessions.projects import identify

    shell = current_shell()
    check_switch(shell.environment)
    check_call(str(ensure_home(home).root), identify(shell.directory or os.getcwd()), given)


def ensure_home(home: Path | None) -> "Home":
    """Locate the home; create its first butler if it has none."""
    located = find_home(home)
    if not located.butler_names():
        located.ensure_general()
    return located


def home_of(butler: str, home: Path | None) -> "Home":
    """Locate the home; NotFound if it lacks this butler."""
    return find_home(home).checked(butler)


def run(work: "Coroutine[Any, Any, T]", log_level: str = "error") -> T:
    """Do the work of a command, and log only what is serious."""
    import asyncio

    from butlers.logs import configure

    if (daemon := current_shell().daemon) is not None:
        return asyncio.run_coroutine_threadsafe(work, daemon.loop).result()
    configure(log_level)
    return asyncio.run(work)


def with_butler(name: str, home: Path | None, work: "Callable[[Butler], Awaitable[T]]") -> T:
    """Open a butler, starting its database server if needed; do some work and close it."""
    from butlers.host.hosting import opened_butler

    if (daemon := current_shell().daemon) is not None:
        return run(_awaited(work(daemon.butler(name))))

    async def open_and_work() -> T:
        async with opened_butler(find_home(home), name) as butler:
            return await work(butler)

    return run(open_and_work())


async def _awaited(work: "Awaitable[T]") -> T:
    return await work


def acting_as(opened: "Butler", tenant: str | None) -> str:
    """Return the tenant a command acts for: the one named, else the butler's own."""
    from butlers.auth.token_grant import acting_tenant

    return acting_tenant(opened.settings.butler.tenant, tenant)


def memory_context(opened: "Butler", tenant: str | None, *, may_decide: bool = False) -> Any:
    """Make the context of this command's caller: a person, or the agent whose shell it is."""
    from butlers.auth.rights import Caller
    from butlers.interfaces.cli.agent_shell import agent_of_shell

    agent, acting = (
        "" if may_decide else agent_of_shell(current_shell().environment),
        acting_as(opened, tenant),
    )
    actor = agent or "cli"
    caller = Caller(acting, actor, agent, is_operator=not agent, may_decide=may_decide)
    return opened.module("memory").operation_context(caller)
