"""`butlers backup`, `verify`, `restore` and `remove`: whole homes and whole butlers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.errors import InvalidInput
from butlers.interfaces.cli.homes import shell_command
from butlers.interfaces.cli.options import HomeOption, JsonOption, find_home, home_of, run
from butlers.interfaces.cli.output import show_fields, show_json, show_line, size, to_the_second
from butlers.interfaces.cli.presence import prove_presence
from butlers.interfaces.cli.shell import NotServed, current_shell

if TYPE_CHECKING:
    from butlers.backup.archive import Manifest
    from butlers.backup.create import Made, Tell
    from butlers.backup.directory import Backups
    from butlers.host.home import Home
    from butlers.host.removal import Belongings


PassphraseFileOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        help="Read the passphrase from the first line of a file [default: "
        "$BUTLERS_BACKUP_PASSPHRASE, else as set in [backup]].",
    ),
]


def backup(
    file: Annotated[
        str, typer.Argument(help="File or directory to write to [default: as set in [backup]].")
    ] = "",
    ask: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase and encrypt the backup.")
    ] = False,
    passphrase_file: PassphraseFileOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the whole home into one file. The daemon can keep running.

    The file holds databases, notes, settings and spooled sessions. Keep it private: it holds your
    memories. Of tokens it holds only hashes. With a passphrase, it is encrypted.
    """
    located = find_home(home).checked()
    passphrase = _passphrase(located, passphrase_file, ask=ask, is_new=True)
    made = run(_make(located, file, _progress(as_json), passphrase))
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
    passphrase_file: PassphraseFileOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a backup is complete and can be restored; exits 1 if not."""
    from butlers.backup import restore_home
    from butlers.backup.encryption import is_encrypted

    located, tell = find_home(home), _progress(as_json)
    chosen = current_shell().path(file) if file else _list_backups(located).find().file
    passphrase = _passphrase(located, passphrase_file, ask=is_encrypted(chosen))
    manifest = run(restore_home.verify(chosen, deep=deep, tell=tell, passphrase=passphrase))
    if as_json:
        show_json({"file": str(chosen), "deep": deep, **_manifest_fields(manifest)})
        return
    how = "every row counted" if deep else "all checksums match"
    show_line(f"{chosen} is complete: {how}")
    _show(manifest)


def restore(
    file: Annotated[Path, typer.Argument(help="The backup. Restore only files you trust.")],
    passphrase_file: PassphraseFileOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup into an empty home, here or on another machine.

    It checks the backup first and counts every row afterwards. If it is interrupted, run it again.
    """
    from butlers.backup import restore_home
    from butlers.backup.encryption import is_encrypted

    located = find_home(home)
    passphrase = _passphrase(located, passphrase_file, ask=is_encrypted(file))
    restored = run(restore_home.restore(file, located, _progress(as_json), passphrase))
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
        made = run(_make(located, "", _progress(as_json))) if keep else None
        run(removal.remove(located, name))
    if as_json:
        show_json({"removed": name, "backup": str(made.file) if made else None})
        return
    show_line(f"{name} is removed." + (f" The backup {made.file} still has it." if made else ""))


async def _make(home: "Home", chosen: str, tell: "Tell", passphrase: str = "") -> "Made":
    from butlers.backup.create import make

    backups, file = _list_backups(home), current_shell().path(chosen)
    if not chosen:
        return await backups.make(tell, passphrase=passphrase)
    if file.is_dir():
        file /= backups.next_name(passphrase)
    elif chosen.endswith("/") or not file.suffix:
        raise InvalidInput(
            f"there is no directory {file}; mount or create it, or name a file such as {file}.zip"
        )
    return await make(home, file, tell, passphrase=passphrase)


def _passphrase(home: "Home", file: Path | None, *, ask: bool, is_new: bool = False) -> str:
    """Return the passphrase that is given, or asked for at the terminal; "" for none."""
    from butlers.backup.encryption import VARIABLE, read_passphrase

    if file is not None:
        return read_passphrase(current_shell().path(file))
    shell = current_shell()
    known = shell.environment.get(VARIABLE) or (
        "" if ask and is_new else _list_backups(home).passphrase
    )
    if known or not ask:
        return known
    if shell.daemon is not None:
        raise NotServed("it asks for a passphrase")
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"there is no terminal to ask for a passphrase; set {VARIABLE} or --passphrase-file"
        )
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=is_new, err=True))


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
