"""Private turns through the real hook and daemon: not a byte of them is in the home afterwards."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.sessions.catch_up import Connected, ConnectionFile
from db.databases import connected as connected_to
from interfaces.daemons import ENVIRONMENT, PROGRAM, Daemon, butlers, until, up
from interfaces.furnished import furnished_home
from sessions.private_agents import CLAUDE, CODEX, WritingAgent, hits

pytestmark = pytest.mark.slow
PUBLIC = "pelicanpublic"
"""The beginning of every word that must be stored."""


@pytest.fixture
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        home.create_butler("general")
        ensure_hook_token(home, "general", "default")
        yield home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    return tmp_path / "shop"


def is_spooled(home: Home) -> bool:
    return bool([*(home.root / "spool").glob("*~*.json")])


def stored(home: Home) -> str:
    """All that episodes, facts and rules say."""

    async def read() -> str:
        async with connected_to(DatabaseServer(home).running_url("general")) as database:
            rows = await database.fetch(
                "select content from episodes union all select content from facts"
                " union all select content from rules"
            )
            await database.execute("checkpoint")
            return "\n".join(row["content"] for row in rows)

    return asyncio.run(read())


def talk(agent: WritingAgent, name: str) -> None:
    """A session with each way of saying that something is private; canaries begin with zqkiwi."""
    agent.start()
    agent.turn(f"Oil the chain {PUBLIC}{name}one.", "Oiled.")
    agent.turn(
        f"Write the letter {PUBLIC}{name}two <private>to zqkiwi{name}tag</private> now.",
        f"Dear zqkiwi{name}answer", f"cat zqkiwi{name}command", f"zqkiwi{name}output",
    )  # fmt: skip
    agent.turn(f"Don't remember this: I am ill, zqkiwi{name}ill.", f"Get well, zqkiwi{name}well.")
    agent.turn(f"The bell {PUBLIC}{name}three is loud.", "It is.")
    agent.turn(f"Off the record from here on: zqkiwi{name}off.", f"Sure zqkiwi{name}sure.")
    agent.turn(
        f"My boss zqkiwi{name}boss leaves.", f"Oh zqkiwi{name}oh.", output=f"zqkiwi{name}more"
    )
    agent.turn(f"Back on the record. Paint it {PUBLIC}{name}four.", "Painted.")
    agent.turn(f"Never closed {PUBLIC}{name}five <private>zqkiwi{name}open", f"zqkiwi{name}closing")
    agent.turn(f"Das Lager {PUBLIC}{name}six ist voll.", "Ja.")
    agent.turn(f"Merk dir das bitte nicht: zqkiwi{name}krank.", f"Gut, zqkiwi{name}gut.")
    agent.end()


def check(home: Home, texts: str, *names: str) -> None:
    for name in names:
        for part in ("one", "two", "three", "four", "five", "six"):
            assert f"{PUBLIC}{name}{part}" in texts
    assert "zqkiwi" not in texts


@pytest.mark.contract("L53")
def test_not_a_byte_of_a_private_turn_is_in_the_home(
    home: Home, project: Path, tmp_path: Path
) -> None:
    down = {kind: WritingAgent(home, kind, tmp_path / f"{kind}-down", project)
            for kind in (CLAUDE, CODEX)}  # fmt: skip
    for kind, agent in down.items():
        talk(agent, f"down{kind[:2]}")
    until(lambda: len([*(home.root / "spool").glob("*.held")]) == len(down))
    assert hits(home.root, "zqkiwi") == []
    assert hits(home.root / "spool", f"{PUBLIC}downclone") != []
    for agent in down.values():
        agent.transcript.unlink()  # what is stored now is the copy without what is private
    daemon = Daemon(home)
    daemon.ready()
    until(lambda: not is_spooled(home))
    talk(WritingAgent(home, CLAUDE, tmp_path, project), "upcl")
    killed = WritingAgent(home, CODEX, tmp_path, project)
    talk(killed, "upco")
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait(timeout=30)
    assert hits(home.root, "zqkiwi") == []
    with up(home):
        until(lambda: not is_spooled(home))
        check(home, stored(home), "downcl", "downco", "upcl", "upco")
        listed = butlers("sessions", "list", "--json", "--home", home.root).stdout
        assert PUBLIC in listed and "zqkiwi" not in listed
    assert hits(home.root.parent, "zqkiwi") == []
    assert any("postgres" in file for file in hits(home.root, f"{PUBLIC}upclone"))


@pytest.mark.contract("L53")
def test_a_conversation_that_must_not_be_stored_is_not_even_in_part(
    home: Home, project: Path, tmp_path: Path
) -> None:
    agents = [WritingAgent(home, kind, tmp_path, project) for kind in (CLAUDE, CODEX)]
    with up(home):
        for agent in agents:
            agent.start()
            agent.turn("I have a question about zqkiwibefore.", "Ask zqkiwiask.")
            agent.turn(
                "Please do not store this conversation. It is zqkiwilupus.", "I see zqkiwisee."
            )
            agent.turn("What helps zqkiwihelp?", "Rest zqkiwirest.")
            agent.end()
        until(lambda: not is_spooled(home))
        assert "zqkiwi" not in stored(home)
        assert butlers("sessions", "list", "--json", "--home", home.root).stdout.strip() == "[]"
    # The first words were in the log of sessions before that; the rest never was anywhere.
    for word in ("zqkiwiask", "zqkiwilupus", "zqkiwisee", "zqkiwihelp", "zqkiwirest"):
        assert hits(home.root, word) == []


def connect(home: Home, kind: str, directory: Path) -> None:
    since = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="seconds")
    folder = str(directory / ("projects" if kind == CLAUDE else "sessions"))
    ConnectionFile(home.connections_file).add(Connected("general", kind, "", folder, since))


def in_ignored_places(home: Home, kind: str, directory: Path, project: Path) -> None:
    """Sessions in ignored folders, and turns about ignored files and patterns."""
    ignored, secret = directory / "ignored", directory / "client-acme"
    (home.root / ".butlersignore").write_text("client-*\npattern: fox-\\d+\n")
    (project / ".butlersignore").write_text("secrets/**\n")
    for place in (ignored, secret):
        (place / ".git").mkdir(parents=True, exist_ok=True)
        (ignored / ".butlersignore").write_text("*\n")
        agent = WritingAgent(home, kind, directory, place).start()
        agent.turn("In here zqkiwiignored.", "Yes zqkiwiignoredyes.")
        agent.end()
    agent = WritingAgent(home, kind, directory, project).start()
    agent.turn(f"See the bell {PUBLIC}bell.", "Seen.")
    agent.turn("Open secrets/key.txt zqkiwifile.", "Opened zqkiwiopened.")
    agent.turn("Look around zqkiwilook.", "Done zqkiwidone.", "cat ./secrets/a.pem", "zqkiwipem")
    agent.turn("Ask fox-17 about zqkiwifox.", "Asked zqkiwiasked.")
    agent.end()


def in_a_pause(home: Home, kind: str, directory: Path, project: Path) -> WritingAgent:
    """Two sessions paused in the middle; no hook reports the one that is returned."""
    unseen = WritingAgent(home, kind, directory, project, has_hooks=False).start()
    unseen.turn(f"Before {PUBLIC}before.", "Yes.")
    told = butlers("pause", "--for", "2h", "--home", home.root, cwd=project)
    assert "memory is paused until" in told.stdout
    unseen.turn("During the pause zqkiwipause.", "Yes zqkiwipauseyes.")
    paused = WritingAgent(home, kind, directory, project).start()
    paused.turn("Said zqkiwipaused.", "Yes zqkiwipausedyes.")
    assert "memory is not paused" in butlers("resume", "--home", home.root).stdout
    unseen.turn(f"After {PUBLIC}after.", "Yes.")
    paused.turn(f"Resumed {PUBLIC}resumed.", "Yes.")
    paused.end()
    return unseen


@pytest.mark.contract("L53")
def test_what_is_switched_off_paused_or_ignored_is_not_stored_later_either(
    home: Home, project: Path, tmp_path: Path
) -> None:
    for kind in (CLAUDE, CODEX):
        connect(home, kind, tmp_path)
        off = WritingAgent(home, kind, tmp_path, project, environment={"BUTLERS_OFF": "1"}).start()
        off.turn("A secret zqkiwioff.", "Yes zqkiwioffyes.")
        off.end()
        in_ignored_places(home, kind, tmp_path, project)
        for agent in (off, in_a_pause(home, kind, tmp_path, project)):
            agent.grow_old(3_600)
    until(lambda: not [*(home.root / "spool").glob(".*")])
    assert hits(home.root, "zqkiwi") == []
    with up(home):
        until(lambda: f"{PUBLIC}after" in stored(home) and not is_spooled(home))
        texts = stored(home)
        assert all(f"{PUBLIC}{word}" in texts for word in ("bell", "before", "after", "resumed"))
        assert "zqkiwi" not in texts
    assert hits(home.root.parent, "zqkiwi") == []


def store(home: Home, project: Path, text: str, **how: str) -> str:
    """What the command that stores a fact complains of."""
    fact = ("house", "key", text, "--home", home.root)
    return butlers("memory", "store-fact", *fact, cwd=project, env=ENVIRONMENT | how).stderr


def call_tool(home: Home, project: Path, **how: str) -> str:
    """What the tool of an agent answers, over `butlers mcp`."""
    given = {"subject": "bell", "predicate": "is", "content": "zqkiwitool loud"}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    about["clientInfo"] = {"name": "t", "version": "1"}
    lines = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call",
         "params": {"name": "memory_store_fact", "arguments": given}},
    ]  # fmt: skip
    with subprocess.Popen(
        [*PROGRAM, "mcp", "general", "--home", str(home.root)],
        env=ENVIRONMENT | how,
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin is not None and client.stdout is not None
        for line in lines:
            client.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
        client.stdin.flush()
        client.stdout.readline()
        answer = client.stdout.readline()
        client.stdin.close()
    return answer


@pytest.mark.contract("L53")
def test_tools_and_commands_refuse_to_store_what_is_private(home: Home, project: Path) -> None:
    with up(home):
        assert "BUTLERS_OFF is set" in store(home, project, "zqkiwioff", BUTLERS_OFF="1")
        assert "BUTLERS_OFF is set" in call_tool(home, project, BUTLERS_OFF="1")
        text = "<private>zqkiwiall</private>"
        assert "all of it is marked as private" in store(home, project, text)
        assert store(home, project, "hangs here <private>zqkiwispan</private>") == ""
        paused = butlers("pause", "--project", ".", "--json", "--home", home.root, cwd=project)
        assert json.loads(paused.stdout)["paused"][0]["project"] == "shop"
        assert "memory of project shop is paused" in store(home, project, "zqkiwipause")
        assert "memory of project shop is paused" in call_tool(home, project)
        assert "project shop is paused" in butlers("status", "--home", home.root).stdout
        assert butlers("resume", "--home", home.root).returncode == 0
        assert butlers("pause", "--home", home.root).returncode == 0
        assert "privacy: memory is paused" in butlers("doctor", "--home", home.root).stdout
        assert butlers("resume", "--home", home.root).returncode == 0
        texts = stored(home)
        assert "hangs here" in texts and "zqkiwi" not in texts
    assert hits(home.root, "zqkiwi") == []
