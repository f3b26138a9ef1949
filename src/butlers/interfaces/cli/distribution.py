"""`butlers db distribute` and what belongs to it: tenants over the nodes of a cluster."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.options import HomeOption, JsonOption, NameArgument, home_of
from butlers.interfaces.cli.tables import Column, show_json, show_line, show_table
from butlers.interfaces.cli.wording import size

if TYPE_CHECKING:
    from pathlib import Path

    from butlers.db.citus.copying import CopyProgress, Tell
    from butlers.db.citus.move import ButlerDatabase
    from butlers.db.citus.tenant_placement import TenantPlacement

AbandonOption = Annotated[
    bool, typer.Option("--abandon", help="Undo what a run that was stopped has begun.")
]
DropOption = Annotated[
    bool, typer.Option("--drop-before", help="Drop the database that was replaced, for good.")
]
ButlerArgument = Annotated[str, typer.Argument(help="Which butler.")]


def distribute(
    name: ButlerArgument,
    abandon: AbandonOption = False,
    drop_before: DropOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Spread a butler's tenants over the nodes of a Citus cluster, while it is used.

    database.url names the coordinator, by a superuser. A new database is filled beside the old
    one and takes its place at the end, when requests wait for a moment. A run that was stopped
    goes on where it was when the command is given again. The old database is kept as
    NAME_before until --drop-before.
    """
    _run(name, home, abandon=abandon, drop=drop_before, as_json=as_json, spreads=True)


def undistribute(
    name: ButlerArgument,
    abandon: AbandonOption = False,
    drop_before: DropOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a butler's tenants back to one server, the coordinator, while it is used.

    The way back of `butlers db distribute`, which says how both go.
    """
    _run(name, home, abandon=abandon, drop=drop_before, as_json=as_json, spreads=False)


def places(
    name: NameArgument = "general", home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Tell where a butler's tenants are: nodes, what each holds, and the largest tenants."""
    from butlers.db.citus.tenant_placement import placement_of as look

    place = _database_of(name, home)
    _show(asyncio.run(look(place.dsn(place.database))), as_json)


def isolate(
    name: ButlerArgument,
    tenant: Annotated[str, typer.Argument(help="The tenant that needs room.")],
    node: Annotated[str | None, typer.Option(help="HOST:PORT of the node to go to.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a large tenant shards of its own, and a node if one is named, also one that just joined.

    Those who write to what is moved wait meanwhile; nothing is refused that waits less than
    database.lock_timeout_seconds.
    """
    from butlers.db.citus.tenant_placement import isolate as part

    dsn = _dsn_of_all_nodes(name, home)
    done = asyncio.run(part(dsn, tenant, node))
    if as_json:
        show_json(asdict(done))
        return
    show_line(f"{done.tenant} has shards of its own at {done.node}")


def rebalance(name: ButlerArgument, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Let the nodes hold about as much each, those that joined the cluster since too.

    Those who write wait as with `butlers db isolate`.
    """
    from butlers.db.citus.tenant_placement import rebalance as level

    _show(asyncio.run(level(_dsn_of_all_nodes(name, home))), as_json)


def _dsn_of_all_nodes(name: str, home: "Path | None") -> str:
    """How the owner reaches a butler's database, which knows every node of the cluster."""
    from butlers.db.citus.settle import take_in
    from butlers.logs import configure

    configure("error")
    place = _database_of(name, home)
    dsn = place.dsn(place.database)
    asyncio.run(take_in(place.url, dsn, place.database))
    return dsn


def _run(  # noqa: PLR0913 - one for each option
    name: str, home: "Path | None", *, abandon: bool, drop: bool, as_json: bool, spreads: bool
) -> None:
    from butlers.db.citus import move
    from butlers.logs import configure

    configure("error")
    place = _database_of(name, home)
    told: dict[str, Any] = {"butler": name, "database": place.database}
    if abandon:
        asyncio.run(move.abandon(place))
        told["abandoned"], said = True, f"{name} is as it was"
    elif drop:
        asyncio.run(move.drop_before(place))
        told["dropped"] = f"{place.database}_before"
        said = f"{told['dropped']} is dropped"
    else:
        told["moved"] = asyncio.run(move.move(place, _teller(), spreads=spreads))
        told["distributed"], said = spreads, _outcome(place.database, told["moved"], spreads)
    if as_json:
        show_json(told)
    else:
        show_line(said)


def _outcome(database_name: str, moved: bool, spreads: bool) -> str:
    where = "spread over the nodes of the cluster" if spreads else "on one server"
    if not moved:
        return f"{database_name} is {where} already"
    return (
        f"{database_name} is {where} now; what it was is kept as {database_name}_before, until "
        "you give the command again with --drop-before"
    )


def _database_of(name: str, home: "Path | None") -> "ButlerDatabase":
    """Where a butler's database is; the embedded server is no cluster's."""
    from butlers.db.address import maintenance_url
    from butlers.db.citus.move import ButlerDatabase
    from butlers.db.migrate import migrate
    from butlers.errors import InvalidInput
    from butlers.host import registry
    from butlers.host.home import butler_settings
    from butlers.settings.names import database_name

    settings = butler_settings(home_of(name, home), name)
    if not settings.database.url:
        raise InvalidInput(
            f"butler {name} is on the embedded server, which is no cluster; name a Citus "
            "coordinator in database.url. `butlers export` and `import` bring memories there"
        )
    if not settings.is_enabled("memory"):
        raise InvalidInput(f"butler {name} has no memory; there are no tenants to spread")
    targets = registry.targets(one for one in registry.KNOWN if settings.is_enabled(one))

    async def bring_up(dsn: str) -> None:
        await migrate(dsn, registry.branches(), targets)

    return ButlerDatabase(maintenance_url(settings.database.url), database_name(name), bring_up)


def _teller() -> "Tell":
    """Progress for whoever waits, beside what the command answers."""

    def tell(now: "CopyProgress") -> None:
        said = now.step
        if now.table:
            said += f" {now.table}: {now.rows:,} of {now.of_rows:,} rows"
            said += f", {now.rows_per_second:,} a second" if now.rows_per_second else ""
        elif now.step == "catch up":
            said += f": {now.rows:,} changes"
        typer.echo(said, err=True)

    return tell


def _show(found: "TenantPlacement", as_json: bool) -> None:
    if as_json:
        show_json(asdict(found))
        return
    show_line("spread over nodes" if found.distributed else "on one server")
    show_table(
        [Column("node"), Column("shards"), Column("size"), Column("tenants")],
        [(one.node, str(one.shards), size(one.bytes), str(one.tenants)) for one in found.nodes],
    )
    show_table(
        [Column("largest tenants"), Column("memories")],
        [(tenant, f"{memories:,}") for tenant, memories in found.largest],
    )
