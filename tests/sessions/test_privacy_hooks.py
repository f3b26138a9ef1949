"""What the hook leaves of private turns while no daemon runs: no link, no word, only a mark."""

import json
from pathlib import Path

import pytest

from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.sessions import pauses
from interfaces.daemons import until
from sessions.private_agents import CLAUDE, CODEX, WritingAgent, hits

pytestmark = pytest.mark.contract("L53")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create_butler("general")
    ensure_hook_token(home, "general", "default")
    return home


@pytest.fixture(params=[CLAUDE, CODEX])
def agent(home: Home, tmp_path: Path, request: pytest.FixtureRequest) -> WritingAgent:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    return WritingAgent(home, request.param, tmp_path, tmp_path / "shop")


def held(home: Home) -> list[Path]:
    return [*(home.root / "spool").glob("*.held")]


def test_a_private_prompt_removes_the_link_to_the_transcript(
    home: Home, agent: WritingAgent
) -> None:
    agent.start()
    agent.turn("Oil the chain.", "Oiled.")
    assert len(held(home)) == 1
    agent.turn("<private>zqkiwi</private> Paint it.", "zqkiwi painted.")
    assert held(home) == []
    agent.turn("Sell it.", "Sold.")
    agent.end()
    until(lambda: len(held(home)) == 1)
    (copy,) = held(home)
    assert copy.stat().st_nlink == 1
    text = copy.read_text()
    assert all(word in text for word in ("Oiled", "Paint it", "Sold")) and "painted" not in text
    assert hits(home.root, "zqkiwi") == []


def test_a_private_turn_that_no_prompt_hook_saw_is_noticed_by_the_next_hook(
    home: Home, agent: WritingAgent
) -> None:
    agent.start()
    agent.turn("Oil the chain.", "Oiled.")
    agent.has_hooks = False
    agent.turn("Please don't save this chat. It is about zqkiwi.", "zqkiwi it is.")
    assert hits(home.root, "zqkiwi") != []
    agent.has_hooks = True
    agent.hook("Stop")
    assert hits(home.root, "zqkiwi") == []


def test_a_session_that_is_switched_off_leaves_nothing_but_its_id(
    home: Home, agent: WritingAgent
) -> None:
    agent.environment["BUTLERS_OFF"] = "1"
    agent.start()
    agent.turn("Oil the zqkiwi.", "Oiled.")
    agent.end()
    assert not (home.root / "spool").exists()
    assert [file.name for file in (home.root / pauses.MARKS).iterdir()] == [agent.session]
    mark = json.loads((home.root / pauses.MARKS / agent.session).read_text())
    assert [until for _, until in mark["off"]] == [None]
    assert not (home.root / "hooks" / "without-memory.jsonl").exists()
    agent.environment.clear()
    agent.turn("Sell it.", "Sold.")
    ((_, ended),) = pauses.read_mark(str(home.root), agent.session)["off"]
    assert ended is not None
    assert held(home) == []


def test_old_marks_are_swept_away(home: Home, agent: WritingAgent) -> None:
    pauses.switch_off(str(home.root), agent.session)
    pauses.sweep_marks(str(home.root), (home.root / pauses.MARKS).stat().st_mtime)
    assert pauses.read_mark(str(home.root), agent.session)
    later = (home.root / pauses.MARKS).stat().st_mtime + (pauses.MARK_DAYS + 1) * 86_400
    pauses.sweep_marks(str(home.root), later)
    assert pauses.read_mark(str(home.root), agent.session) == {}
