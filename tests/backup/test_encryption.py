"""An encrypted backup: it opens with its passphrase alone, and no change to it goes unnoticed."""

import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from butlers.backup.archive import Archive, Manifest, Writing
from butlers.backup.create import make
from butlers.backup.directory import Backups
from butlers.backup.encryption import BLOCK, HEADER, EncryptedWriter, decrypted, is_encrypted
from butlers.backup.restore_home import restore, verify
from butlers.clock import utc_now
from butlers.errors import ButlersError, InvalidInput
from butlers.host.home import Home
from butlers.interfaces.http.backups import BackupChecks
from butlers.settings.sections import BackupSection
from conftest import WalkingClock
from interfaces.daemons import ENVIRONMENT, PROGRAM, butlers

WORDS = "correct horse battery"
SEALED = BLOCK + 16
NOTE = "the combination of the safe is 11 22 33"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home without a database, with a note and a file of several blocks."""
    home = Home(tmp_path / "home")
    home.create_butler("general")
    with closing(sqlite3.connect(home.butler_directory("general") / "notes.sqlite")) as notes:
        notes.execute("create table notes (content text)")
        notes.execute("insert into notes values (?)", (NOTE,))
        notes.commit()
    (home.root / "spool").mkdir()
    (home.root / "spool" / "large.json").write_bytes(os.urandom(4 * BLOCK))
    return home


@pytest.fixture
async def file(home: Home, tmp_path: Path) -> Path:
    return (await make(home, tmp_path / "one.zip.enc", passphrase=WORDS)).file


async def test_with_its_passphrase_it_is_restored_and_shows_nothing_without(
    home: Home, file: Path, tmp_path: Path
) -> None:
    content = file.read_bytes()
    for plain in (b"PK\x03\x04", b"butlers.toml", b"manifest", NOTE.encode()):
        assert plain not in content
    assert file.stat().st_mode & 0o777 == 0o600
    assert (await verify(file, passphrase=WORDS)).home == str(home.root)
    other = Home(tmp_path / "other")
    await restore(file, other, passphrase=WORDS)
    large = Path("spool") / "large.json"
    assert (other.root / large).read_bytes() == (home.root / large).read_bytes()
    with closing(sqlite3.connect(other.butler_directory("general") / "notes.sqlite")) as notes:
        assert notes.execute("select content from notes").fetchall() == [(NOTE,)]


async def test_the_same_home_is_never_encrypted_to_the_same_bytes(
    home: Home, file: Path, tmp_path: Path
) -> None:
    again = (await make(home, tmp_path / "two.zip.enc", passphrase=WORDS)).file
    pairs = zip(file.read_bytes()[20:], again.read_bytes()[20:], strict=False)
    assert sum(one == two for one, two in pairs) < file.stat().st_size / 100


@pytest.mark.parametrize(
    ("passphrase", "words"),
    [("", "is encrypted: give its passphrase"), (WORDS + " ", "wrong passphrase")],
)
async def test_without_its_passphrase_it_is_refused(
    file: Path, tmp_path: Path, passphrase: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        await verify(file, passphrase=passphrase)
    with pytest.raises(InvalidInput, match=words):
        await restore(file, Home(tmp_path / "other"), passphrase=passphrase)
    assert not (tmp_path / "other").exists()


async def test_a_passphrase_may_be_typed_on_another_keyboard(home: Home, tmp_path: Path) -> None:
    composed, parts = "\u00fcberall offen", "u\u0308berall offen"
    file = (await make(home, tmp_path / "one.zip.enc", passphrase=composed)).file
    await verify(file, passphrase=parts)


async def test_a_short_passphrase_makes_no_backup(home: Home, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="use 12 characters or more"):
        await make(home, tmp_path / "one.zip.enc", passphrase="short")
    assert [entry.name for entry in tmp_path.iterdir()] == ["home"]


def cut(at: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:at]


def flipped(at: int) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[at] ^= 1
        return bytes(changed)

    return flip


def of_blocks(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    """The same header before other blocks."""

    def rearrange(content: bytes) -> bytes:
        body = content[HEADER:]
        blocks = [body[at : at + SEALED] for at in range(0, len(body), SEALED)]
        assert len(blocks) > 4
        return content[:HEADER] + b"".join(change(blocks))

    return rearrange


DAMAGES = {
    "cut in the magic": cut(10),
    "cut in the header": cut(HEADER - 40),
    "cut after the header": cut(HEADER),
    "cut in the first block": cut(HEADER + 100),
    "cut between blocks": cut(HEADER + 2 * SEALED),
    "cut in a tag": cut(HEADER + 3 * SEALED - 5),
    "last byte missing": cut(-1),
    "last block missing": of_blocks(lambda blocks: blocks[:-1]),
    "first block missing": of_blocks(lambda blocks: blocks[1:]),
    "a block in the middle missing": of_blocks(lambda blocks: blocks[:2] + blocks[3:]),
    "two blocks exchanged": of_blocks(lambda b: [b[0], b[2], b[1], *b[3:]]),
    "a block twice": of_blocks(lambda blocks: [*blocks[:2], blocks[1], *blocks[2:]]),
    "last block twice": of_blocks(lambda blocks: [*blocks, blocks[-1]]),
    "a byte added": lambda content: content + b"\0",
    "version": flipped(16),
    "cost": flipped(17),
    "parallelism": flipped(19),
    "salt": flipped(30),
    "mac": flipped(HEADER - 1),
    "first byte": flipped(HEADER),
    "a byte in the middle": flipped(HEADER + 2 * SEALED + 77),
    "a tag": flipped(HEADER + 2 * SEALED - 1),
    "last byte": flipped(-1),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_changed_or_truncated_file_is_refused(
    file: Path, tmp_path: Path, damage: str
) -> None:
    changed = DAMAGES[damage](file.read_bytes())
    assert changed != file.read_bytes()
    file.write_bytes(changed)
    with pytest.raises(InvalidInput, match="damaged|not a complete backup"):
        await verify(file, passphrase=WORDS)
    with pytest.raises(InvalidInput, match="damaged|not a complete backup"):
        await restore(file, Home(tmp_path / "other"), passphrase=WORDS)
    assert not (tmp_path / "other").exists()


async def test_blocks_of_another_file_of_the_same_passphrase_are_refused(
    home: Home, file: Path, tmp_path: Path
) -> None:
    other = (await make(home, tmp_path / "two.zip.enc", passphrase=WORDS)).file.read_bytes()
    file.write_bytes(file.read_bytes()[:HEADER] + other[HEADER:])
    with pytest.raises(InvalidInput, match="is damaged"):
        await verify(file, passphrase=WORDS)


def test_a_header_cannot_ask_for_all_memory(tmp_path: Path) -> None:
    file = tmp_path / "greedy"
    with file.open("wb") as stream:
        EncryptedWriter(stream, WORDS).finish()
    content = bytearray(file.read_bytes())
    content[17] = 30
    file.write_bytes(content)
    began = time.monotonic()
    with pytest.raises(InvalidInput, match="newer butlers, or its header is damaged"):
        decrypted(file, WORDS)
    assert time.monotonic() - began < 0.1


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_any_length_is_read_as_it_was_written(tmp_path: Path, size: int) -> None:
    content, file = os.urandom(size), tmp_path / "sealed"
    with file.open("wb") as stream:
        writer = EncryptedWriter(stream, WORDS)
        for at in range(0, size, 1000):
            writer.write(content[at : at + 1000])
        writer.finish()
    with decrypted(file, WORDS) as opened:
        assert opened.read() == content
        opened.seek(-min(size, 10), os.SEEK_END)
        assert opened.read() == content[-10:]


@pytest.mark.slow
def test_a_large_backup_is_written_and_checked_in_little_memory(tmp_path: Path) -> None:
    file, megabyte = tmp_path / "large", 1024 * 1024
    tracemalloc.start()
    try:
        with file.open("wb") as stream, Writing(stream, WORDS) as writing:
            with writing.member("home/large", squeeze=False) as write:
                for _ in range(50):
                    write(os.urandom(megabyte))
            writing.finish(manifest_of(writing))
        with Archive(file, WORDS) as archive:
            archive.check()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert file.stat().st_size > 50 * megabyte
    assert most < 8 * megabyte


def manifest_of(writing: Writing) -> Manifest:
    nothing: dict[str, object] = {"databases": {}, "hooks": (), "left_out": ()}
    return Manifest.model_validate(
        {"format": 1, "version": "0", "made_at": utc_now(), "home": "", "host": ""}
        | nothing
        | {"members": writing.members}
    )


async def test_while_it_is_written_no_disk_has_anything_of_it_in_the_clear(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks at all files outside the home after each member, before anything is removed."""
    finish, seen, target = Writing.finish, set[str](), tmp_path / "usb"
    target.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(target))

    def look(writing: Writing, manifest: Manifest) -> None:
        for written in target.rglob("*"):
            if written.is_file():
                seen.add(written.name)
                content = written.read_bytes()
                assert content.startswith(b"BUTLERS BACKUP") or not content, written
                assert NOTE.encode() not in content
        finish(writing, manifest)

    monkeypatch.setattr(Writing, "finish", look)
    await make(home, target / "one.zip.enc", passphrase=WORDS)
    assert seen == {"one.zip.enc"}


@pytest.mark.slow
async def test_killed_while_it_is_written_it_leaves_nothing_that_is_taken_for_a_backup(
    home: Home, tmp_path: Path
) -> None:
    large, target = home.root / "spool" / "huge.json", tmp_path / "usb"
    target.mkdir()
    large.write_bytes(os.urandom(40 * 1024**2))
    words = tmp_path / "words"
    words.write_text(f"{WORDS}\n")
    command = [*PROGRAM, "backup", f"{target}/", "--passphrase-file", str(words)]
    command += ["--home", str(home.root)]
    for waited in (2 * SEALED, 60 * SEALED, 1):
        process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        draft = growing(target, waited, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert [entry.name[:16] for entry in target.iterdir()] == [".butlers-backup-"]
        with pytest.raises(ButlersError):
            await verify(draft, passphrase=WORDS)
        if waited != 1:
            shutil.rmtree(draft.parent)
    large.unlink()
    made = butlers(*command[len(PROGRAM) :])
    assert made.returncode == 0, made.stderr
    (left,) = target.iterdir()
    await verify(left, passphrase=WORDS)


def growing(target: Path, size: int, process: "subprocess.Popen[bytes]") -> Path:
    """The draft in a directory, once it has this size."""
    for _ in range(3000):
        drafts = [file for file in target.glob(".butlers-backup-*/*") if file.exists()]
        if drafts and drafts[0].stat().st_size >= size:
            return drafts[0]
        assert process.poll() is None
        time.sleep(0.01)
    raise AssertionError(f"nothing of {size} bytes was written")


async def test_scheduled_backups_are_encrypted_checked_and_deleted_with_the_passphrase_of_a_file(
    home: Home, tmp_path: Path, clock: WalkingClock
) -> None:
    directory, words = tmp_path / "kept", tmp_path / "words"
    words.write_text(f"{WORDS}\nnot this line\n")
    settings = BackupSection(directory=str(directory), keep=2, passphrase_file=str(words))
    kept = Backups(home, settings, clock)
    by_hand = await kept.make(passphrase="another passphrase")
    for _ in range(3):
        clock.advance(days=1)
        await kept.make()
    newest, second, foreign = (one.file for one in kept.all())
    assert foreign == by_hand.file  # whose it is cannot be known, so it stays
    assert all(re.fullmatch(r"butlers-\d+-\d+\.zip\.enc", one.name) for one in (newest, second))
    assert kept.find().file == newest and is_encrypted(newest)
    checks = BackupChecks()
    assert (await checks.check(newest, kept.passphrase, deep=False))["whole"]
    assert "wrong passphrase" in (await checks.check(foreign, kept.passphrase, deep=False))["why"]


@pytest.mark.parametrize("content", [None, "", "\nsecond line has it", b"\xff\xfe"])
async def test_without_the_passphrase_that_settings_name_nothing_is_written_in_the_clear(
    home: Home, tmp_path: Path, content: str | bytes | None
) -> None:
    words = tmp_path / "words"
    if content is not None:
        words.write_bytes(content if isinstance(content, bytes) else content.encode())
    settings = BackupSection(directory=str(tmp_path / "kept"), passphrase_file=str(words))
    with pytest.raises(InvalidInput, match=str(words)):
        await Backups(home, settings).make()
    assert not (tmp_path / "kept").exists()


def test_the_commands_ask_at_the_terminal_and_take_it_from_the_environment(
    home: Home, tmp_path: Path
) -> None:
    usb = tmp_path / "usb"
    usb.mkdir()
    place = ("--home", home.root)
    said, code = typed(f"{WORDS}\n{WORDS}\n", "backup", f"{usb}/", "--passphrase", *place)
    assert code == 0 and said.count("Passphrase") == 1 and "Repeat for confirmation" in said
    assert WORDS not in said
    (file,) = usb.iterdir()
    assert file.name.endswith(".zip.enc")

    said, code = typed(f"{WORDS}\n", "verify", file, *place)
    assert code == 0 and "is complete: all checksums match" in said
    said, code = typed("something else\n", "verify", file, *place)
    assert code == 1 and f"wrong passphrase for {file}" in said

    told = butlers("verify", file, *place, input="")
    assert told.returncode == 1 and "there is no terminal to ask" in told.stderr
    told = butlers("backup", f"{usb}/", "--passphrase", *place, input="")
    assert told.returncode == 1 and "set BUTLERS_BACKUP_PASSPHRASE" in told.stderr
    assert [*usb.iterdir()] == [file]
    with_words = ENVIRONMENT | {"BUTLERS_BACKUP_PASSPHRASE": WORDS}
    for command in (("verify", file, *place), ("restore", file, "--home", tmp_path / "other")):
        told = butlers(*command, env=with_words)
        assert told.returncode == 0, told.stderr
    told = butlers("backup", tmp_path / "by-script.zip.enc", *place, env=with_words)
    assert told.returncode == 0 and is_encrypted(tmp_path / "by-script.zip.enc")


def typed(keys: str, *arguments: object) -> tuple[str, int]:
    """What a command shows at a terminal where somebody types, and how it ends."""
    controller, terminal = pty.openpty()
    with os.fdopen(terminal, "wb") as inside:
        process = subprocess.Popen(
            [*PROGRAM, *map(str, arguments)],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    said = ""
    lines = keys.splitlines(keepends=True)
    while process.poll() is None or said == "":
        try:
            said += os.read(controller, 4096).decode()
        except OSError:  # the program is gone
            break
        if lines and said.endswith(": "):  # printed when it has stopped to show what is typed
            os.write(controller, lines.pop(0).encode())
    os.close(controller)
    return said, process.wait()


def test_a_directory_that_is_not_there_does_not_become_a_file(home: Home, tmp_path: Path) -> None:
    told = butlers("backup", f"{tmp_path}/usb/", "--home", home.root)
    assert told.returncode == 1
    assert (
        f"there is no directory {tmp_path}/usb; mount or create it, or name a file" in told.stderr
    )
    assert not (tmp_path / "usb").exists()
