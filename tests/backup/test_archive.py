"""The file a backup is: whatever happened to it is noticed before anything is restored."""

import asyncio
import json
import shutil
import socket
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from butlers.auth.token_store import TokenStore
from butlers.backup.archive import Archive
from butlers.backup.create import locked, make
from butlers.backup.directory import Backups
from butlers.backup.restore_home import restore, verify
from butlers.db import sqlite
from butlers.errors import Conflict, InvalidInput
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.notebook.schema import ensure_memory_schema, open_notebook
from butlers.settings.sections import BackupSection
from conftest import WalkingClock


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose butlers never started, so that there is no database yet."""
    home = Home(tmp_path / "home")
    home.create_butler("general")
    notes = open_notebook(home.butler_directory("general") / "notes.sqlite")
    ensure_memory_schema(notes)
    TokenStore(home.tokens_file).create("general", "default", "an agent")
    ensure_hook_token(home, "general", "default")
    spool = home.root / "spool"
    spool.mkdir()
    (spool / "general~s1~ab.json").write_text('{"session": "s1"}')
    return home


async def test_what_a_backup_holds_and_what_it_must_not(home: Home, tmp_path: Path) -> None:
    secret = home.hook_token_file("general").read_text().strip()
    made = await make(home, tmp_path / "one.zip")
    assert made.file.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(made.file) as held:
        names = set(held.namelist())
        texts = b"".join(held.read(name) for name in names)
    assert {"home/butlers.toml", "home/tokens.json", "home/spool/general~s1~ab.json"} <= names
    assert {"home/butlers/general/butler.toml", "home/butlers/general/notes.sqlite"} <= names
    assert not [name for name in names if "lock" in name or "-wal" in name or "hooks" in name]
    assert secret.encode() not in texts
    with pytest.raises(Conflict, match="exists already"):
        await make(home, made.file)


async def test_a_restored_home_has_its_files_and_its_hooks_a_new_token(
    home: Home, tmp_path: Path
) -> None:
    made = await make(home, tmp_path / "one.zip")
    other = Home(tmp_path / "other")
    (other.root / "spool").mkdir(parents=True)  # a hook came before
    (other.root / "spool" / "general~s2~cd.json").write_text('{"session": "s2"}')
    restored = await restore(made.file, other)
    assert restored.notes == ()
    assert other.butler_names() == ["general"]
    assert other.butler_file("general").read_text() == home.butler_file("general").read_text()
    assert sorted(file.name[8:10] for file in (other.root / "spool").iterdir()) == ["s1", "s2"]
    sqlite.check(other.butler_directory("general") / "notes.sqlite")
    token = other.hook_token_file("general").read_text().strip()
    known = TokenStore(other.tokens_file)
    assert known.verify(token, "general") is not None
    assert known.verify(home.hook_token_file("general").read_text().strip(), "general") is None
    assert [one.note for one in known.all()] == ["an agent", "hooks of agents"]
    for path in (other.butlers_directory, other.tokens_file, other.hook_token_file("general")):
        assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(Conflict, match="is not empty"):
        await restore(made.file, other)


async def test_a_restore_cut_short_at_its_very_end_goes_on_where_it_was(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await make(home, tmp_path / "one.zip")
    other, rename = Home(tmp_path / "other"), Path.rename

    def fails_at_last(entry: Path, target: Path) -> Path:
        if entry.name == "butlers":
            raise OSError("the power is gone")
        return rename(entry, target)

    monkeypatch.setattr(Path, "rename", fails_at_last)
    with pytest.raises(OSError, match="power"):
        await restore(made.file, other)
    monkeypatch.undo()
    assert other.tokens_file.exists() and other.butler_names() == []
    with pytest.raises(Conflict, match="half restored"):
        other.ensure_general()
    await restore(made.file, other)
    assert other.butler_names() == ["general"]
    assert not other.restoring_directory.exists()
    assert not other.ensure_general()


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def without_its_beginning(file: Path) -> None:
    file.write_bytes(b"\0" * 400 + file.read_bytes()[400:])


def with_another_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)


def rewritten(change: Callable[[dict[str, bytes]], None]) -> Callable[[Path], None]:
    """The same backup with other members."""

    def rewrite(file: Path) -> None:
        with zipfile.ZipFile(file) as held:
            members = {name: held.read(name) for name in held.namelist()}
        change(members)
        with zipfile.ZipFile(file, "w") as changed:
            for name, content in members.items():
                changed.writestr(name, content)

    return rewrite


def lacking(members: dict[str, bytes]) -> None:
    del members["home/tokens.json"]


def with_one_more(members: dict[str, bytes]) -> None:
    members["home/butlers/general/more.txt"] = b"?"


def with_other_words(members: dict[str, bytes]) -> None:
    members["home/butlers.toml"] += b"\n# ?\n"


def of_a_later_form(members: dict[str, bytes]) -> None:
    members["manifest.json"] = members["manifest.json"].replace(b'"format": 1', b'"format": 2')


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_short, "not a complete backup"),
        (without_its_beginning, "is damaged"),
        (with_another_byte, "is damaged"),
        (rewritten(lacking), "home/tokens.json is missing"),
        (rewritten(with_one_more), "more.txt is not in its manifest"),
        (rewritten(with_other_words), "butlers.toml is changed"),
        (rewritten(of_a_later_form), "upgrade butlers first"),
        (lambda file: file.write_text("diary"), "not a complete backup"),
    ],
)
async def test_a_damaged_backup_is_refused_and_leaves_no_home(
    home: Home, tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    file = (await make(home, tmp_path / "one.zip")).file
    await verify(file)
    damage(file)
    with pytest.raises(InvalidInput, match=words):
        await verify(file)
    with pytest.raises(InvalidInput, match=words):
        await restore(file, Home(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("path", ["../../etc/x", "postgres/location", ".restoring/x", "/etc/x"])
async def test_a_made_up_backup_writes_nowhere_but_where_one_may(
    home: Home, tmp_path: Path, path: str
) -> None:
    file = (await make(home, tmp_path / "one.zip")).file

    def made_up(members: dict[str, bytes]) -> None:
        manifest = json.loads(members["manifest.json"])
        manifest["members"][f"home/{path}"] = manifest["members"]["home/butlers.toml"]
        members[f"home/{path}"] = members["home/butlers.toml"]
        members["manifest.json"] = json.dumps(manifest).encode()

    rewritten(made_up)(file)
    with pytest.raises(InvalidInput, match="was not made by butlers"):
        await restore(file, Home(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


async def test_backups_are_made_when_due_and_the_newest_of_this_home_kept(
    home: Home, tmp_path: Path, clock: WalkingClock
) -> None:
    directory = tmp_path / "kept"
    settings = BackupSection(cron="0 3 * * *", directory=str(directory), keep=2)
    kept = Backups(home, settings, clock)
    assert kept.is_late  # there is none at all
    foreign = await Backups(home, BackupSection(directory=str(directory)), clock).make()
    elsewhere(foreign.file)
    assert not kept.is_late
    for _ in range(3):
        clock.advance(days=1)
        assert kept.is_late
        await kept.make()
        assert not kept.is_late
    now = datetime(2026, 1, 13, 12, tzinfo=UTC)
    assert clock() == now
    days = [one.made_at.day for one in kept.all()]
    assert days == [13, 12, 10]  # the last one is not ours to remove
    assert not Backups(home, BackupSection(directory=str(directory)), clock).is_late


async def test_while_the_butlers_are_up_one_is_made_by_itself(home: Home) -> None:
    kept = Backups(home, BackupSection(cron="0 3 * * *"))
    async with kept.kept({}), asyncio.timeout(20):
        while not kept.all():
            await asyncio.sleep(0.01)
    (made,) = kept.all()
    assert made.file.parent == home.root / "backups"
    assert (await verify(made.file)).home == str(home.root)
    with pytest.raises(Conflict, match="is being made"), locked(made.file.parent / ".making"):
        await kept.make()


def elsewhere(file: Path) -> None:
    """As if another machine had made it."""

    def moved(members: dict[str, bytes]) -> None:
        host = socket.gethostname().encode()
        members["manifest.json"] = members["manifest.json"].replace(host, b"elsewhere")

    rewritten(moved)(file)
    with Archive(file) as archive:
        assert archive.manifest.host == "elsewhere"


async def test_what_a_killed_backup_left_is_cleared_by_the_next(home: Home, tmp_path: Path) -> None:
    left = tmp_path / ".butlers-backup-killed"
    left.mkdir()
    (left / "one.zip").write_bytes(b"half")
    await make(home, tmp_path / "one.zip")
    assert not left.exists()
    assert not list(tmp_path.glob(".butlers-backup-*"))
    shutil.rmtree(home.root)
