"""Agents that write transcripts as Claude Code and Codex do, and call the real hook program."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT

CLAUDE, CODEX = "claude-code", "codex"


@dataclass
class WritingAgent:
    """One session of an agent, turn by turn; without hooks it only writes."""

    home: Home
    kind: str
    directory: Path
    project: Path
    has_hooks: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    session: str = field(default_factory=lambda: str(uuid4()))

    @property
    def transcript(self) -> Path:
        if self.kind == CLAUDE:
            return self.directory / "projects" / "x" / f"{self.session}.jsonl"
        name = f"rollout-2026-11-01T00-00-00-{self.session}.jsonl"
        return self.directory / "sessions" / "2026" / "11" / "01" / name

    def start(self) -> "WritingAgent":
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        if self.kind == CODEX:
            about = {"id": self.session, "cwd": str(self.project), "thread_source": "user"}
            self._write({"type": "session_meta", "payload": about})
        self.hook("SessionStart", source="startup")
        return self

    def turn(self, prompt: str, answer: str, command: str = "ls", output: str = "ok") -> None:
        self.hook("UserPromptSubmit", prompt=prompt)
        records = _claude(prompt, answer, command, output)
        if self.kind == CODEX:
            records = _codex(prompt, answer, command, output)
        for record in records:
            self._write(record)
        self.hook("Stop")

    def end(self) -> None:
        self.hook("SessionEnd", reason="exit")

    def hook(self, name: str, **more: str) -> str:
        """What the hook program prints; it always ends well."""
        if not self.has_hooks:
            return ""
        event = {"session_id": self.session, "hook_event_name": name, "cwd": str(self.project)}
        event["transcript_path"] = str(self.transcript)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "butlers.hook", "general", "--home", str(self.home.root)],
            input=json.dumps(event | more),
            env=ENVIRONMENT | self.environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def _write(self, record: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        own = {"cwd": str(self.project), "sessionId": self.session} if self.kind == CLAUDE else {}
        with self.transcript.open("a") as file:
            file.write(json.dumps({"timestamp": at, **own, **record}, ensure_ascii=False) + "\n")

    def grow_old(self, seconds: float) -> None:
        """Let the transcript look as if nobody had written to it for so long."""
        now = datetime.now(UTC).timestamp() - seconds
        os.utime(self.transcript, (now, now))


def _claude(prompt: str, answer: str, command: str, output: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": output}
    return [
        {"type": "last-prompt", "lastPrompt": prompt},
        {"type": "user", "message": {"role": "user", "content": prompt}},
        {"type": "assistant", "message": {"role": "assistant", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]},
         "toolUseResult": {"stdout": output}},
        {"type": "assistant",
         "message": {"role": "assistant", "content": [{"type": "text", "text": answer}]}},
    ]  # fmt: skip


def _codex(prompt: str, answer: str, command: str, output: str) -> list[dict[str, Any]]:
    def message(role: str, kind: str, text: str) -> dict[str, Any]:
        content = [{"type": kind, "text": text}]
        return {
            "type": "response_item",
            "payload": {"type": "message", "role": role, "content": content},
        }

    call = {"type": "function_call", "name": "shell", "arguments": command, "call_id": "c1"}
    done = {"type": "function_call_output", "call_id": "c1", "output": output}
    return [
        message("user", "input_text", prompt),
        {"type": "event_msg", "payload": {"type": "user_message", "message": prompt}},
        {"type": "response_item", "payload": call},
        {"type": "response_item", "payload": done},
        message("assistant", "output_text", answer),
        {"type": "event_msg", "payload": {"type": "agent_message", "message": answer}},
    ]


def hits(directory: Path, word: str) -> list[str]:
    """The files below a directory that hold a word."""
    found = []
    for file in directory.rglob("*"):
        if file.is_file() and not file.is_symlink():
            data = file.read_bytes().lower()
            if word.encode() in data or word.encode("utf-16-le") in data:
                found.append(str(file.relative_to(directory)))
    return found
