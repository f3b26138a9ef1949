"""`butlers backup`, `verify`, `restore` and `remove`: all that a home or one of its butlers has."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.homes import typed
from butlers.interfaces.cli.options import HomeOption, JsonOption, existing_home, home_of, located
from butlers.interfaces.cli.tables import show_fields, show_json, show_line
from butlers.interfaces.cli.wording import size

if TYPE_CHECKING:
    from butlers.backup.archive import Manifest
    from butlers.backup.backup import Made, Tell
    from butlers.backup.directory import Backups
    from butlers.host.home import Home
    from butlers.host.removal import Belongings

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before removing.")]


def backup(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Where to write it, a file or a directory [default: as [backup] says]."
        ),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write everything the home has into one file, while it is used.

    Databases, notes, settings, and sessions that wait, each as of one moment. The file is as
    private as the memories in it; tokens are in it as hashes alone.
    """
    from butlers.logs import configure

    place = existing_home(home)
    configure("error")
    made = asyncio.run(_made(place, file, _teller(as_json)))
    told = _manifest_lines(made.manifest) | {"file": str(made.file), "bytes": made.bytes}
    if as_json:
        show_json(told | {"seconds": round(made.seconds, 1)})
        return
    show_line(f"{made.file}: {size(made.bytes)}, in {made.seconds:.1f} s")
    for what in made.manifest.left_out:
        show_line(f"It lacks {what}")
    show_line("Keep it as private as the memories in it, and on another disk.")


def verify(
    file: Annotated[
        Path | None, typer.Argument(help="The backup [default: the newest that is kept].")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Restore it for a moment, and count every row.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a backup is whole and can be restored; exits 1 where it is not."""
    from butlers.backup.restore import verify as prove
    from butlers.logs import configure

    configure("error")
    chosen = file or _list_backups(located(home)).find().file
    manifest = asyncio.run(prove(chosen, deep=deep, tell=_teller(as_json)))
    if as_json:
        show_json({"file": str(chosen), "deep": deep, **_manifest_lines(manifest)})
        return
    how = "every row was counted" if deep else "every byte is as it was written"
    show_line(f"{chosen} is whole: {how}")
    _show(manifest)


def restore(
    file: Annotated[Path, typer.Argument(help="The backup; only one that you trust.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a backup into an empty home, here or on another machine.

    It is checked first and counted afterwards. Cut short, it can be done again.
    """
    from butlers.backup.restore import restore as bring_back
    from butlers.logs import configure

    configure("error")
    place = located(home)
    restored = asyncio.run(bring_back(file, place, _teller(as_json)))
    if as_json:
        told = _manifest_lines(restored.manifest)
        show_json({"home": str(place.root), "notes": restored.notes, **told})
        return
    show_line(f"{place.root} is restored, every row counted")
    _show(restored.manifest)
    for note in restored.notes:
        show_line(note)
    show_line(f"Start it with {typed(place, 'up')}")


def remove(
    name: Annotated[str, typer.Argument(help="Which butler.")],
    keep: Annotated[
        bool, typer.Option("--backup/--no-backup", help="Make a backup of the home first.")
    ] = True,
    yes: YesOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a butler with everything it remembers; what goes is shown first.

    The home must be down. A backup of the home is made before.
    """
    from butlers.host.removal import belongings
    from butlers.host.removal import remove as take_away
    from butlers.host.status import alone
    from butlers.logs import configure

    place = home_of(name, home)
    configure("error")
    with alone(place):
        _show_belongings(place, name, asyncio.run(belongings(place, name)), as_json)
        if not yes and not typer.confirm("Remove all of this?", err=as_json):
            typer.echo("Nothing was removed.", err=as_json)
            raise typer.Exit(1)
        made = asyncio.run(_made(place, None, _teller(as_json))) if keep else None
        asyncio.run(take_away(place, name))
    if as_json:
        show_json({"removed": name, "backup": str(made.file) if made else None})
        return
    show_line(f"{name} is removed." + (f" It is in {made.file} still." if made else ""))


async def _made(home: "Home", file: Path | None, tell: "Tell") -> "Made":
    from butlers.backup.backup import make

    kept = _list_backups(home)
    if file is None:
        return await kept.make(tell)
    return await make(home, file / kept.next_name if file.is_dir() else file, tell)


def _list_backups(home: "Home") -> "Backups":
    from butlers.backup.directory import Backups
    from butlers.settings.files import load_home

    return Backups(home, load_home(home.settings_file).backup)


def _teller(as_json: bool) -> "Tell":
    """Who says how far it is: beside the answer, so that a script reads that alone."""
    return (lambda words: None) if as_json else lambda words: typer.echo(words, err=True)


def _manifest_lines(manifest: "Manifest") -> dict[str, Any]:
    return {
        "made_at": manifest.made_at,
        "version": manifest.version,
        "from_home": manifest.home,
        "from_host": manifest.host,
        "rows": {butler: stored.rows for butler, stored in manifest.databases.items()},
        "files": len(manifest.members),
        "left_out": manifest.left_out,
    }


def _show(manifest: "Manifest") -> None:
    rows = [f"{butler} {stored.rows:,}" for butler, stored in manifest.databases.items()]
    show_fields(
        [
            ("made", f"{manifest.made_at:%Y-%m-%d %H:%M:%S} UTC by version {manifest.version}"),
            ("of", f"{manifest.home} on {manifest.host}"),
            ("rows", ", ".join(rows) or "none"),
        ]
    )


def _show_belongings(home: "Home", name: str, had: "Belongings", as_json: bool) -> None:
    if as_json:
        return
    memories = ", ".join(f"{count:,} {kind}" for kind, count in had.memories.items())
    show_fields(
        [
            ("memories", memories),
            ("files", ", ".join(had.files)),
            ("schedule", ", ".join(had.schedule) or "none"),
            ("tokens", ", ".join(one.id for one in had.tokens) or "none"),
            ("sessions", f"{len(had.sessions)} that wait"),
        ]
    )
    for one in had.connections:
        where = ["--project", one.project] if one.project else ["--scope", "user"]
        command = typed(home, "disconnect", one.client, "--butler", name, *where)
        show_line(f"{one.client} was given it; take that back with {command}")
