"""The spool: written by hooks that may be killed at any moment, and bounded."""

import contextlib
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from butlers.clock import utc_now
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.sessions import pauses, spool
from butlers.sessions.prompts import lines_of
from butlers.sessions.session_alerts import missing_sessions, shortfalls
from butlers.sessions.spool_entries import Arrival, SpoolEntries, chunks
from interfaces.daemons import ENVIRONMENT, until
from llm.loopback import serving
from sessions.test_hooks import SESSION, announce, run_hook, silent_port

__all__ = ["silent_port"]

HERE = Path(__file__).parent
STEPS = range(1, 14)
"""More than the end of a session takes, so that the last ones kill nothing."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create_butler("general")
    ensure_hook_token(home, "general", "default")
    return home


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    file = tmp_path / "transcript.jsonl"
    file.write_text('{"type": "user"}\n')
    return file


def event(name: str, transcript: Path, session: str = SESSION) -> dict[str, str]:
    told = {"hook_event_name": name, "session_id": session, "cwd": "/home/ann/shop"}
    return {**told, "transcript_path": str(transcript), "prompt": "Oil it."}


def left(home: Home) -> list[Arrival]:
    return SpoolEntries(home.root).arrivals()


def names(home: Home) -> set[str]:
    return {file.name for file in (home.root / "spool").iterdir()}


@pytest.mark.parametrize("name", ["UserPromptSubmit", "PreCompact", "Stop", "SessionEnd"])
def test_a_session_is_kept_though_its_agent_deletes_it(
    home: Home, transcript: Path, name: str
) -> None:
    assert run_hook(home, event(name, transcript))[0] == ""
    transcript.unlink()
    (arrival,) = left(home)
    assert (arrival.butler, arrival.session) == ("general", SESSION)
    assert arrival.told["cwd"] == "/home/ann/shop"
    assert arrival.is_under_way == (name != "SessionEnd")
    assert arrival.transcript is not None
    assert arrival.transcript.read_text() == '{"type": "user"}\n'


def test_a_transcript_that_is_written_just_after_the_answer_is_kept(
    home: Home, transcript: Path
) -> None:
    text = transcript.read_text()
    transcript.unlink()
    with ThreadPoolExecutor(1) as beside:
        reported = beside.submit(run_hook, home, event("Stop", transcript))
        time.sleep(0.15)  # longer than the hook takes to start
        transcript.write_text(text)
        assert reported.result()[0] == ""
    transcript.unlink()
    (arrival,) = left(home)
    assert arrival.transcript is not None
    assert arrival.transcript.read_text() == text


def test_nobody_else_may_look(home: Home, transcript: Path) -> None:
    run_hook(home, event("SessionEnd", transcript))
    (arrival,) = left(home)
    assert stat.S_IMODE(arrival.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(arrival.file.parent.stat().st_mode) == 0o700


def test_a_session_has_one_entry_while_it_goes_on_and_one_for_each_end(
    home: Home, transcript: Path
) -> None:
    for name in ("UserPromptSubmit", "Stop", "UserPromptSubmit", "PreCompact", "Stop"):
        run_hook(home, event(name, transcript))
    (arrival,) = left(home)
    assert arrival.told["event"] == "Stop"
    assert len(names(home)) == 2
    run_hook(home, event("SessionEnd", transcript))
    assert [one.is_under_way for one in left(home)] == [False]
    run_hook(home, event("SessionEnd", transcript))
    assert len(left(home)) == 2
    assert len(names(home)) == 4


def test_what_an_agent_writes_later_and_elsewhere_is_held_too(home: Home, transcript: Path) -> None:
    transcript.unlink()
    run_hook(home, event("UserPromptSubmit", transcript))
    assert left(home)[0].transcript is None
    transcript.write_text("one\n")
    run_hook(home, event("Stop", transcript))
    transcript.unlink()
    transcript.write_text("one\ntwo\n")  # another file of the same name
    assert left(home)[0].transcript == transcript
    run_hook(home, event("Stop", transcript))
    transcript.unlink()
    held = left(home)[0].transcript
    assert held is not None and held.read_text() == "one\ntwo\n"
    assert len(names(home)) == 2


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory of another file system, where there is one."""
    own = tmp_path.stat().st_dev
    others = [path for path in ("/dev/shm", "/tmp", str(HERE)) if os.access(path, os.W_OK)]
    other = next((path for path in others if os.stat(path).st_dev != own), None)
    if other is None:
        pytest.skip("there is no second file system here")
    directory = Path(tempfile.mkdtemp(dir=other))
    yield directory
    shutil.rmtree(directory)


def test_from_another_file_system_it_is_copied_without_holding_the_agent_up(
    home: Home, elsewhere: Path
) -> None:
    transcript = elsewhere / "t.jsonl"
    transcript.write_bytes(b"0123456789abcde\n" * 2**20)
    run_hook(home, event("Stop", transcript))
    assert names(home) == {f"general~{SESSION}~open.json"}
    _, seconds = run_hook(home, event("SessionEnd", transcript))
    assert seconds < 3.5
    (arrival,) = left(home)
    until(lambda: arrival.held is not None)
    assert arrival.held is not None and arrival.held.stat().st_size == transcript.stat().st_size
    assert stat.S_IMODE(arrival.held.stat().st_mode) == 0o600
    transcript.unlink()
    assert arrival.transcript == arrival.held


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", ["Stop", "SessionEnd"])
def test_a_hook_killed_at_any_step_loses_nothing(
    home: Home, transcript: Path, name: str, step: int
) -> None:
    run_hook(home, event("UserPromptSubmit", transcript))
    command = [sys.executable, str(HERE / "killed_hook.py"), str(step)]
    done = subprocess.run(
        [*command, "general", "--home", str(home.root)],
        input=json.dumps(event(name, transcript)),
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    if step == STEPS[0]:
        assert done.returncode == -signal.SIGKILL
    if step == STEPS[-1]:
        assert done.returncode == 0
    # Whichever entry is there leads to the transcript, even when its agent deletes it.
    transcript.unlink()
    arrivals = left(home)
    assert arrivals
    assert any(one.transcript for one in arrivals)
    assert all(one.told["path"] == str(transcript) for one in arrivals)
    # What is half done is swept away in time, and nothing else.
    SpoolEntries(home.root).sweep(utc_now().timestamp() + 7_200)
    assert left(home) == arrivals
    assert any(one.transcript for one in arrivals)
    assert not [file for file in names(home) if file.startswith(".")]


@pytest.mark.parametrize("damage", [b"{", b"", b"\xff\xfe", None])
def test_an_entry_with_a_changed_byte_is_damaged_and_its_transcript_stays(
    home: Home, transcript: Path, damage: bytes | None
) -> None:
    run_hook(home, event("SessionEnd", transcript))
    transcript.unlink()
    (arrival,) = left(home)
    changed = arrival.file.read_bytes().replace(b"/shop", b"/shot")
    arrival.file.write_bytes(changed if damage is None else damage)
    entries = SpoolEntries(home.root)
    entries.sweep(utc_now().timestamp() + 1e6)
    (damaged,) = left(home)
    assert damaged.told == {}
    entries.set_aside(damaged, "its entry is damaged")
    entries.sweep(utc_now().timestamp() + 1e6)
    (aside,) = entries.set_aside_before()
    assert aside.held is not None and aside.held.read_text() == '{"type": "user"}\n'
    assert aside.told["low_trust"]
    (alert,) = (one for one in shortfalls(home.root, utc_now()) if one.what == "set aside")
    assert SESSION in alert.words and "mv " in alert.remedy and "rm " in alert.remedy


def test_an_entry_of_an_earlier_version_has_no_checksum_and_is_read(
    home: Home, transcript: Path
) -> None:
    run_hook(home, event("SessionEnd", transcript))
    (arrival,) = left(home)
    assert "checksum" in json.loads(arrival.file.read_text())
    arrival.file.write_text(json.dumps(arrival.told))
    assert left(home)[0].told == arrival.told != {}


@pytest.mark.parametrize("step", range(1, 8))
@pytest.mark.parametrize("is_damaged", [True, False])
def test_setting_aside_that_ends_at_any_step_is_finished_by_the_next(
    home: Home, transcript: Path, monkeypatch: pytest.MonkeyPatch, step: int, is_damaged: bool
) -> None:
    run_hook(home, event("SessionEnd", transcript))
    transcript.unlink()
    if is_damaged:
        left(home)[0].file.write_bytes(b"{")
    taken = 0

    def ends_before(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal taken
            taken += 1
            if taken == step:
                raise KeyboardInterrupt
            return call(*arguments, **named)

        return counted

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        for name in ("link", "rename", "replace", "unlink"):
            patch.setattr(os, name, ends_before(getattr(os, name)))
        SpoolEntries(home.root).set_aside(left(home)[0], "why")
    entries = SpoolEntries(home.root)
    entries.sweep(utc_now().timestamp() + 1e6)
    for arrival in left(home):
        entries.set_aside(arrival, "why")
    entries.sweep(utc_now().timestamp() + 1e6)
    assert left(home) == []
    (aside,) = entries.set_aside_before()
    assert aside.held is not None and aside.held.read_text() == '{"type": "user"}\n'


def test_a_transcript_without_an_entry_is_removed_only_where_another_copy_is(
    home: Home, transcript: Path
) -> None:
    for session in ("alone", "stored", "twin"):
        (home.root / "spool").mkdir(exist_ok=True)
        os.link(transcript, home.root / "spool" / f"general~{session}~0.held")
    entries = SpoolEntries(home.root)
    entries.sweep(utc_now().timestamp() + 1e6)
    assert names(home) == set()
    for session in ("alone", "stored"):
        (home.root / "spool" / f"general~{session}~0.held").write_text("all there is")
    entries.remember_read({"general~stored": 12})
    entries.sweep(utc_now().timestamp() + 1e6)
    (aside,) = entries.set_aside_before()
    assert aside.session == "alone" and aside.told["why"] == "its entry is missing"
    assert aside.held is not None and aside.held.read_text() == "all there is"
    assert names(home) == {"aside", "read"}


def test_two_hooks_at_once_leave_what_each_has_to_say(home: Home, transcript: Path) -> None:
    def ended(number: int) -> None:
        run_hook(home, event("SessionEnd", transcript, f"s-{number % 4}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ended, range(16)))
    assert sorted(one.session for one in left(home)) == sorted(f"s-{n % 4}" for n in range(16))
    assert all(one.held for one in left(home))


def test_what_waits_is_bounded_and_what_is_refused_is_told(
    home: Home, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(session: str) -> str:
        told = {"butler": "general", "session": session, "event": "SessionEnd"}
        told |= {"path": str(transcript), "cwd": ""}
        return spool.keep(str(home.root), told, ended=True)

    monkeypatch.setattr(spool, "MAX_ENTRIES", 3)
    assert [bool(end(f"s-{number}")) for number in range(5)] == [True, True, True, False, False]
    assert [one.session for one in left(home)] == ["s-0", "s-1", "s-2"]
    told = {one.what: one for one in shortfalls(home.root, utc_now())}
    assert told["refused"].count == 2
    assert "the spool is full (3 sessions" in told["refused"].words
    assert told["waiting"].count == 3
    monkeypatch.setattr(spool, "MAX_ENTRIES", 100)
    monkeypatch.setattr(spool, "MAX_BYTES", 1_000)
    transcript.write_text("x" * 2_000)
    assert end("large") == ""


def limited() -> None:
    """As on a full disk: not a byte can be written to a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_on_a_full_disk_the_agent_goes_on_and_nothing_is_left_half_done(
    home: Home, transcript: Path
) -> None:
    run_hook(home, event("SessionEnd", transcript))
    before = names(home)
    assert run_hook(home, event("SessionEnd", transcript), preexec_fn=limited)[0] == ""
    assert run_hook(home, event("Stop", transcript), preexec_fn=limited)[0] == ""
    assert names(home) == before


def test_a_spool_that_is_none_is_no_reason_to_fail(home: Home, transcript: Path) -> None:
    (home.root / "spool").write_text("in the way")
    for name in ("UserPromptSubmit", "Stop", "SessionEnd"):
        assert run_hook(home, event(name, transcript))[0] == ""
    shutil.rmtree(home.root)
    assert run_hook(home, event("SessionEnd", transcript))[0] == ""
    assert not home.root.exists()


@pytest.mark.parametrize("session", ["../../etc", "a~b", "", "x" * 101, "ü" * 90, "a/b"])
def test_a_session_cannot_name_another_file(home: Home, transcript: Path, session: str) -> None:
    run_hook(home, event("SessionEnd", transcript, session))
    assert left(home) == []
    assert not (home.root / "spool").exists()


def test_what_is_no_regular_file_is_not_waited_for(home: Home, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "none"):
        started = time.monotonic()
        run_hook(home, event("SessionEnd", place))
        assert time.monotonic() - started < 3.5
    assert left(home) == []


def test_a_link_is_followed_to_what_it_stands_for(home: Home, transcript: Path) -> None:
    link = transcript.with_name("link")
    link.symlink_to(transcript)
    run_hook(home, event("SessionEnd", link))
    (arrival,) = left(home)
    assert arrival.told["path"] == str(transcript)
    assert arrival.held is not None and not arrival.held.is_symlink()


def test_a_start_without_memory_is_told_afterwards_with_its_reason(home: Home) -> None:
    start: dict[str, Any] = {"hook_event_name": "SessionStart", "cwd": "/x"}
    run_hook(home, start)
    home.hook_token_file("general").unlink()
    run_hook(home, start)
    (told,) = shortfalls(home.root, utc_now())
    assert (told.what, told.count) == ("started without memory", 2)
    assert "the hooks have no token" in told.words
    notes = (home.root / spool.WITHOUT_MEMORY).read_text()
    assert "the daemon was not running" in notes


def test_a_butler_that_is_slow_or_refuses_is_told_of_too(home: Home, silent_port: int) -> None:
    async def refuse(_: Request) -> Response:
        return JSONResponse({"error": "memory failed or took too long"}, status_code=503)

    start = {"hook_event_name": "SessionStart", "cwd": "/x"}
    app = Starlette(routes=[Route("/butlers/general/hooks/SessionStart", refuse, methods=["POST"])])
    with serving(app) as address:
        announce(home, int(address.rpartition(":")[2]))
        assert run_hook(home, start)[0] == ""
    announce(home, silent_port)
    assert run_hook(home, start)[0] == ""
    notes = (home.root / spool.WITHOUT_MEMORY).read_text().splitlines()
    refused, slow = (json.loads(note)["why"] for note in notes)
    assert refused == "the daemon refused: memory failed or took too long"
    assert slow.startswith("no answer in ")


def test_notes_are_bounded_and_the_newest_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    for number in range(2_000):
        spool.note(str(file), {"number": number, "why": "x" * 50})
    assert file.stat().st_size < 2 * spool.MAX_NOTES_BYTES
    numbers = [json.loads(line)["number"] for line in file.read_text().splitlines()]
    assert numbers == list(range(numbers[0], 2_000))


def test_a_damaged_ledger_keeps_no_session_from_being_kept(home: Home, transcript: Path) -> None:
    """Full, so that the hook reads it to drop its oldest half."""
    (home.root / "hooks").mkdir(exist_ok=True)
    for name in (spool.BEGUN, spool.WITHOUT_MEMORY):
        (home.root / name).write_bytes(b'{"at": "\xff\xfe\x00' + b"x" * 100 + b'"}\n' * 400_000)
    run_hook(home, event("SessionStart", transcript))
    run_hook(home, event("SessionEnd", transcript))
    assert [one.session for one in left(home)] == [SESSION]
    assert SESSION in (home.root / spool.BEGUN).read_text("utf-8", "replace")
    SpoolEntries(home.root).forget_begun(SESSION)
    assert SESSION not in (home.root / spool.BEGUN).read_text("utf-8", "replace")


def test_a_transcript_is_read_whole_and_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.jsonl"
    lines = [f"{number:07d} {'ü' * 40}\n" for number in range(20_000)]
    file.write_text("".join(lines))
    monkeypatch.setattr("butlers.sessions.spool_entries.CHUNK_BYTES", 100_000)
    read = list(chunks(lines_of(file)))
    assert len(read) > 10
    assert "".join(read) == "".join(lines)
    assert all(piece.endswith("\n") for piece in read)
    file.write_text("")
    assert list(chunks(lines_of(file))) == []


def test_a_prompt_without_memory_is_told_afterwards_too(home: Home) -> None:
    prompt = {"hook_event_name": "UserPromptSubmit", "cwd": "/x", "prompt": "the key is 4471"}
    assert run_hook(home, prompt)[0] == ""
    (told,) = shortfalls(home.root, utc_now())
    assert (told.what, told.count) == ("prompts without memory", 1)
    assert told.words.startswith("1 prompt in 7 days, ")
    notes = (home.root / spool.WITHOUT_MEMORY).read_text()
    assert "the daemon was not running" in notes and "4471" not in notes


def test_a_session_that_began_and_was_never_stored_is_told_after_a_day(
    home: Home, transcript: Path, tmp_path: Path
) -> None:
    later, gone = utc_now() + timedelta(hours=25), tmp_path / "gone.jsonl"

    def missing(at: datetime = later) -> dict[str, str]:
        return {one["session"]: one["transcript"] for one in missing_sessions(home.root, at)}

    for session in ("kept", "lost", "stored", "private"):
        run_hook(home, event("SessionStart", transcript, session))
    run_hook(home, event("SessionStart", gone, "unused"))  # nobody said anything in it
    run_hook(home, event("UserPromptSubmit", gone, "forgotten"))
    run_hook(home, {**event("SessionStart", transcript, "test"), "source": "connect"})
    run_hook(home, event("SessionEnd", transcript, "kept"))
    for arrival in left(home):
        if arrival.session != "kept":
            SpoolEntries(home.root).done(arrival)
    SpoolEntries(home.root).remember_read({"general~stored": 5})
    pauses.switch_off(str(home.root), "private")
    assert missing() == {"lost": str(transcript), "forgotten": ""}
    assert missing(utc_now() + timedelta(hours=23)) == missing(utc_now() + timedelta(days=9)) == {}
    (alert,) = (one for one in shortfalls(home.root, later) if one.what == "never stored")
    assert alert.count == 2
    SpoolEntries(home.root).forget_begun("lost")
    assert missing() == {"forgotten": ""}
    assert (home.root / spool.BEGUN).stat().st_mode & 0o077 == 0


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path) -> None:
    """Write until nothing more fits."""
    with open(disk / "filling", "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 512)


@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_session_that_ends_on_a_full_disk_leaves_its_note(
    full_disk: Path, transcript: Path, has_reserve: bool
) -> None:
    home = Home(full_disk / "home")
    home.create_butler("general")
    ensure_hook_token(home, "general", "default")
    run_hook(home, event("UserPromptSubmit", transcript, "before"))
    if has_reserve:
        spool.make_reserve(str(home.root))
        assert (home.root / spool.RESERVE).stat().st_size == spool.RESERVE_BYTES
    fill(full_disk)
    (home.root / "spool" / "full").touch()  # a name without content still fits
    with pytest.raises(OSError, match="No space"):
        (home.root / "spool" / "full").write_text("x")
    # A session under way does not use up the reserve.
    assert run_hook(home, event("Stop", transcript, "later"))[0] == ""
    assert (home.root / spool.RESERVE).exists() == has_reserve
    assert run_hook(home, event("SessionEnd", transcript))[0] == ""
    ended = [one for one in left(home) if one.session == SESSION]
    if not has_reserve:
        assert ended == []
        return
    (arrival,) = ended
    assert arrival.told["path"] == str(transcript) and arrival.transcript == transcript
    assert not (home.root / spool.RESERVE).exists()
    # Once there is room again, it is reserved again; while there is none, nothing is left of it.
    fill(full_disk)
    spool.make_reserve(str(home.root))
    assert not [file for file in home.root.iterdir() if file.name.startswith((".", "reserve"))]
    (full_disk / "filling").unlink()
    spool.make_reserve(str(home.root))
    assert (home.root / spool.RESERVE).stat().st_size == spool.RESERVE_BYTES
