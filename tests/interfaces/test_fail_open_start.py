"""A home of which a part cannot start: the part is told with its reason, the rest serves."""

import asyncio
import json
from collections.abc import Iterator

import httpx2
import pytest

from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from butlers.interfaces import daemon as daemon_module
from butlers.interfaces.daemon import started_butlers
from butlers.settings.files import load_house
from interfaces.daemons import Daemon, butlers, temporary_home, up
from interfaces.mcp.clients import call, over_http, refusal
from interfaces.test_server import bearer
from interfaces.web.visitors import PageVisitor, browsing

NOTEBOOK = "[modules.notebook]\nenabled = true\n"
SECRET = "correct-horse-battery"  # noqa: S105


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """`kitchen` cannot be made, `general` has a damaged notebook, `study` is well."""
    with temporary_home() as home:
        for name in ("general", "kitchen", "study"):
            home.create_butler(name)
        home.butler_file("general").write_text(NOTEBOOK)
        home.butler_file("kitchen").write_text(
            f'[database]\nurl = "postgresql://me:{SECRET}@db/x"\n[server]\nport = -1\n'
        )
        damaged = home.butler_directory("general") / "notes.sqlite"
        damaged.write_bytes(b"no database at all" * 100)
        yield home


@pytest.fixture(scope="module")
def daemon(home: Home) -> Iterator[Daemon]:
    with up(home) as daemon:
        yield daemon


def post(daemon: Daemon, path: str, token: str) -> httpx2.Response:
    with httpx2.Client(trust_env=False, timeout=20) as client:
        return client.post(daemon.url + path, json={}, headers=bearer(token))


def token_for(home: Home, butler: str) -> str:
    return TokenStore(home.tokens_file).create(butler, "default")[1]


def test_status_and_doctor_say_what_failed_why_and_what_to_do(daemon: Daemon, home: Home) -> None:
    told = butlers("status", "--home", home.root, "--json")
    assert told.returncode == 1
    found = json.loads(told.stdout)["butlers"]
    assert found["kitchen"]["status"] == "failed"
    assert "server.port: found -1" in found["kitchen"]["error"]
    assert "fix the file and restart the daemon" in found["kitchen"]["error"]
    assert found["general"]["status"] == "unwell"
    assert found["general"]["modules"]["memory"]["status"] == "ok"
    assert found["general"]["modules"]["notebook"]["status"] == "failed"
    assert "name another one" in found["general"]["modules"]["notebook"]["error"]
    assert found["study"]["status"] == "ok"
    shown = " ".join(butlers("status", "--home", home.root).stdout.split())
    assert "unwell: notebook: SQLite: file is not a database" in shown
    assert "failed: " in shown
    words = butlers("doctor", "--home", home.root)
    assert words.returncode == 1
    assert "server.port: found -1" in words.stdout
    assert "problem  notebook of general: SQLite: file is not a database" in words.stdout
    for text in (told.stdout, words.stdout, daemon.stdout, daemon.stderr):
        assert SECRET not in text


async def test_the_rest_serves_and_calls_to_what_failed_are_told_why(
    daemon: Daemon, home: Home
) -> None:
    async with over_http(daemon, token_for(home, "general")) as client:
        assert set(await call(client, "memory_stats")) == {"episodes", "facts", "rules", "inbox"}
        said = await refusal(client, "note_save", key="a", content="b")
        assert "module notebook failed to start: SQLite: file is not a database" in said


def test_a_butler_that_could_not_be_made_refuses_in_words(daemon: Daemon, home: Home) -> None:
    token = token_for(home, "kitchen")
    for path in ("/butlers/kitchen/mcp", "/butlers/kitchen/hooks/SessionStart"):
        refused = post(daemon, path, token)
        assert refused.status_code == 503
        assert "server.port" in refused.json()["error"]
        assert post(daemon, path, token_for(home, "study")).status_code == 401
    with httpx2.Client(trust_env=False, timeout=20) as client:
        facts = f"{daemon.url}/api/butlers/kitchen/memory/facts"
        answer = client.get(facts, headers=bearer(token))
        assert answer.status_code == 503
        assert "server.port" in answer.json()["error"]["message"]
        assert client.get(facts, headers=bearer(token_for(home, "study"))).status_code == 404


def test_the_fleet_page_shows_what_failed(daemon: Daemon, home: Home) -> None:
    link = json.loads(butlers("open", "--home", home.root, "--json").stdout)["url"]
    with browsing(daemon) as http:
        assert http.get(link).status_code == 200
        visitor = PageVisitor(http, "kitchen")
        page = visitor.open("/memory").words
        assert "server.port: found -1" in page
        assert "notebook failed to start" in page
        assert SECRET not in page
        assert "server.port" in visitor.home(status=503).words


async def test_what_could_not_start_recovers_while_the_rest_serves(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module whose file is put right works again without a new start of the home."""
    monkeypatch.setattr(daemon_module, "_AGAIN_SECONDS", 0.1)
    house = load_house(home.settings_file, [home.butler_file("general")])
    file, stop = home.butler_directory("general") / "notes.sqlite", asyncio.Event()
    kept = file.read_bytes()
    async with started_butlers(home, house) as serving:
        butler = serving["general"]
        keeping = asyncio.create_task(daemon_module._run_jobs(butler, stop))
        await asyncio.sleep(0.3)
        assert set(butler.failures) == {"notebook"}
        file.unlink()
        async with asyncio.timeout(20):
            while butler.failures:
                await asyncio.sleep(0.05)
        stop.set()
        await keeping
        assert (await butler.health())["notebook"].ok
    file.write_bytes(kept)


def test_a_home_of_which_nothing_can_start_is_refused() -> None:
    with temporary_home() as other:
        other.create_butler("general")
        other.database_directory.write_text("not a directory")
        told = butlers("up", "--home", other.root, "--port", 0)
        other.database_directory.unlink()
        assert (told.returncode, told.stdout) == (1, "")
        assert "Traceback" not in told.stderr
        assert "a file is in the way" in told.stderr.splitlines()[-1]
