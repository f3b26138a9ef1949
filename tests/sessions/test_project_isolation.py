"""Two projects and one person: what is said in one session reaches no session elsewhere."""

import json
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from butlers.host.home_tokens import ensure_hook_token
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, until, up
from interfaces.furnished import furnished_home
from interfaces.mcp.clients import call, refusal
from sessions.test_hooks import run_hook
from sessions.test_projects import git, repository

ALLERGY = "Ida is allergic to hazelnuts"
QUESTION = "What is Ida allergic to, hazelnuts?"
GLOBAL = "Ida answers mail on Mondays"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with furnished_home("general") as home, up(home) as running:
        ensure_hook_token(home, "general", "default")
        fact = ("Ida", "mail", GLOBAL, "--home", home.root)
        assert butlers("memory", "store-fact", *fact).returncode == 0
        until(lambda: GLOBAL in told(running, Path("/srv"), "SessionStart", session_id="warm"))
        yield running


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A family's repository with a worktree and a clone, and others that have nothing with it."""
    root = tmp_path_factory.mktemp("projects")
    address = "https://github.com/ida/family.git"
    family = repository(root / "family", address)
    git("worktree", "add", "-q", "-b", "other", str(root / "tree"), cwd=family)
    (root / "plain").mkdir()
    return {
        "family": family,
        "worktree": root / "tree",
        "clone": repository(root / "clone", "git@github.com:ida/family"),
        "shop": repository(root / "shop", "https://github.com/ida/shop.git"),
        "fork": repository(root / "elsewhere" / "family", "https://github.com/bob/family.git"),
        "unpublished": repository(root / "unpublished" / "family"),
        "plain": root / "plain",
    }


SAME, OTHER = ("family", "worktree", "clone"), ("shop", "fork", "unpublished", "plain")


def told(daemon: Daemon, place: Path, event: str, **more: str) -> str:
    """What a session is told, by the hook's own process."""
    output, _ = run_hook(daemon.home, {"hook_event_name": event, "cwd": str(place), **more})
    return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""


def tell(daemon: Daemon, place: Path, said: str, session: str, tmp: Path) -> None:
    """A session in which somebody says something, to its end."""
    lines = [
        {"type": "user", "message": {"role": "user", "content": said}, "timestamp": "1"},
        {
            "type": "assistant",
            "message": {"role": "assistant", "content": "Noted."},
            "timestamp": "2",
        },
    ]
    transcript = tmp / f"{session}.jsonl"
    transcript.write_text("\n".join(map(json.dumps, lines)))
    event = {"hook_event_name": "SessionEnd", "transcript_path": str(transcript)}
    run_hook(daemon.home, event | {"cwd": str(place), "session_id": session})
    spool = daemon.home.root / "spool"
    until(lambda: not [*spool.glob("*~*.json")])


def contexts(daemon: Daemon, place: Path, about: str) -> str:
    """Everything a new session there is told: at its start, and with a prompt that asks for it."""
    session = f"look-{place.name}-{about}"
    opening = told(daemon, place, "SessionStart", session_id=session)
    asked = told(daemon, place, "UserPromptSubmit", prompt=QUESTION, session_id=f"{session}-2")
    return opening + asked


def projects(daemon: Daemon) -> list[dict[str, Any]]:
    found = butlers("project", "list", "--json", "--home", daemon.home.root)
    assert found.returncode == 0, found.stderr
    return list(json.loads(found.stdout))


@asynccontextmanager
async def agent(daemon: Daemon, place: Path) -> Any:
    """An agent's MCP client, whose server starts where the agent works."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "butlers", "mcp", "general", "--home", str(daemon.home.root)],
        env=ENVIRONMENT,
        cwd=str(place),
    )
    async with Client(stdio_client(server)) as client:
        yield client


async def test_what_is_said_in_a_project_is_told_there_and_nowhere_else(
    daemon: Daemon, places: dict[str, Path], tmp_path: Path
) -> None:
    tell(daemon, places["family"], f"Remember: {ALLERGY}.", "said", tmp_path)
    for name in SAME:
        assert ALLERGY in contexts(daemon, places[name], "episode"), name
    for name in OTHER:
        found = contexts(daemon, places[name], "episode")
        assert "hazelnut" not in found, name
        assert GLOBAL in found, name
    for name, place in places.items():
        async with agent(daemon, place) as client:
            answers = [
                await call(client, "memory_search", query=QUESTION),
                await call(client, "memory_recall", topic=QUESTION),
                await client.call_tool(
                    "memory_context", {"trigger_prompt": QUESTION, "butler": "general"}
                ),
            ]
            assert ("hazelnut" in str(answers)) == (name in SAME), name
            assert GLOBAL in str(answers), name


async def test_what_an_agent_stores_in_a_project_stays_there_unless_it_says_otherwise(
    daemon: Daemon, places: dict[str, Path]
) -> None:
    fact = {"subject": "Ida", "predicate": "shoe size", "content": "wears size 38"}
    async with agent(daemon, places["family"]) as client:
        await call(client, "memory_store_fact", **fact)
        await call(client, "memory_store_rule", content="Always ask Ida about shoes")
        await call(client, "memory_store_episode", content="Shoes bought", butler="general")
        chosen = {"subject": "Ida", "predicate": "hat", "content": "likes straw hats"}
        await call(client, "memory_store_fact", **chosen, scope="global")
        [mine] = [one for one in projects(daemon) if one["name"] == "family" and one["memories"]]
    asked = {"topic": "Ida's shoes, hats and their size", "limit": 20}
    async with agent(daemon, places["worktree"]) as client:
        found = str(await call(client, "memory_recall", **asked))
        assert "size 38" in found
    async with agent(daemon, places["shop"]) as client:
        found = str(await call(client, "memory_search", query=asked["topic"], limit=50))
        found += str((await client.call_tool("memory_context", {
            "trigger_prompt": asked["topic"], "butler": "general"})).content)  # fmt: skip
        assert "size 38" not in found and "Shoes bought" not in found
        assert "ask Ida about shoes" not in found
        assert "straw hats" in found
        scope = f"project:{mine['id']}"
        assert "valid are global" in await refusal(client, "memory_search", query="x", scope=scope)
        hidden = f"general\x1f{scope}"
        told = await call(client, "memory_search", query=asked["topic"], scope=hidden, limit=50)
        assert "size 38" not in str(told)


def test_a_project_is_shared_on_purpose_and_taken_back(
    daemon: Daemon, places: dict[str, Path], tmp_path: Path
) -> None:
    tell(daemon, places["family"], f"Remember: {ALLERGY}.", "shared", tmp_path)
    command = ("project", "share", "family", "--home", daemon.home.root)
    ambiguous = butlers(*command)
    assert ambiguous.returncode == 1 and "the name of several" in ambiguous.stderr
    id = next(
        one["id"] for one in projects(daemon) if "remote:github.com/ida/family" in one["keys"]
    )
    assert butlers("project", "share", id, "--home", daemon.home.root).returncode == 0
    assert ALLERGY in contexts(daemon, places["shop"], "shared")
    assert butlers("project", "share", id, "--off", "--home", daemon.home.root).returncode == 0
    assert "hazelnut" not in contexts(daemon, places["shop"], "unshared")


def test_a_project_is_moved_into_another_and_back(
    daemon: Daemon, places: dict[str, Path], tmp_path: Path
) -> None:
    old = tmp_path / "copied"
    old.mkdir()
    tell(daemon, old, "The lamp in the attic is called Bertha.", "copied", tmp_path)
    shown = json.loads(
        butlers("project", "show", "copied", "--json", "--home", daemon.home.root).stdout
    )
    assert shown["places"] == [str(old)] and shown["memories"] == 1
    for to, is_told in (("shop", True), ("copied", False)):
        moved = butlers("project", "move", "copied", to, "--home", daemon.home.root)
        assert moved.returncode == 0, moved.stderr
        opening = told(daemon, places["shop"], "SessionStart", session_id=f"moved-{to}")
        assert ("Bertha" in opening) == is_told
        assert "Bertha" in told(daemon, old, "SessionStart", session_id=f"old-{to}")
    missing = butlers("project", "move", "nowhere", "shop", "--home", daemon.home.root)
    assert missing.returncode == 1 and "butlers project list" in missing.stderr


def test_what_was_kept_before_there_were_projects_is_told_in_all(
    daemon: Daemon, places: dict[str, Path]
) -> None:
    """An episode of the butler's own scope, as every one was."""
    episode = ("The boiler was descaled by Herr Vogt", "--home", daemon.home.root)
    assert butlers("memory", "store-episode", *episode).returncode == 0
    for name in ("family", "shop", "plain"):
        opening = told(daemon, places[name], "SessionStart", session_id=f"before-{name}")
        assert "descaled" in opening, name


def test_what_is_said_where_all_projects_lie_is_personal(
    daemon: Daemon, places: dict[str, Path], tmp_path: Path
) -> None:
    tell(daemon, Path("/"), "My blood group is AB negative.", "personal", tmp_path)
    assert "AB negative" in told(daemon, Path("/"), "SessionStart", session_id="personal-2")
    assert "AB negative" not in told(daemon, places["shop"], "SessionStart", session_id="shop-2")
    share = ("project", "share", "personal", "--home", daemon.home.root)
    assert butlers(*share).returncode == 0
    assert "AB negative" in told(daemon, places["shop"], "SessionStart", session_id="shop-3")
    assert butlers(*share, "--off").returncode == 0
