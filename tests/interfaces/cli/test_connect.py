"""`butlers connect`: shown first, written once, keeping what is there, and taken back exactly."""

import json
import os
import stat
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from butlers.hook import EVENTS
from butlers.host.home import Home
from butlers.sessions.agent_connections import Connection, connecting, disconnecting, files_of
from butlers.sessions.agents import agent_names, load_agent
from butlers.sessions.catch_up import ConnectionFile
from interfaces.daemons import ENVIRONMENT, butlers, temporary_home

OTHER_HOOK = {"type": "command", "command": "echo hello", "timeout": 9}
SETTINGS = {
    "zeta": 1,
    "permissions": {"allow": ["Bash(ls)"]},
    "hooks": {"SessionStart": [{"matcher": "startup", "hooks": [OTHER_HOOK]}], "Notification": []},
    "größe": "weit",
}
TOML = """# mine
model = "gpt-x"   # the good one

[mcp_servers.other]
command = "npx"

[hooks.state."a:b"]
trusted_hash = "sha256:1"
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with temporary_home() as home:
        home.create_butler("general")
        home.create_butler("kitchen")
        yield home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "a project"
    project.mkdir()
    return project


def environment_of(home: Home, project: Path) -> dict[str, str]:
    """A user's, whose programs are on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{ENVIRONMENT['PATH']}"
    own = {"HOME": str(project.parent), "BUTLERS_HOME": str(home.root), "PATH": path}
    return ENVIRONMENT | own


def connect(home: Home, project: Path, *arguments: str, verb: str = "connect", **how: str) -> str:
    """Run the command in a project, for the project unless a scope is given."""
    scope = () if "--scope" in arguments else ("--scope", "project")
    environment = environment_of(home, project)
    told = butlers(verb, *arguments, *scope, cwd=project, env=environment, **how)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def files(directory: Path) -> dict[str, str]:
    return {
        str(file.relative_to(directory)): file.read_text()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


def hook_of(groups: list[dict[str, Any]]) -> str:
    return str(groups[-1]["hooks"][0]["command"])


def test_claude_code_is_given_a_server_and_a_hook_for_each_event(home: Home, project: Path) -> None:
    told = connect(home, project, "claude-code", "--yes")
    assert '+    "butlers-general": {' in told
    servers = json.loads((project / ".mcp.json").read_text())["mcpServers"]
    assert servers["butlers-general"] == {
        "type": "stdio",
        "command": "butlers",
        "args": ["mcp", "general", "--light"],
    }
    hooks = json.loads((project / ".claude" / "settings.json").read_text())["hooks"]
    assert set(hooks) == {*EVENTS, "PreToolUse", "PostToolUseFailure"}
    assert "Edit" in hooks["PreToolUse"][0]["matcher"].split("|")
    assert hooks["PostToolUseFailure"][0]["matcher"] == "Bash"
    assert "matcher" not in hooks["UserPromptSubmit"][0]
    assert hook_of(hooks["SessionEnd"]) == "butlers-hook general"
    token = home.hook_token_file("general").read_text().strip()
    assert token not in "".join(files(project).values())


def test_codex_is_given_the_same_and_told_of_its_review(home: Home, project: Path) -> None:
    told = connect(home, project, "codex", "--yes")
    assert "/hooks" in told
    servers = tomllib.loads((project / ".codex" / "config.toml").read_text())["mcp_servers"]
    assert servers["butlers-general"]["args"] == ["mcp", "general", "--light"]
    hooks = json.loads((project / ".codex" / "hooks.json").read_text())["hooks"]
    assert set(hooks) == {*EVENTS, "PreToolUse", "PostToolUse"}
    assert "apply_patch" in hooks["PreToolUse"][0]["matcher"].split("|")


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_connecting_again_changes_nothing_and_disconnecting_undoes_it(
    home: Home, project: Path, agent: str
) -> None:
    connect(home, project, agent, "--yes")
    once = files(project)
    assert "Nothing to change" in connect(home, project, agent, "--yes")
    assert files(project) == once
    connect(home, project, agent, "--yes", verb="disconnect")
    assert list(project.iterdir()) == []
    assert "Nothing to change" in connect(home, project, agent, "--yes", verb="disconnect")


def test_what_is_there_is_kept_in_its_order(home: Home, project: Path) -> None:
    (project / ".claude").mkdir()
    settings = project / ".claude" / "settings.json"
    settings.write_text(json.dumps(SETTINGS, indent=4, ensure_ascii=False) + "\n")
    before = files(project)
    connect(home, project, "claude-code", "--yes")
    changed = json.loads(settings.read_text())
    assert list(changed) == list(SETTINGS)
    assert changed["hooks"]["SessionStart"][0] == SETTINGS["hooks"]["SessionStart"][0]
    assert '\n    "zeta": 1' in settings.read_text()
    assert "größe" in settings.read_text()
    connect(home, project, "claude-code", "--yes", verb="disconnect")
    assert files(project) == before


def test_toml_keeps_its_comments_and_comes_back_to_the_byte(home: Home, project: Path) -> None:
    (project / ".codex").mkdir()
    config = project / ".codex" / "config.toml"
    config.write_text(TOML)
    connect(home, project, "codex", "--yes")
    assert config.read_text().startswith('# mine\nmodel = "gpt-x"   # the good one\n')
    assert set(tomllib.loads(config.read_text())["mcp_servers"]) == {"other", "butlers-general"}
    connect(home, project, "codex", "--yes", verb="disconnect")
    assert files(project) == {".codex/config.toml": TOML}


def test_nothing_is_written_before_it_was_agreed_to(home: Home, project: Path) -> None:
    assert "+++ " in connect(home, project, "claude-code", "--print")
    assert files(project) == {}
    told = butlers(
        *("connect", "claude-code", "--scope", "project"),
        cwd=project,
        env=environment_of(home, project),
        input="n\n",
    )
    assert told.returncode == 1
    assert "Nothing was changed." in told.stdout
    assert files(project) == {}
    connect(home, project, "claude-code", input="y\n")
    assert set(files(project)) == {".mcp.json", ".claude/settings.json"}


def test_two_butlers_live_side_by_side_and_each_is_taken_back_alone(
    home: Home, project: Path
) -> None:
    connect(home, project, "claude-code", "--yes")
    alone = files(project)
    connect(home, project, "claude-code", "--yes", "--butler", "kitchen")
    hooks = json.loads((project / ".claude" / "settings.json").read_text())["hooks"]
    assert [len(groups) for groups in hooks.values()] == [2] * (len(EVENTS) + 2)
    connect(home, project, "claude-code", "--yes", "--butler", "kitchen", verb="disconnect")
    assert files(project) == alone


@pytest.mark.parametrize(
    ("agent", "written"),
    [
        ("claude-code", {".claude.json", ".claude/settings.json"}),
        ("codex", {".codex/config.toml", ".codex/hooks.json"}),
    ],
)
def test_a_users_own_settings_can_be_chosen(
    home: Home, project: Path, agent: str, written: set[str]
) -> None:
    user = project.parent
    (user / ".claude.json").write_text('{"numStartups": 7}')
    (user / ".claude.json").chmod(0o600)
    connect(home, project, agent, "--yes", "--scope", "user", "--home", str(home.root))
    assert set(files(user)) == written | {".claude.json"}
    assert json.loads((user / ".claude.json").read_text())["numStartups"] == 7
    assert stat.S_IMODE((user / ".claude.json").stat().st_mode) == 0o600
    connect(home, project, agent, "--yes", "--scope", "user", verb="disconnect")
    assert json.loads((user / ".claude.json").read_text()) == {"numStartups": 7}
    assert set(files(user)) == {".claude.json"}


def test_where_the_agents_say_their_settings_are_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"HOME": "/u", "CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"}.items():
        monkeypatch.setenv(name, value)
    claude = files_of(load_agent("claude-code"), None)
    assert (claude.servers, claude.hooks) == (Path("/c/.claude.json"), Path("/c/settings.json"))
    assert files_of(load_agent("codex"), None).hooks == Path("/x/hooks.json")
    assert files_of(load_agent("gemini-cli"), None).hooks == Path("/u/.gemini/settings.json")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".mcp.json", '{"mcpServers": 7}'),
        (".mcp.json", "{// a comment\n}"),
        (".mcp.json", "[]"),
        (".claude/settings.json", '{"hooks": []}'),
        (".mcp.json", '{"half": NaN}'),
        (".codex/config.toml", "= broken"),
        (".codex/hooks.json", "{"),
    ],
)
def test_a_file_that_is_not_understood_stays_as_it_is(
    home: Home, project: Path, file: str, text: str
) -> None:
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text(text)
    agent = "codex" if "codex" in file else "claude-code"
    told = butlers(
        *("connect", agent, "--yes", "--scope", "project"),
        cwd=project,
        env=environment_of(home, project),
    )
    assert told.returncode == 1
    assert f"{project / file} cannot be changed safely" in told.stderr
    assert told.stderr.count("\n") == 1
    assert files(project) == {file: text}


def test_a_link_stays_a_link(home: Home, project: Path) -> None:
    (project / ".claude").mkdir()
    kept = project.parent / "dotfiles.json"
    kept.write_text("{}")
    (project / ".claude" / "settings.json").symlink_to(kept)
    connect(home, project, "claude-code", "--yes")
    assert (project / ".claude" / "settings.json").is_symlink()
    assert "SessionEnd" in kept.read_text()


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    agent = load_agent("claude-code")
    where = files_of(agent, tmp_path)
    server, _ = connecting(Connection("general", tmp_path), agent, where)
    assert where.servers is not None
    where.servers.write_text("{}")
    with pytest.raises(ValueError, match="was changed meanwhile"):
        server.apply()
    assert where.servers.read_text() == "{}"


def test_what_others_wrote_with_our_name_in_it_is_left_alone(tmp_path: Path) -> None:
    agent = load_agent("claude-code")
    where = files_of(agent, tmp_path)
    assert where.hooks is not None
    where.hooks.parent.mkdir()
    strange = [
        *({"command": "grep butlers-hook general.log"}, {"command": "butlers-hook kitchen"}),
        *({"command": 'unbalanced "'}, {"command": 7}, "text", None),
    ]
    text = json.dumps({"hooks": {"SessionStart": [{"hooks": strange}, 7, {"hooks": 8}]}})
    where.hooks.write_text(text)
    for change in disconnecting(Connection("general", tmp_path), agent, where):
        assert not change.is_needed


def test_any_other_client_gets_a_snippet(home: Home, project: Path) -> None:
    told = connect(home, project, "--print", "mcp-json", "--scope", "user")
    server = json.loads(told)["mcpServers"]["butlers-general"]
    assert os.access(server["command"], os.X_OK)
    assert server["args"][-5:] == ["mcp", "general", "--home", str(home.root), "--light"]
    assert files(project) == {}


def test_who_is_not_there_cannot_be_connected(home: Home, project: Path) -> None:
    told = butlers("connect", "codex", "--butler", "ghost", "--home", home.root, cwd=project)
    assert "there is no butler 'ghost'" in told.stderr
    told = butlers("connect", "cursr", "--home", home.root, cwd=project)
    assert told.stderr.startswith("butlers: agent: found 'cursr'; did you mean cursor? valid: cl")
    assert told.stderr.count("\n") == 1
    told = butlers("disconnect", "mcp-json", "--home", home.root, cwd=project)
    assert "writes nothing" in told.stderr


def test_a_home_knows_whom_it_is_connected_to(home: Home, project: Path) -> None:
    known = ConnectionFile(home.connections_file)
    connect(home, project, "claude-code", "--yes")
    connect(home, project, "codex", "--yes", "--scope", "user")
    found = known.all()
    here = [one for one in found if one.project == str(project)]
    everywhere = [one for one in found if (one.client, one.project) == ("codex", "")]
    assert [one.transcripts for one in here] == [str(project.parent / ".claude" / "projects")]
    assert str(project.parent / ".codex" / "sessions") in {one.transcripts for one in everywhere}
    connect(home, project, "claude-code", "--yes")
    assert known.all() == found  # as old as it was
    connect(home, project, "claude-code", "--yes", verb="disconnect")
    connect(home, project, "codex", "--yes", "--scope", "user", verb="disconnect")
    assert [one for one in known.all() if one.project in (str(project), "")] == []


def test_hooks_start_the_butlers_only_where_that_was_asked_for(home: Home, project: Path) -> None:
    file = project / ".claude" / "settings.json"
    told = connect(home, project, "claude-code", "--yes")
    assert "a session would start without memory: the daemon was not running" in told
    assert "--start" not in file.read_text()
    # By the command it would start one here.
    agent, asked = load_agent("claude-code"), Connection("general", home.root, True, False, True)
    (change,) = [one for one in connecting(asked, agent, files_of(agent, project)) if one.is_needed]
    assert (change.after or "").count("butlers-hook general --start") == len(EVENTS) + 2
    change.apply()
    connect(home, project, "claude-code", "--yes", verb="disconnect")
    assert list(project.iterdir()) == []


def test_what_is_found_is_listed_offered_and_connected_at_once(home: Home, project: Path) -> None:
    for directory in (".gemini", ".config/zed", "Documents/Cline"):
        (project.parent / directory).mkdir(parents=True)
    told = connect(home, project, "--scope", "user")
    listed = [line.split() for line in told.splitlines()[1:4]]
    assert listed == [["cline", "no"], ["gemini-cli", "no"], ["zed", "no"]]
    assert "butlers connect --all" in told
    assert files(project.parent) == {}
    own = project.parent / "Documents/Cline/Hooks/TaskStart"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    told = connect(home, project, "--all", "--yes", "--scope", "user")
    assert f"{own} is a file of your own" in told
    known = ConnectionFile(home.connections_file)
    assert {"gemini-cli", "zed"} <= {one.client for one in known.all() if one.project == ""}
    told = butlers("agents", env=environment_of(home, project)).stdout
    assert ["zed", "user", "general", "–", "–"] in [line.split() for line in told.splitlines()]
    for agent in ("gemini-cli", "zed"):
        connect(home, project, agent, "--yes", "--scope", "user", verb="disconnect")
    assert set(files(project.parent)) == {"Documents/Cline/Hooks/TaskStart"}


def test_files_of_a_project_name_no_path_of_this_machine(home: Home, project: Path) -> None:
    told = butlers(
        *("connect", "codex", "--yes", "--scope", "project", "--home", home.root),
        cwd=project,
        env=ENVIRONMENT | {"HOME": str(project.parent)},
    )
    assert told.returncode == 1 and "BUTLERS_HOME" in told.stderr
    for agent in filter(None, map(load_agent, agent_names())):
        if {"project"} & {
            key for part in agent.table.values() if isinstance(part, dict) for key in part
        }:
            connect(home, project, agent.name, "--yes")
    texts = files(project)
    assert len(texts) > 10
    for name, text in texts.items():
        assert str(home.root.parent) not in text and sys.prefix not in text, name


@pytest.mark.parametrize(
    ("agent", "who", "section", "written"),
    [
        ("claude-code", "agent", "mcp", {"consolidate": True}),
        ("claude-code", "runtime", "runtime", {"kind": "claude"}),
        ("codex", "runtime", "runtime", {"kind": "codex"}),
    ],
)
def test_an_agent_may_be_let_read_what_waits(
    project: Path, agent: str, who: str, section: str, written: dict[str, Any]
):
    with temporary_home() as home:
        home.create_butler("general")
        file = home.butler_file("general")
        before = file.read_text()
        told = connect(home, project, agent, "--yes")
        assert "--consolidate agent" in told and file.read_text() == before
        shown = connect(home, project, agent, "--print", "--consolidate", who)
        assert "butler.toml" in shown and file.read_text() == before
        told = connect(home, project, agent, "--yes", "--consolidate", who)
        assert "--consolidate agent" not in told and "butlers stop" in told
        assert tomllib.loads(file.read_text())[section] == written
        assert all(line in file.read_text() for line in before.splitlines())
