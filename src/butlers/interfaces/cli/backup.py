"""`butlers backup`, `verify`, `restore` and `remove`: whole homes and whole butlers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.homes import shell_command
from butlers.interfaces.cli.options import HomeOption, JsonOption, find_home, home_of, run
from butlers.interfaces.cli.output import show_fields, show_json, show_line, size, to_the_second
from butlers.interfaces.cli.presence import prove_presence

if TYPE_CHECKING:
    from butlers.backup.archive import Manifest
    from butlers.backup.create import Made, Tell
    from butlers.backup.directory import Backups
    from butlers.host.home import Home
    from butlers.host.removal import Belongings


def backup(
    file: Annotated[
        Path | None,
        typer.Argument(help="File or directory to write to [default: as set in [backup]]."),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the whole home into one file. The daemon can keep running.

    The file holds databases, notes, settings and spooled sessions. Keep it private: it holds your
    memories. Of tokens it holds only hashes.
    """
    made = run(_make(find_home(home).checked(), file, _progress(as_json)))
    fields = _manifest_fields(made.manifest) | {"file": str(made.file), "bytes": made.bytes}
    if as_json:
        show_json(fields | {"seconds": round(made.seconds, 1)})
        return
    show_line(f"{made.file}: {size(made.bytes)}, in {made.seconds:.1f} s")
    for missing in made.manifest.left_out:
        show_line(f"Not included: {missing}")
    show_line("Keep it private, and on another disk.")


def verify(
    file: Annotated[
        Path | None, typer.Argument(help="The backup [default: the newest one].")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Restore it temporarily and count every row.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a backup is complete and can be restored; exits 1 if not."""
    from butlers.backup import restore_home

    chosen = file or _list_backups(find_home(home)).find().file
    manifest = run(restore_home.verify(chosen, deep=deep, tell=_progress(as_json)))
    if as_json:
        show_json({"file": str(chosen), "deep": deep, **_manifest_fields(manifest)})
        return
    how = "every row counted" if deep else "all checksums match"
    show_line(f"{chosen} is complete: {how}")
    _show(manifest)


def restore(
    file: Annotated[Path, typer.Argument(help="The backup. Restore only files you trust.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup into an empty home, here or on another machine.

    It checks the backup first and counts every row afterwards. If it is interrupted, run it again.
    """
    from butlers.backup import restore_home

    located = find_home(home)
    restored = run(restore_home.restore(file, located, _progress(as_json)))
    if as_json:
        fields = _manifest_fields(restored.manifest)
        show_json({"home": str(located.root), "notes": restored.notes, **fields})
        return
    show_line(f"{located.root} is restored, every row counted")
    _show(restored.manifest)
    for note in restored.notes:
        show_line(note)
    show_line(f"Start it with {shell_command(located, 'up')}")


def remove(
    name: Annotated[str, typer.Argument(help="Which butler.")],
    keep: Annotated[
        bool, typer.Option("--backup/--no-backup", help="Make a backup of the home first.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before removing.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a butler and everything it remembers.

    Stop the daemon first. The command shows what it will remove, asks, and makes a backup of the
    home before it removes anything. Only a person removes a butler.
    """
    from butlers.host import removal
    from butlers.host.status import alone

    located = home_of(name, home)
    with alone(located):
        belongings = run(removal.belongings(located, name))
        if not as_json:
            _show_belongings(located, name, belongings)
        if not yes and not typer.confirm("Remove all of this?", err=as_json):
            typer.echo("Nothing was removed.", err=as_json)
            raise typer.Exit(1)
        about = [f"all that {name} remembers"]
        run(prove_presence(located, name, None, "remove a butler", about))
        made = run(_make(located, None, _progress(as_json))) if keep else None
        run(removal.remove(located, name))
    if as_json:
        show_json({"removed": name, "backup": str(made.file) if made else None})
        return
    show_line(f"{name} is removed." + (f" The backup {made.file} still has it." if made else ""))


async def _make(home: "Home", file: Path | None, tell: "Tell") -> "Made":
    from butlers.backup.create import make

    backups = _list_backups(home)
    if file is None:
        return await backups.make(tell)
    return await make(home, file / backups.next_name if file.is_dir() else file, tell)


def _list_backups(home: "Home") -> "Backups":
    from butlers.backup.directory import Backups
    from butlers.settings.files import load_home

    return Backups(home, load_home(home.settings_file).backup)


def _progress(as_json: bool) -> "Tell":
    """Report progress on stderr, so that scripts read only the answer."""
    return (lambda words: None) if as_json else lambda words: typer.echo(words, err=True)


def _manifest_fields(manifest: "Manifest") -> dict[str, Any]:
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
        ("made", f"{to_the_second(manifest.made_at)} UTC by version {manifest.version}"),
        ("of", f"{manifest.home} on {manifest.host}"),
        ("rows", ", ".join(rows) or "none"),
    )


def _show_belongings(home: "Home", name: str, belongings: "Belongings") -> None:
    memories = ", ".join(f"{count:,} {kind}" for kind, count in belongings.memories.items())
    show_fields(
        ("memories", memories),
        ("files", ", ".join(belongings.files)),
        ("schedule", ", ".join(belongings.schedule) or "none"),
        ("tokens", ", ".join(token.id for token in belongings.tokens) or "none"),
        ("sessions", f"{len(belongings.sessions)} spooled"),
    )
    for agent in belongings.connections:
        where = ["--project", agent.project] if agent.project else ["--scope", "user"]
        command = shell_command(home, "disconnect", agent.client, "--butler", name, *where)
        show_line(f"{agent.client} is connected to it; disconnect it with {command}")
