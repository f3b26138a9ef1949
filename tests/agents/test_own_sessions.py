"""The real Claude Code and Codex as a butler's own sessions: with its tools, its token, its log."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from agents.agents import KEY
from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from db.databases import connected
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, until, up
from interfaces.furnished import furnished_home
from llm.command_lines import NotInstallable, command_lines
from llm.standins import Anthropic, Call, OpenAi, Say, Step, standing_in

pytestmark = pytest.mark.slow

KNOWN = "the green tandem in bay seven belongs to Mrs. Okonkwo"
TOLD = "Remember that the saddle of the green tandem is in the attic."
SCHEDULE = '[butler.schedule.tidy]\ncron = "0 0 1 1 *"\nprompt = "Tidy the green tandem up."\n'


@pytest.fixture(scope="module")
def programs() -> Path:
    try:
        return command_lines()
    except NotInstallable as reason:
        pytest.skip(str(reason))


@dataclass
class Kept:
    """A home that is up, whose sessions one of the two agents runs against a stand-in."""

    kind: str
    home: Home
    daemon: Daemon
    api: Anthropic | OpenAi

    def butlers(self, *arguments: str) -> str:
        told = butlers(*arguments, "--home", self.home.root, cwd=self.home.root)
        assert (told.returncode, told.stderr) == (0, ""), told.stdout + told.stderr
        return told.stdout

    def will(self, *steps: Step) -> None:
        """What the model does next."""
        self.api.requests.clear()
        self.api.steps = steps

    def stores(self, **fact: str) -> Step:
        """The model stores a fact."""
        if self.kind == "claude":
            return Call("mcp__butlers__memory_store_fact", fact)
        call = f"tools.mcp__butlers__memory_store_fact({json.dumps(fact)})"
        return Call("exec", f"text(JSON.stringify(await {call}))")

    def rows(self, query: str, *values: Any) -> list[asyncpg.Record]:
        async def found() -> list[asyncpg.Record]:
            async with connected(DatabaseServer(self.home).running_url("general")) as database:
                return await database.fetch(query, *values)

        return asyncio.run(found())


@pytest.fixture(scope="module", params=["claude", "codex"])
def kept(
    request: pytest.FixtureRequest, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kept]:
    kind = request.param
    api = Anthropic() if kind == "claude" else OpenAi()
    with furnished_home("general") as home, standing_in(api) as address:
        home.create_butler("general")
        runtime = f'[runtime]\nkind = "{kind}"\ncommand = ["{programs / kind}"]\n'
        home.butler_file("general").write_text(f'[butler]\nname = "general"\n{SCHEDULE}{runtime}')
        service = (
            {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": KEY}
            if kind == "claude"
            else {"OPENAI_BASE_URL": f"{address}/v1", "CODEX_API_KEY": KEY}
        )
        environment = ENVIRONMENT | {"HOME": str(tmp_path_factory.mktemp("user"))} | service
        with up(home, environment=environment) as daemon:
            yield Kept(kind, home, daemon, api)


def test_a_session_stores_what_it_is_told_to_under_its_own_name(kept: Kept) -> None:
    kept.butlers("memory", "store-fact", "workshop", "tandem", KNOWN)
    fact = {"subject": "green tandem", "predicate": "saddle", "content": "in the attic"}
    kept.will(kept.stores(**fact), Say("It is noted."))
    assert kept.butlers("ask", "general", TOLD) == "It is noted.\n"
    assert KNOWN in json.dumps(kept.api.requests[0])
    (session,) = json.loads(kept.butlers("sessions", "list", "--json"))
    (stored,) = kept.rows("select id, content from facts where predicate = 'saddle'")
    (episode,) = kept.rows("select id, content from episodes")
    assert set(session["stored"]) == {str(stored["id"]), str(episode["id"])}
    known = kept.rows("select id from facts where predicate = 'tandem'")
    assert session["told"] == [str(row["id"]) for row in known]
    actors = kept.rows("select actor from memory_events where memory_id = $1", stored["id"])
    assert {row["actor"] for row in actors} == {f"session:{session['id']}"}
    assert (session["outcome"], session["agent"]) == ("ok", kept.kind)
    assert session["had_memory"] and session["had_tools"]
    assert session["input_tokens"] > 0 and session["output_tokens"] > 0
    assert (session["cost_usd"] is not None) == (kept.kind == "claude")


def test_a_scheduled_prompt_has_the_same_hands_and_record(kept: Kept) -> None:
    fact = {"subject": "green tandem", "predicate": "state", "content": "tidied up"}
    kept.will(kept.stores(**fact), Say("It is tidy."))
    given = TokenStore(kept.home.tokens_file).create("general", "default", rights=Right.OPERATE)
    headers = {"Authorization": f"Bearer {given[1]}"}
    with httpx2.Client(trust_env=False, timeout=60, headers=headers) as client:
        asked = client.post(f"{kept.daemon.url}/api/butlers/general/memory/jobs/tidy/run")
        assert asked.is_success, asked.text
    until(lambda: kept.rows("select from session_log where kind = 'schedule' and outcome = 'ok'"))
    session, *_ = json.loads(kept.butlers("sessions", "list", "--json"))
    assert (session["kind"], session["asked_by"]) == ("schedule", "schedule:tidy")
    assert (session["outcome"], session["had_tools"]) == ("ok", True)
    (stored,) = kept.rows("select id from facts where content = 'tidied up'")
    assert str(stored["id"]) in session["stored"]
