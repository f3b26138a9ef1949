"""Tool calls as agents report them, and the digest of what is known about calls."""

import stat
from pathlib import Path
from typing import Any

import pytest

from butlers.sessions import tool_digest
from butlers.sessions.agent_calls import (
    AgentCall,
    call_keys,
    digest,
    failure_keys,
    is_in_digest,
    read_call,
)

PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: b.md\n+z\n"


@pytest.mark.parametrize(
    ("event", "call"),
    [
        ({"tool_input": {"command": "make"}}, AgentCall("make")),
        ({"tool_input": {"command": ["bash", "-lc", "make x"]}}, AgentCall("make x")),
        ({"tool_input": {"command": ["git", "push"]}}, AgentCall("git push")),
        ({"tool_input": {"file_path": "/p/a.py"}, "cwd": "/p"}, AgentCall("", ("a.py",))),
        ({"tool_input": {"notebook_path": "/q/a.ipynb"}, "cwd": "/p"},
         AgentCall("", ("/q/a.ipynb",))),
        ({"tool_input": {"command": PATCH}}, AgentCall("", ("src/a.py", "b.md"))),
        ({"tool_input": {"command": "x"}, "error": "Exit code 2\nx: cannot y"},
         AgentCall("x", (), "x: cannot y")),
        ({"tool_input": {"command": "x"}, "tool_response": "x: cannot y"},
         AgentCall("x", (), "x: cannot y")),
        ({"tool_input": {"command": "x"}, "tool_response": {"stderr": "cannot y", "exit_code": 1}},
         AgentCall("x", (), "cannot y")),
        ({"tool_input": {"command": "x"}, "tool_response": {"output": "cannot y", "exit_code": 0}},
         AgentCall("x")),
        ({"tool_input": 7, "error": 8}, AgentCall()),
        ({"tool_input": {"command": 7, "file_path": 8, "files": [9]}}, AgentCall()),
        ({}, AgentCall()),
    ],
)  # fmt: skip
def test_a_call_is_read_as_agents_report_it(event: dict[str, Any], call: AgentCall) -> None:
    assert read_call(event) == call


def test_a_failure_is_known_by_its_error_or_its_program() -> None:
    known = digest(failure_keys("x: cannot y", "cd a && tool run"))
    same, near = AgentCall("other", (), "x: cannot y"), AgentCall("tool go", (), "z: cannot y")
    assert is_in_digest(call_keys("PostToolUseFailure", same), known)
    assert is_in_digest(call_keys("PostToolUseFailure", near), known)
    # What may have succeeded counts only with the very error.
    assert is_in_digest(call_keys("PostToolUse", same), known)
    assert not is_in_digest(call_keys("PostToolUse", near), known)
    assert call_keys("PostToolUseFailure", AgentCall("tool")) == set()


def test_a_digest_says_nothing_in_words(tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    tool_digest.write(str(tmp_path), "general", "/srv/shop", digest({"make deploy", "prod.yaml"}))
    (file,) = (tmp_path / "hooks").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "deploy" not in file.read_text()
    assert "prod" not in file.read_text()


def test_a_digest_is_of_one_directory_and_believed_for_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = str(tmp_path)
    (tmp_path / "hooks").mkdir()
    assert tool_digest.read(home, "general", "/srv/shop") is None
    tool_digest.write(home, "general", "/srv/shop", "ab cd")
    assert tool_digest.read(home, "general", "/srv/shop") == "ab cd"
    assert tool_digest.read(home, "other", "/srv/shop") is None
    others = [f"/srv/{number}" for number in range(600)]
    assert [at for at in others if tool_digest.read(home, "general", at) is not None] == []
    monkeypatch.setattr(tool_digest, "BELIEVED_SECONDS", 0.0)
    assert tool_digest.read(home, "general", "/srv/shop") is None
