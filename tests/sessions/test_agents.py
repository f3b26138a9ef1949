"""Every agent's table: what `connect` writes is valid there, and comes out again to the byte."""

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from butlers.sessions import json_text
from butlers.sessions.agent_connections import Connection, connecting, disconnecting, files_of
from butlers.sessions.agents import SNIPPET, Agent, agent_names, load_agent
from butlers.sessions.original_files import OriginalFiles

EVENTS = {"SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd"} | {
    *("PreToolUse", "PostToolUse", "PostToolUseFailure")
}
JSON = {
    "empty": "{}",
    "tabs": '{\n\t"zeta" : 4711,\n\t"hooks": {"Other": [ ]},  "mcpServers" :{ "x":{"y":"z"}}\n}',
    "windows": '{\r\n    "größe": "weit",\r\n    "list": [4711,\r\n      2]\r\n}\r\n',
    "one line": '{"numStartups":7,"mcp":{}}',
    "blank": "\n",
}
COMMENTS = {
    "comments": '// mine\n{\n  // a\n  "servers": { "x": 2, /* */ },\n  "b": [4711, 2,], // c\n}\n'
}
OTHERS = {
    "toml": {"toml": '# 4711\nmodel = "x"   # good\n\n[mcp_servers.other]\ncommand = "npx"'},
    "yaml": {
        "yaml": "A: 4711\nextensions:\n    # one\n    developer:\n        enabled: true\nB: y\n",
        "without": "GOOSE_MODEL: x",
        "none": "extensions: {}\nz: 1\n",
    },
}
OWN = [name for name in agent_names() if name != SNIPPET]


def forms(agent: Agent, part: str) -> dict[str, str]:
    form = agent.table[part].get("format", "json")
    return OTHERS.get(form) or (JSON | COMMENTS if form == "jsonc" else JSON)


def hashes(directory: Path) -> dict[str, str]:
    found = sorted(directory.rglob("*"))
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in found if f.is_file()}


def parsed(path: Path, part: dict[str, Any]) -> Any:
    text = path.read_bytes().decode()
    form = part.get("format", "json")
    if form == "toml":
        return tomllib.loads(text)
    return (
        yaml.safe_load(text) if form == "yaml" else json_text.parse(text, comments=form == "jsonc")
    )


class Machine:
    """A user's directory, and one butler's connection to one agent."""

    def __init__(self, directory: Path, name: str, butler: str = "general") -> None:
        self.agent, self.home = load_agent(name), directory / ".butlers"
        self.home.mkdir(exist_ok=True)
        self.connection = Connection(butler, self.home)
        self.key = (butler, name, "")
        self.originals = OriginalFiles(self.home / "originals")

    @property
    def where(self) -> Any:
        return files_of(self.agent, None, self.connection.server_name)

    def connect(self) -> None:
        self.originals.connect(connecting(self.connection, self.agent, self.where), self.key)

    def disconnect(self) -> None:
        changes = disconnecting(self.connection, self.agent, self.where)
        self.originals.disconnect(
            [self.originals.given_back(change, self.key) for change in changes], self.key
        )

    def write(self, form: str) -> None:
        """Write hand-made settings of one form to each file that the agent reads."""
        for part, path in (("mcp", self.where.servers), ("hooks", self.where.hooks)):
            text = forms(self.agent, part).get(form) if path and not path.exists() else None
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode())


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLINE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("form", ["absent", *JSON, *COMMENTS, *OTHERS["toml"], *OTHERS["yaml"]])
@pytest.mark.parametrize("name", OWN)
def test_files_come_back_to_the_byte(user: Path, name: str, form: str) -> None:
    machine = Machine(user, name)
    machine.write(form)
    before = hashes(user)
    if form != "absent" and not before:
        return  # the agent has no file of this form
    machine.connect()
    connected = hashes(user)
    assert connected != before
    machine.connect()
    assert hashes(user) == connected
    machine.disconnect()
    assert hashes(user) == before
    assert [path for path in user.rglob("*") if path.is_dir() and form == "absent"] == (
        [user / ".butlers", user / ".butlers/originals"] if form == "absent" else []
    )


@pytest.mark.parametrize("form", ["tabs", "windows", "comments", "toml", "yaml"])
@pytest.mark.parametrize("name", OWN)
def test_what_its_user_wrote_since_stays(user: Path, name: str, form: str) -> None:
    machine = Machine(user, name)
    machine.write(form)
    written = {Path(path): Path(path).read_bytes() for path in hashes(user)}
    machine.connect()
    for path in written:
        path.write_bytes(path.read_bytes().replace(b"4711", b"12") + b"\n")
    machine.disconnect()
    for path, before in written.items():
        # What else their hook files must hold was added for the agent, and stays with the file.
        left = re.sub(rb',\n\s+"version": 1', b"", path.read_bytes().replace(b"\r", b""))
        assert left == before.replace(b"\r", b"").replace(b"4711", b"12") + b"\n"


@pytest.mark.parametrize("name", OWN)
def test_two_butlers_come_out_in_either_order(user: Path, name: str) -> None:
    machine, other = Machine(user, name), Machine(user, name, "kitchen")
    if name == "cline":
        return  # one hook file an event
    machine.write("tabs")
    before = hashes(user)
    for first, second in ((machine, other), (other, machine)):
        machine.connect()
        other.connect()
        first.disconnect()
        assert any(
            "butlers-" in Path(path).read_text() for path in hashes(user) if "originals" not in path
        )
        second.disconnect()
        assert hashes(user) == before


@pytest.mark.parametrize("name", OWN)
def test_a_table_is_whole_and_its_entries_are_found_where_it_says(user: Path, name: str) -> None:
    machine = Machine(user, name)
    table = machine.agent.table
    assert {"title", "verified", "next"} <= table.keys()
    assert {"commands", "directories"} & table.keys()
    machine.connect()
    if "mcp" in table:
        settings = parsed(machine.where.servers, table["mcp"])
        entry = json.dumps(settings[table["mcp"]["key"]]["butlers-general"])
        assert '"mcp", "general"' in entry and "{" not in entry[1:-1].replace("{}", "")
    if "hooks" in table:
        assert set(table["hooks"]["events"]) <= EVENTS
        hooks = json.loads(machine.where.hooks.read_text())["hooks"]
        assert set(hooks) == set(table["hooks"]["events"].values())
        command = f"--agent {name}" if name not in ("claude-code", "codex") else "butlers-hook"
        assert all(command in json.dumps(groups) for groups in hooks.values())
    for path, own in machine.where.own:
        assert "butlers-hook" in path.read_text()
        assert bool(path.stat().st_mode & 0o100) == bool(own.get("script"))


def test_units_of_time_are_the_agents_own(user: Path) -> None:
    timeouts = {}
    for name in ("claude-code", "gemini-cli", "qwen-code"):
        machine = Machine(user, name)
        machine.connect()
        groups = json.loads(machine.where.hooks.read_text())["hooks"]["SessionStart"]
        timeouts[name] = groups[0]["hooks"][0]["timeout"]
    assert timeouts == {"claude-code": 3, "gemini-cli": 3000, "qwen-code": 3}


def test_the_plugin_of_claude_code_is_what_connect_writes(user: Path) -> None:
    plugin = Path(__file__).parents[2] / "integrations" / "claude-code-plugin"
    machine = Machine(user, "claude-code")
    machine.connection = Connection("general", machine.home, is_portable=True)
    machine.connect()
    hooks = json.loads((plugin / "hooks" / "hooks.json").read_text())["hooks"]
    assert hooks == json.loads(machine.where.hooks.read_text())["hooks"]
    servers = json.loads((plugin / ".mcp.json").read_text())
    assert servers == json.loads(machine.where.servers.read_text())


def test_the_notes_an_agent_takes_by_itself_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    notes, empty = (tmp_path / f".claude/projects/{name}/memory" for name in ("-work-api", "-new"))
    for place in (notes, empty):
        place.mkdir(parents=True)
    (notes / "MEMORY.md").write_text("# Build\n\n- Always run make check first\n")
    assert load_agent("claude-code").memories() == [notes]
    assert load_agent("zed").memories() == []
