"""Real command lines, a home they must not read, and the stand-ins they speak to."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from butlers.llm import LanguageModel
from llm.command_lines import NotInstallable, command_lines
from llm.conversations import KEY, model_of
from llm.standins import Anthropic, OpenAi, standing_in


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workplaces appear during a test, to see that none stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where the real command lines are, in the cache of the real home."""
    try:
        return command_lines()
    except NotInstallable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def home(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with customisations that no completion may see."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "CLAUDE.md").write_text("Customised: always answer in verse.")
    hook = {"hooks": [{"type": "command", "command": f"touch {home}/hooked"}]}
    settings = {"hooks": {"SessionStart": [hook], "UserPromptSubmit": [hook]}}
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    servers = {"mcpServers": {"spy": {"command": "touch", "args": [f"{home}/spied"]}}}
    (home / ".claude.json").write_text(json.dumps(servers))
    (home / ".codex").mkdir()
    (home / ".codex" / "AGENTS.md").write_text("Customised: always answer in verse.")
    spy = f'[mcp_servers.spy]\ncommand = "touch"\nargs = ["{home}/spied"]\n'
    (home / ".codex" / "config.toml").write_text(spy)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MY_KEY", KEY)
    return home


@pytest.fixture
def anthropic(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Anthropic]:
    api = Anthropic()
    with standing_in(api) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        yield api


@pytest.fixture
def openai(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAi]:
    api = OpenAi()
    with standing_in(api) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
        yield api


@pytest.fixture
def claude(programs: Path, anthropic: Anthropic) -> LanguageModel:
    return model_of(programs, "claude", api_key_env="MY_KEY")


@pytest.fixture
def codex(programs: Path, openai: OpenAi) -> LanguageModel:
    return model_of(programs, "codex", api_key_env="MY_KEY")
