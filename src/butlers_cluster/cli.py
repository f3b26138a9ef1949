"""The commands `butlers db distribute`, `undistribute`, `places`, `isolate` and `rebalance`."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.extension import DatabaseCommand
from butlers.interfaces.cli.options import HomeOption, JsonOption, NameArgument, home_of
from butlers.interfaces.cli.output import show_json, show_line, show_table, size

if TYPE_CHECKING:
    from pathlib import Path

    from butlers_cluster.move import ButlerDatabase
    from butlers_cluster.replication import CopyProgress
    from butlers_cluster.tenant_placement import TenantPlacement

AbandonOption = Annotated[bool, typer.Option("--abandon", help="Undo what a stopped run began.")]
DropOption = Annotated[
    bool, typer.Option("--drop-before", help="Drop the replaced database for good.")
]
ButlerArgument = Annotated[str, typer.Argument(help="Which butler.")]


def distribute(
    name: ButlerArgument,
    abandon: AbandonOption = False,
    drop_before: DropOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Distribute a butler's tenants over the nodes of a Citus cluster, while it is used.

    database.url names the coordinator, with a superuser as login. A new database is filled beside
    the old one and takes its name at the end; requests wait for a moment then. If a run is
    stopped, give the command again and it goes on. The old database is kept as NAME_before until
    --drop-before.
    """
    _move(_database_of(name, home), abandon, drop_before, as_json, distributed=True)


def undistribute(
    name: ButlerArgument,
    abandon: AbandonOption = False,
    drop_before: DropOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a butler's tenants back to one server, the coordinator, while it is used.

    Works as `butlers db distribute` does.
    """
    _move(_database_of(name, home), abandon, drop_before, as_json, distributed=False)


def places(
    name: NameArgument = "general", home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Show where a butler's tenants are: nodes, what each holds, and the largest tenants."""
    from butlers_cluster.tenant_placement import placement_of

    butler = _database_of(name, home)
    _show(asyncio.run(placement_of(butler.dsn(butler.database))), as_json)


def isolate(
    name: ButlerArgument,
    tenant: Annotated[str, typer.Argument(help="The tenant to isolate.")],
    node: Annotated[str | None, typer.Option(help="HOST:PORT of the node to move it to.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a large tenant shards of its own, on a node of your choice; it may have just joined.

    Writes to what is moved wait meanwhile. A write is refused only if it waits longer than
    five seconds.
    """
    from butlers_cluster.tenant_placement import isolate as isolate_tenant

    result = asyncio.run(isolate_tenant(_include_nodes(name, home), tenant, node))
    if as_json:
        show_json(asdict(result))
    else:
        show_line(f"{result.tenant} has shards of its own at {result.node}")


def rebalance(name: ButlerArgument, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Move tenants until the nodes hold about as much each, nodes that just joined as well.

    Writes wait as with `butlers db isolate`.
    """
    from butlers_cluster.tenant_placement import rebalance as rebalance_tenants

    _show(asyncio.run(rebalance_tenants(_include_nodes(name, home))), as_json)


def _include_nodes(name: str, home: "Path | None") -> str:
    """Let every node of the cluster hold tenants; return the address of the butler's database."""
    from butlers_cluster.distribution import include_new_nodes

    butler = _database_of(name, home)
    dsn = butler.dsn(butler.database)
    asyncio.run(include_new_nodes(butler.url, dsn, butler.database))
    return dsn


def _move(
    butler: "ButlerDatabase", abandon: bool, drop: bool, as_json: bool, *, distributed: bool
) -> None:
    from butlers_cluster import move

    result: dict[str, Any] = {"butler": butler.name, "database": butler.database}
    if abandon:
        asyncio.run(move.abandon(butler))
        result["abandoned"], line = True, f"{butler.name} is as it was"
    elif drop:
        asyncio.run(move.drop_before(butler))
        result["dropped"] = f"{butler.database}_before"
        line = f"{result['dropped']} is dropped"
    else:
        result["moved"] = asyncio.run(move.move(butler, _report, distributed=distributed))
        result["distributed"] = distributed
        line = _outcome(butler.database, result["moved"], distributed)
    if as_json:
        show_json(result)
    else:
        show_line(line)


def _outcome(database: str, moved: bool, distributed: bool) -> str:
    where = "distributed over the nodes of the cluster" if distributed else "on one server"
    if not moved:
        return f"{database} is {where} already"
    return (
        f"{database} is {where} now; the old database is kept as {database}_before until you "
        "give the command again with --drop-before"
    )


def _database_of(name: str, home: "Path | None") -> "ButlerDatabase":
    """Find a butler's database; InvalidInput where it is on the embedded server."""
    from butlers.db.address import maintenance_url
    from butlers.db.migrate import migrate
    from butlers.errors import InvalidInput
    from butlers.host import registry
    from butlers.host.home import butler_settings
    from butlers.logs import configure
    from butlers.settings.names import database_name
    from butlers_cluster.move import ButlerDatabase

    configure("error")
    settings = butler_settings(home_of(name, home), name)
    if not settings.database.url:
        raise InvalidInput(
            f"butler {name} is on the embedded server, which is no cluster; name a Citus "
            "coordinator in database.url. `butlers export` and `import` bring memories there"
        )
    if not settings.is_enabled("memory"):
        raise InvalidInput(f"butler {name} has no memory; there are no tenants to distribute")
    targets = registry.targets(module for module in registry.KNOWN if settings.is_enabled(module))

    async def migrate_new(dsn: str) -> None:
        await migrate(dsn, registry.branches(), targets)

    url = maintenance_url(settings.database.url)
    return ButlerDatabase(name, url, database_name(name), migrate_new)


def _report(progress: "CopyProgress") -> None:
    """Print progress to stderr, beside the result of the command."""
    line = progress.step
    if progress.table:
        line += f" {progress.table}: {progress.rows:,} of {progress.of_rows:,} rows"
        line += f", {progress.rows_per_second:,} a second" if progress.rows_per_second else ""
    elif progress.step == "catch up":
        line += f": {progress.rows:,} changes"
    typer.echo(line, err=True)


def _show(placement: "TenantPlacement", as_json: bool) -> None:
    if as_json:
        show_json(asdict(placement))
        return
    show_line("distributed over nodes" if placement.distributed else "on one server")
    show_table(
        ("node", "shards", "size", "tenants"),
        [(n.node, str(n.shards), size(n.bytes), str(n.tenants)) for n in placement.nodes],
    )
    show_table(
        ("largest tenants", "memories"),
        [(tenant, f"{memories:,}") for tenant, memories in placement.largest],
    )


COMMANDS = (
    DatabaseCommand("distribute", "butlers db distribute general", distribute),
    DatabaseCommand("undistribute", "butlers db undistribute general", undistribute),
    DatabaseCommand("places", "butlers db places general --json", places),
    DatabaseCommand("isolate", "butlers db isolate general acme --node 10.0.0.3:5432", isolate),
    DatabaseCommand("rebalance", "butlers db rebalance general", rebalance),
)
