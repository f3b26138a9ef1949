"""Any agent as a user has it, in a home and a project that it shares with others."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.agents import KEY, Agent
from agents.more_standins import Chat, Google
from llm.command_lines import NotInstallable, command_lines
from llm.standins import Anthropic, OpenAi, standing_in

PLACE = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "butlers-tests" / "agents"
)
WANTED = Path(__file__).with_name("package.json")
APIS: dict[str, type[Any]] = {
    "claude-code": Anthropic,
    "codex": OpenAi,
    "gemini-cli": Google,
    "qwen-code": Chat,
    "opencode": Chat,
    "pi": Chat,
}
_PROGRAMS = {"claude-code": "claude", "gemini-cli": "gemini", "qwen-code": "qwen"}
# Nobody listens at port 9: what an agent would fetch for itself fails at once.
_NOWHERE = {"npm_config_registry": "http://127.0.0.1:9/", "npm_config_fetch_retries": "0"}
_SETTINGS = {"gemini-cli": ".gemini/settings.json", "qwen-code": ".qwen/settings.json"}
_MODEL = {"id": "m", "name": "m", "reasoning": False, "input": ["text"], "contextWindow": 200_000}


def find_program(name: str) -> Path:
    """The program of an agent; NotInstallable says why it is not there."""
    if name in ("claude-code", "codex"):
        return command_lines() / _PROGRAMS.get(name, name)
    installed = PLACE / "installed"
    if not installed.exists() or installed.read_text() != WANTED.read_text():
        raise NotInstallable("scripts/install-agents was not run here")
    return PLACE / "node_modules" / ".bin" / _PROGRAMS.get(name, name)


@dataclass
class AnyAgent(Agent):
    """One of all agents, of which Claude Code and Codex are known already."""

    def _write(self, file: str, text: str) -> None:
        (self.project / file).parent.mkdir(parents=True, exist_ok=True)
        (self.project / file).write_text(text)

    @property
    def command(self) -> list[str]:
        if self.name == "gemini-cli":
            return [str(self.program), "--skip-trust", "--yolo", "--model", "gemini-2.5-flash"]
        if self.name == "qwen-code":
            return [str(self.program), "--yolo", "--auth-type", "openai"]
        if self.name == "opencode":
            return [str(self.program), "run"]
        if self.name == "pi":
            return [str(self.program), "--provider", "loop", "--model", "m", "--print"]
        return super().command

    @property
    def again(self) -> list[str]:
        """The arguments that go on with its last session."""
        if self.name == "codex":
            return ["resume", "--last"]
        return ["--resume", "latest"] if self.name == "gemini-cli" else ["--continue"]

    @property
    def environment(self) -> dict[str, str]:
        own = super().environment
        if self.name == "gemini-cli":
            return own | {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": self.address}
        if self.name == "qwen-code":
            service = {"OPENAI_BASE_URL": f"{self.address}/v1", "OPENAI_MODEL": "m"}
            return own | service | {"OPENAI_API_KEY": KEY}
        if self.name == "opencode":
            quiet = ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD")
            return own | _NOWHERE | {f"OPENCODE_DISABLE_{each}": "1" for each in quiet}
        return own

    def configure(self) -> None:
        """Tell it where its model is, in a file of its own, if it takes that from nowhere else."""
        address = f"{self.address}/v1"
        if self.name in _SETTINGS:
            file = self.user / _SETTINGS[self.name]
            file.parent.mkdir(exist_ok=True)
            signed_in = {"auth": {"selectedType": APIS[self.name].signed_in}}
            file.write_text(
                json.dumps({"security": signed_in, "$version": 4}, indent="\t") + "\n\n"
            )
        if self.name == "opencode":
            options = {"baseURL": address, "apiKey": KEY}
            models = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}
            schema = {"$schema": "https://opencode.ai/config.json"}  # it writes that itself
            settings = schema | {
                "model": "loop/m",
                "small_model": "loop/m",
                "provider": {"loop": models},
            }
            self._write("opencode.json", json.dumps(settings))
        if self.name == "pi":
            service = {"baseUrl": address, "api": "openai-completions", "apiKey": KEY}
            models = {"providers": {"loop": {**service, "models": [_MODEL]}}}
            (self.user / ".pi" / "agent").mkdir(parents=True)
            (self.user / ".pi" / "agent" / "models.json").write_text(json.dumps(models))


@contextmanager
def any_agent(name: str, user: Path, project: Path) -> Iterator[AnyAgent]:
    """An agent in a home and a project that it may share with others."""
    api = APIS[name]()
    with standing_in(api) as address:
        one = AnyAgent(name, find_program(name), user, project, api, address)
        one.configure()
        yield one
