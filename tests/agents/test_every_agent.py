"""The real programs of six agents with one butler: what is said in one is told in the next."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from agents.more_agents import APIS, AnyAgent, any_agent
from agents.test_agents import _warm_up as warm_up
from butlers.host.database import DatabaseServer
from butlers.host.home_tokens import ensure_hook_token
from db.databases import connected
from interfaces.daemons import Daemon, butlers, until, up
from interfaces.forked import with_defaults
from interfaces.furnished import furnished_home
from llm.command_lines import NotInstallable
from llm.standins import Say

pytestmark = pytest.mark.slow

FACT = "the green tandem in bay seven belongs to Mrs. Okonkwo"
FACTS = {
    "claude-code": "the cargo bike has a cracked fork",
    "codex": "the paint store is locked at six in the evening",
    "gemini-cli": "the tyre lever hangs beside the compressor",
    "qwen-code": "the red racer needs a new chain",
    "opencode": "the invoices are printed on Thursdays",
    "pi": "the spare tubes lie under the counter",
}
SETTINGS = (
    ".gemini/settings.json", ".qwen/settings.json", "opencode.json", ".pi/agent/models.json",
    ".claude/settings.json", ".codex/*.json", ".opencode/plugin/*", ".config/opencode/*",
    ".config/opencode/plugin/*", ".pi/agent/extensions/*", ".pi/extensions/*", ".mcp.json",
)  # fmt: skip
# A session without an end counts as over a moment after its last answer.
SOON = with_defaults({"butlers.host.spool_worker:SpoolWorker.__init__": {"idle_minutes": 0.02}})


@dataclass
class Shop:
    """Six agents in one project with one butler, and what each was told in its first session."""

    daemon: Daemon
    agents: dict[str, AnyAgent] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    """What settings were before any agent was connected: a digest by file."""
    told: dict[str, str] = field(default_factory=dict)

    def agent(self, name: str) -> AnyAgent:
        if name not in self.agents:
            pytest.skip(self.missing[name])
        return self.agents[name]

    def parts(self) -> list[asyncpg.Record]:
        """Every stored part of a session."""

        async def found() -> list[asyncpg.Record]:
            url = DatabaseServer(self.daemon.home).running_url("general")
            async with connected(url) as database:
                return await database.fetch("select * from episodes where piece is null")

        return asyncio.run(found())

    def stored(self, text: str) -> list[asyncpg.Record]:
        return [part for part in self.parts() if text in part["content"]]


def digests(*places: Path) -> dict[str, str]:
    """The digests of the settings in some directories, without what agents write for themselves."""
    found = (file for place in places for name in SETTINGS for file in place.glob(name))
    files = filter(Path.is_file, found)
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def session_of(part: asyncpg.Record) -> str:
    return str(json.loads(part["metadata"])["session"])


def ask(one: AnyAgent, prompt: str, answer: str, *more: str) -> str:
    """Ask an agent; return all that its model was sent."""
    one.api.requests.clear()
    one.api.steps = [Say(answer)]
    assert answer in one.ask(prompt, *more)
    return "\n".join(one.heard(number) for number in range(len(one.api.requests)))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Each agent in turn is told a fact of its own, which is stored before the next is asked."""
    user, project = tmp_path_factory.mktemp("user"), tmp_path_factory.mktemp("bicycle-shop")
    (user / ".codex").mkdir()
    trusted = f'[projects."{project}"]\ntrust_level = "trusted"\n'
    (user / ".codex" / "config.toml").write_text(trusted)
    with (
        furnished_home("general") as home,
        up(home, environment=SOON) as daemon,
        ExitStack() as stack,
    ):
        fact = ("workshop", "tandem", FACT, "--home", home.root)
        assert butlers("memory", "store-fact", *fact).returncode == 0
        ensure_hook_token(home, "general", "default")
        warm_up(daemon)
        shop = Shop(daemon)
        for name in APIS:
            try:
                one = stack.enter_context(any_agent(name, user, project))
            except NotInstallable as reason:
                shop.missing[name] = str(reason)
                continue
            shop.agents[name] = one
        shop.before = digests(user, project)
        for one in shop.agents.values():
            one.connect(home)
        for name, one in shop.agents.items():
            shop.told[name] = ask(one, f"Remember that {FACTS[name]}.", f"{name} has noted it.")
            until(lambda name=name: shop.stored(FACTS[name]), 30)
        yield shop


@pytest.mark.contract("P1", "P2", "N4.2")
@pytest.mark.parametrize("name", APIS)
def test_memory_stands_in_its_request_and_a_resumed_session_is_stored_once(
    shop: Shop, name: str
) -> None:
    one = shop.agent(name)
    assert FACT in shop.told[name]
    second = f"Sweep the floor of the {name} bay."
    ask(one, second, f"{name} has swept it.", *one.again)
    until(lambda: shop.stored(second), 30)
    (first,) = shop.stored(FACTS[name])
    (resumed,) = shop.stored(second)
    assert session_of(first) == session_of(resumed)
    assert f"Outcome: {name} has swept it." in resumed["content"]
    assert FACT not in first["content"] + resumed["content"]


def test_what_is_said_in_one_agent_is_told_in_every_later_one(shop: Shop) -> None:
    names = list(shop.agents)
    for number, name in enumerate(names):
        for earlier in names[:number]:
            assert FACTS[earlier] in shop.told[name], f"{earlier} → {name}"
    assert len({json.loads(part["metadata"])["project"] for part in shop.parts()}) == 1


def test_disconnected_settings_have_every_byte_that_they_had(shop: Shop) -> None:
    agents = list(shop.agents.values())
    if not agents:
        pytest.skip("no agent is installed")
    connected = digests(agents[0].user, agents[0].project)
    for one in agents:
        told = one.butlers("disconnect", one.name, "--yes", "--home", str(shop.daemon.home.root))
        assert told.returncode == 0, told.stderr
    after = digests(agents[0].user, agents[0].project)
    assert {file: after.get(file) for file in shop.before} == shop.before
    assert connected != after
