"""What is left in the spool is stored once; what cannot be is kept, told and in nobody's way."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from structlog.testing import capture_logs

from butlers.auth.rights import Caller
from butlers.auth.token_store import TokenStore
from butlers.clock import utc_now
from butlers.errors import Unavailable
from butlers.host import spool_worker as arriving
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.host.spool_worker import MOST_TRIES, SpoolWorker
from butlers.memory.handle import Memory
from butlers.sessions import spool
from butlers.sessions.catch_up import Connected, ConnectionFile
from butlers.sessions.session import SessionMemory
from butlers.sessions.session_alerts import shortfalls
from butlers.sessions.spool_entries import SpoolEntries
from butlers.settings.sections import SessionsSection

SESSION = "2c0097b0-63b9-4aff-974c-3f10e9e95ab6"
OTHER = "01a1e164-7dc6-7730-b5d6-35f2e3c79d54"


class Recorder(SessionMemory):
    """The sessions of a butler; a test may have some of them fail."""

    fails: Callable[[str], Exception | None] = staticmethod(lambda session: None)

    async def remember_transcript(
        self,
        session: str,
        transcript: str,
        metadata: dict[str, Any],
        caller: Caller,
        pasted: Sequence[str] = (),
    ) -> UUID | None:
        error = self.fails(session)
        if error is not None:
            raise error
        return await super().remember_transcript(session, transcript, metadata, caller, pasted)


@dataclass
class Served:
    """As much of a butler as arrivals ask for."""

    memory: SessionMemory
    noted: list[tuple[str, str, int]] = field(default_factory=list)

    def session_memory(self) -> SessionMemory:
        return self.memory

    @property
    def session_log(self) -> "Served":
        return self

    async def note_agent(self, caller: Caller, session: str, **what: Any) -> None:
        self.noted.append((session, what["outcome"], len(what["stored"])))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create_butler("general")
    ensure_hook_token(home, "general", "acme")
    return home


@pytest.fixture
def sessions(memory: Memory) -> Recorder:
    async def opened() -> Memory:
        return memory

    return Recorder("general", opened, 10.0)


@pytest.fixture
def arrivals(home: Home, sessions: Recorder, monkeypatch: pytest.MonkeyPatch) -> SpoolWorker:
    monkeypatch.setattr(arriving, "_PAUSES_SECONDS", (0.0,) * MOST_TRIES)
    monkeypatch.setattr(arriving, "_OUTAGE_SECONDS", 0.0)
    return arrivals_of(home, sessions)


def arrivals_of(
    home: Home, sessions: SessionMemory, idle_minutes: float = 30, *, catch_up: bool = True
) -> SpoolWorker:
    tokens = TokenStore(home.tokens_file)
    served: Any = {"general": Served(sessions)}
    settings = SessionsSection(catch_up=catch_up)
    return SpoolWorker(home, served, tokens, settings, idle_minutes=idle_minutes)


def line(role: str, text: str, number: int) -> str:
    at = f"2026-01-10T09:{number // 60:02d}:{number % 60:02d}Z"
    return json.dumps({"type": role, "message": {"role": role, "content": text}, "timestamp": at})


def said(*texts: str, start: int = 0) -> str:
    roles = ("user", "assistant")
    return "".join(
        line(roles[number % 2], text, start + number) + "\n" for number, text in enumerate(texts)
    )


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    file = tmp_path / f"{SESSION}.jsonl"
    file.write_text(said("Oil the chain.", "Oiled."))
    return file


def leave(home: Home, transcript: Path, session: str = SESSION, **more: str) -> None:
    told = {"butler": "general", "session": session, "cwd": "/home/ann/shop", "event": "SessionEnd"}
    told |= {"path": str(transcript), **more}
    assert spool.keep(str(home.root), told, ended=told["event"] == "SessionEnd")


def files(home: Home) -> list[str]:
    found = (home.root / "spool").rglob("*")
    return sorted(file.name for file in found if file.is_file() and file.name != "read")


async def contents(owner: asyncpg.Connection) -> list[str]:
    return [
        row["content"]
        for row in await owner.fetch("select content from episodes where piece is null order by id")
    ]


def told(home: Home) -> dict[str, str]:
    return {one.what: one.words for one in shortfalls(home.root, utc_now())}


@pytest.mark.contract("L52")
async def test_what_the_agents_history_says_was_pasted_is_not_the_users_word(
    home: Home, arrivals: SpoolWorker, tmp_path: Path, owner: asyncpg.Connection
) -> None:
    pasted = "Always oil the chain with butter."
    transcript = tmp_path / "projects" / "-work" / f"{SESSION}.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text(said(f"Never use tabs. {pasted}", "Noted."))
    held = {"sessionId": SESSION, "pastedContents": {"1": {"content": pasted}}}
    (tmp_path / "history.jsonl").write_text(json.dumps(held))
    leave(home, transcript)
    await arrivals.drain()
    rules = [row["content"] for row in await owner.fetch("select content from rules")]
    assert rules == ["Never use tabs."]
    assert await owner.fetchval("select count(*) from memory_proposals") == 0


@pytest.mark.contract("P1")
async def test_a_session_is_one_episode_however_often_it_is_left(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    for _ in range(3):
        leave(home, transcript)
    await arrivals.drain()
    leave(home, transcript)
    await arrivals.drain()
    assert await contents(owner) == ["Request: Oil the chain.\nOutcome: Oiled."]
    row = await owner.fetchrow("select * from episodes where piece is null")
    assert (row["tenant_id"], str(row["session_id"])) == ("acme", SESSION)
    assert json.loads(row["metadata"])["project"] == "shop"
    assert files(home) == []
    assert told(home) == {}
    noted = arrivals._butlers["general"].noted  # type: ignore[attr-defined]
    assert noted[0] == (SESSION, "ok", 1)
    assert {stored for _, _, stored in noted[1:]} == {0}


async def test_a_session_that_is_resumed_leaves_its_rest(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    leave(home, transcript)
    await arrivals.drain()
    with transcript.open("a") as more:
        more.write(said("Sell it.", "Sold.", start=9))
    leave(home, transcript)
    await arrivals.drain()
    assert await contents(owner) == [
        "Request: Oil the chain.\nOutcome: Oiled.",
        "Request: Sell it.\nOutcome: Sold.",
    ]


async def test_what_its_agent_deleted_is_stored_all_the_same(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    leave(home, transcript)
    transcript.unlink()
    await arrivals.drain()
    assert len(await contents(owner)) == 1
    assert files(home) == []


async def test_the_middle_of_a_long_session_is_read(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    noise = ["Go on.", "x" * 5_000]
    middle = ["No, the spare tyres are kept in bay nine.", "Noted."]
    transcript.write_text(said(*noise * 500, *middle, *noise * 500, "Thanks.", "Done."))
    assert transcript.stat().st_size > 5_000_000
    leave(home, transcript)
    await arrivals.drain()
    assert any("bay nine" in text for text in await contents(owner))


async def test_of_a_session_longer_than_memory_should_hold_every_piece_is_stored_once(
    home: Home,
    arrivals: SpoolWorker,
    transcript: Path,
    owner: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("butlers.sessions.spool_entries.CHUNK_BYTES", 500)
    transcript.write_text(said(*(f"Number {number}." for number in range(40))))
    for _ in range(2):
        leave(home, transcript)
        await arrivals.drain()
    stored = await contents(owner)
    assert len(stored) > 3
    assert len(set(stored)) == len(stored)
    assert "Number 0." in stored[0]
    assert "Number 39." in stored[-1]


async def test_a_session_under_way_waits_until_it_must_have_ended(
    home: Home, sessions: Recorder, transcript: Path, owner: asyncpg.Connection
) -> None:
    arrivals = arrivals_of(home, sessions)
    leave(home, transcript, event="Stop")
    other = transcript.with_name(f"{OTHER}.jsonl")
    other.write_text(said("Sell the chain.", "Sold.", start=9))
    leave(home, other, OTHER, event="UserPromptSubmit")
    await arrivals.drain()
    assert await contents(owner) == []
    age(home, transcript, minutes=31)
    await arrivals.drain()
    assert (
        await owner.fetchval("select session_id::text from episodes where piece is null") == SESSION
    )
    # Its agent may still be at work: it is given twelve times as long.
    age(home, other, minutes=12 * 31)
    await arrivals.drain()
    assert len(await contents(owner)) == 2
    leave(home, transcript)
    await arrivals.drain()
    assert len(await contents(owner)) == 2
    assert files(home) == []


async def test_hooks_and_the_daemon_at_once_lose_nothing_and_double_nothing(
    home: Home, sessions: Recorder, transcript: Path, owner: asyncpg.Connection
) -> None:
    """A session goes on while parts of it are stored, for it counts as ended at every answer."""

    def go_on() -> None:
        for number in range(1, 60):
            with transcript.open("a") as more:
                more.write(said(f"Oil chain {number}.", "Oiled.", start=2 * number))
            leave(home, transcript, event=("Stop", "SessionEnd", "PreCompact")[number % 3])
            # Now and then the agent takes so long that all it said before is stored meanwhile.
            while number % 10 == 0 and files(home):
                time.sleep(0.01)

    arrivals = arrivals_of(home, sessions, idle_minutes=0)
    writing = asyncio.create_task(asyncio.to_thread(go_on))
    while not writing.done():
        await arrivals.drain()
    await writing
    leave(home, transcript)
    await arrivals.drain()
    asked = [
        line for text in await contents(owner) for line in text.splitlines() if "chain" in line
    ]
    assert len(set(asked)) == len(asked)
    assert len(await contents(owner)) > 5
    assert asked[0].endswith("Oil the chain.")
    assert any(line.endswith("Oil chain 59.") for line in asked)
    assert files(home) == []


def age(home: Home, transcript: Path, minutes: float) -> None:
    """Let time pass: every file was last written that long ago."""
    then = utc_now().timestamp() - minutes * 60
    for file in (transcript, *(home.root / "spool").glob("*.json")):
        os.utime(file, (then, then))


async def test_a_session_that_never_wrote_anything_leaves_nothing(
    home: Home, sessions: Recorder, tmp_path: Path
) -> None:
    leave(home, tmp_path / "none", event="UserPromptSubmit")
    await arrivals_of(home, sessions, idle_minutes=0).drain()
    assert files(home) == []


async def test_one_that_fails_keeps_no_other_and_is_set_aside_in_the_end(
    home: Home,
    arrivals: SpoolWorker,
    sessions: Recorder,
    transcript: Path,
    owner: asyncpg.Connection,
) -> None:
    sessions.fails = lambda session: ValueError("secret words") if session == "bad" else None
    bad = transcript.with_name("bad.jsonl")
    bad.write_text(said("Sell the chain.", "Sold.", start=9))
    leave(home, bad, "bad")
    leave(home, transcript)
    for number in range(MOST_TRIES):
        assert len(files(home)) == (4 if number == 0 else 2)
        assert told(home).keys() == {"waiting"}
        await arrivals.drain()
    assert len(await contents(owner)) == 1
    assert told(home).keys() == {"set aside"}
    assert "bad of general: 5 tries failed, the last with ValueError" in told(home)["set aside"]
    await arrivals.drain()
    assert len(files(home)) == 2
    # Mended, and moved back.
    sessions.fails = lambda session: None
    for file in (home.root / "spool" / "aside").iterdir():
        file.rename(home.root / "spool" / file.name)
    bad.unlink()
    await arrivals.drain()
    assert len(await contents(owner)) == 2
    assert (files(home), told(home)) == ([], {})


async def test_an_outage_is_no_try_and_is_complained_of_once(
    home: Home,
    arrivals: SpoolWorker,
    sessions: Recorder,
    transcript: Path,
    owner: asyncpg.Connection,
) -> None:
    sessions.fails = lambda session: Unavailable("the database does not answer")
    leave(home, transcript)
    with capture_logs() as lines:
        for _ in range(3 * MOST_TRIES):
            await arrivals.drain()
    assert [one["reason"] for one in lines] == ["the database does not answer"]
    assert told(home).keys() == {"waiting"}
    sessions.fails = lambda session: None
    await arrivals.drain()
    assert len(await contents(owner)) == 1


async def test_without_a_valid_token_nothing_is_stored_for_anybody(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    leave(home, transcript)
    store = TokenStore(home.tokens_file)
    store.revoke(store.all()[0].id)
    await arrivals.drain()
    home.hook_token_file("general").unlink()
    await arrivals.drain()
    assert await contents(owner) == []
    assert told(home).keys() == {"waiting"}
    ensure_hook_token(home, "general", "acme")
    await arrivals.drain()
    assert len(await contents(owner)) == 1


async def test_what_no_try_would_store_is_set_aside_at_once(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    leave(home, transcript, butler="nobody")
    leave(home, transcript, "lost")
    leave(home, transcript, "damaged")
    for file in (home.root / "spool").glob("*~lost~*.held"):
        file.unlink()
    for file in (home.root / "spool").glob("*~damaged~*.json"):
        file.write_text("{")
    transcript.unlink()
    await arrivals.drain()
    words = told(home)["set aside"]
    assert "there is no butler nobody in this home" in words
    assert "lost of general: its transcript is gone" in words
    assert "damaged of general: its entry is damaged" in words
    (kept,) = (home.root / "spool" / "aside").glob("*~damaged~*.damaged")
    assert kept.read_text() == "{"
    # Its transcript, by now the only copy, is beside it and stays, and can be stored.
    SpoolEntries(home.root).sweep(utc_now().timestamp() + 1e6)
    (found,) = [
        one for one in SpoolEntries(home.root).set_aside_before() if one.session == "damaged"
    ]
    assert found.held is not None and found.held.read_text() == said("Oil the chain.", "Oiled.")
    for file in (home.root / "spool" / "aside").glob("*~damaged~*"):
        file.rename(home.root / "spool" / file.name)
    await arrivals.drain()
    assert len(await contents(owner)) == 1


async def test_a_flipped_byte_costs_a_line_and_a_transcript_without_a_readable_line_stays(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    whole = said("Oil the chain.", "Oiled.", "Mend the tyre.", "Mended.").encode()
    transcript.write_bytes(bytes([whole[0] ^ 0x10]) + whole[1:-20])  # and cut short
    leave(home, transcript, "flipped")
    zeros = transcript.with_name("zeros.jsonl")
    zeros.write_bytes(b"\0" * 5000)
    leave(home, zeros, "zeros")
    zeros.unlink()
    await arrivals.drain()
    (stored,) = await contents(owner)
    assert "Mend the tyre." in stored
    assert "zeros of general: no line of its transcript can be read" in told(home)["set aside"]
    (kept,) = SpoolEntries(home.root).set_aside_before()
    assert kept.held is not None and kept.held.read_bytes() == b"\0" * 5000


async def test_an_entry_cannot_lead_out_of_the_spool_or_to_a_device(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    leave(home, transcript)
    (entry,) = (home.root / "spool").glob("*.json")
    outside = {**spool.read_entry(str(entry)), "path": "/dev/zero", "held": "../tokens.json"}
    entry.write_text(json.dumps(outside))
    await arrivals.drain()
    assert home.tokens_file.exists()
    assert await contents(owner) == []


# What no hook told of


def connect(home: Home, directory: Path, since: str = "2026-01-10T08:00:00+00:00") -> None:
    client, project = "claude-code", str(directory / "shop")
    transcripts = str(directory / "projects")
    ConnectionFile(home.connections_file).add(
        Connected("general", client, project, transcripts, since)
    )


def write(directory: Path, name: str, cwd: str, *texts: str) -> Path:
    file = directory / "projects" / "-shop" / f"{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    head = {"type": "system", "cwd": cwd, "timestamp": "2026-01-10T09:00:00Z"}
    file.write_text(json.dumps(head) + "\n" + said(*texts))
    return file


async def test_a_transcript_nobody_told_of_is_found_and_read_once(
    home: Home, sessions: Recorder, tmp_path: Path, owner: asyncpg.Connection
) -> None:
    arrivals = arrivals_of(home, sessions, idle_minutes=10)
    connect(home, tmp_path)
    file = write(tmp_path, SESSION, str(tmp_path / "shop" / "bay"), "Oil the chain.", "Oiled.")
    await arrivals.catch_up()
    await arrivals.drain()
    assert await contents(owner) == []  # it may go on
    age(home, file, minutes=11)
    await arrivals.catch_up()
    await arrivals.drain()
    assert await contents(owner) == ["Request: Oil the chain.\nOutcome: Oiled."]
    for again in (arrivals, arrivals_of(home, sessions, idle_minutes=10)):
        await again.catch_up()
        assert files(home) == []
    with file.open("a") as more:
        more.write(said("Sell it.", "Sold.", start=9))
    age(home, file, minutes=11)
    await arrivals.catch_up()
    await arrivals.drain()
    assert len(await contents(owner)) == 2


async def test_a_session_that_was_read_before_there_were_pieces_gets_them_once(
    home: Home, sessions: Recorder, tmp_path: Path, owner: asyncpg.Connection
) -> None:
    connect(home, tmp_path)
    arrivals = arrivals_of(home, sessions, idle_minutes=0)
    talk = ("Oil the old chain.", "I oiled 3 links of it.", "The brake is worn at its left side.")
    write(tmp_path, SESSION, str(tmp_path / "shop"), *talk)
    await arrivals.catch_up()
    await arrivals.drain()
    before = await owner.fetch("select content from episodes where piece is not null order by 1")
    assert [row["content"] for row in before] == [f"{talk[0]} → {talk[1]}", talk[2]]
    read = home.root / "spool" / "read"
    sizes = json.loads(read.read_text())
    del sizes["version"]  # as it was written before
    for _ in range(2):
        await owner.execute("delete from episodes where piece is not null")
        read.write_text(json.dumps(sizes))
        again = arrivals_of(home, sessions, idle_minutes=0)
        await again.catch_up()
        await again.drain()
        found = await owner.fetch("select content from episodes where piece is not null order by 1")
        assert found == before
    await again.catch_up()
    assert files(home) == []
    assert len(await contents(owner)) == 1


async def test_only_sessions_of_connected_projects_since_they_were_are_looked_at(
    home: Home, sessions: Recorder, tmp_path: Path
) -> None:
    arrivals = arrivals_of(home, sessions, idle_minutes=0)
    shop = str(tmp_path / "shop")
    write(tmp_path, SESSION, str(tmp_path / "shopping"), "Oil.", "Oiled.")
    write(tmp_path, "agent-7", shop, "Oil.", "Oiled.")
    write(tmp_path, OTHER.upper(), shop, "Oil.", "Oiled.")
    await arrivals.catch_up()
    assert files(home) == []  # nobody is connected
    connect(home, tmp_path)
    await arrivals.catch_up()
    assert files(home) == []
    write(tmp_path, OTHER, shop, "Oil.", "Oiled.")
    await arrivals.catch_up()
    assert len(files(home)) == 1
    await arrivals.catch_up()
    assert len(files(home)) == 1


async def test_what_began_before_the_connection_is_left_alone_and_so_is_everything_if_asked(
    home: Home, sessions: Recorder, tmp_path: Path
) -> None:
    connect(home, tmp_path, since="2026-01-10T09:00:01+00:00")
    write(tmp_path, SESSION, str(tmp_path / "shop"), "Oil.", "Oiled.")
    await arrivals_of(home, sessions, idle_minutes=0).catch_up()
    assert files(home) == []
    home.connections_file.unlink()
    connect(home, tmp_path)
    await arrivals_of(home, sessions, idle_minutes=0, catch_up=False).catch_up()
    assert files(home) == []
    await arrivals_of(home, sessions, idle_minutes=0).catch_up()
    assert len(files(home)) == 1


@pytest.mark.parametrize("text", ["{", "[]", "null", '[{"butler": "general"}]'])
async def test_a_damaged_list_of_connections_names_nobody(
    home: Home, sessions: Recorder, text: str
) -> None:
    home.connections_file.write_text(text)
    await arrivals_of(home, sessions).catch_up()
    assert files(home) == []


async def test_what_was_set_aside_is_not_found_again_and_what_is_full_stays_so(
    home: Home,
    arrivals: SpoolWorker,
    sessions: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrivals = arrivals_of(home, sessions, idle_minutes=0)
    connect(home, tmp_path)
    write(tmp_path, SESSION, str(tmp_path / "shop"), "Oil.", "Oiled.")
    sessions.fails = lambda session: ValueError("no")
    await arrivals.catch_up()
    for _ in range(MOST_TRIES):
        await arrivals.drain()
    assert told(home).keys() == {"set aside"}
    await arrivals.catch_up()
    assert told(home).keys() == {"set aside"}
    write(tmp_path, OTHER, str(tmp_path / "shop"), "Oil.", "Oiled.")
    monkeypatch.setattr(spool, "MAX_ENTRIES", 1)
    await arrivals.catch_up()
    assert told(home).keys() == {"set aside"}
    monkeypatch.setattr(spool, "MAX_ENTRIES", 2)
    await arrivals.catch_up()
    assert told(home).keys() == {"set aside", "waiting"}


async def test_what_arrives_is_stored_though_looking_for_the_rest_fails(
    home: Home, arrivals: SpoolWorker, transcript: Path, owner: asyncpg.Connection
) -> None:
    strange = {"client": "abacus", "project": "", "transcripts": "/", "since": "yesterday"}
    home.connections_file.write_text(json.dumps([{"butler": "general", **strange}]))
    with capture_logs() as lines:
        async with arrivals.kept():
            async with asyncio.timeout(30):
                while not lines:
                    await asyncio.sleep(0.05)
                leave(home, transcript)
                while not await contents(owner) or files(home):
                    await asyncio.sleep(0.05)
    assert "abacus" in lines[0]["reason"]
