"""Claude Code and Codex as a user has them: a home, a project, and a stand-in for the API."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT, butlers
from llm.standins import Anthropic, OpenAi, standing_in

KEY = "sk-test-0123456789"


@dataclass
class Agent:
    """One of the two agents, ready to be asked."""

    name: str
    program: Path
    user: Path
    project: Path
    api: Anthropic | OpenAi
    address: str
    seconds: list[float] = field(default_factory=list)

    def ask(self, prompt: str, *more: str) -> str:
        """What the agent answers, in a session of its own."""
        before = time.monotonic()
        done = subprocess.run(
            [*self.command, *more, prompt],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.seconds.append(time.monotonic() - before)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def connect(self, home: Home, *arguments: str) -> None:
        """Give it a butler, in the way a user does."""
        told = self.butlers("connect", self.name, "--yes", "--home", str(home.root), *arguments)
        assert told.returncode == 0, told.stderr

    def butlers(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return butlers(*arguments, cwd=self.project, env=ENVIRONMENT | {"HOME": str(self.user)})

    @property
    def command(self) -> list[str]:
        if self.name == "claude-code":
            return [str(self.program), "-p"]
        return [
            *(str(self.program), "exec", "--skip-git-repo-check", "--sandbox", "read-only"),
            # In place of what a user does once, with /hooks.
            *("--dangerously-bypass-hook-trust", "-c", f'openai_base_url="{self.address}/v1"'),
        ]

    @property
    def environment(self) -> dict[str, str]:
        # What they run of ours is what is tested, whatever is installed beside it.
        own = {name: ENVIRONMENT[name] for name in ("PATH", "PYTHONPATH")}
        own["HOME"] = str(self.user)
        if self.name == "codex":
            return own | {"CODEX_API_KEY": KEY}
        quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return own | quiet | {"ANTHROPIC_BASE_URL": self.address, "ANTHROPIC_API_KEY": KEY}

    def heard(self, number: int = -1) -> str:
        """All that the model was told in a request."""
        return str(_texts(self.api.requests[number]))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in _texts(one)]


@contextmanager
def agent(name: str, programs: Path, directory: Path) -> Iterator[Agent]:
    """An agent in an empty home, in a project that it trusts."""
    user, project = directory / "user", directory / "bicycle-shop"
    (user / ".codex").mkdir(parents=True)
    project.mkdir()
    trusted = f'[projects."{project}"]\ntrust_level = "trusted"\n'
    (user / ".codex" / "config.toml").write_text(trusted)
    api = Anthropic() if name == "claude-code" else OpenAi()
    program = programs / ("claude" if name == "claude-code" else "codex")
    with standing_in(api) as address:
        yield Agent(name, program, user, project, api, address)
