"""A remote butler that answers whatever it likes: the fleet's pages stand all the same."""

import copy
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx2
import pytest

from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from butlers.interfaces.http import fanout
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.web.app import build
from butlers.interfaces.web.browser_sessions import COOKIE
from butlers.settings.sections import FleetSection, RemoteButler
from interfaces.http.callers import ApiCaller

STRANGE = (
    None, True, -1, 10**30, 1e308, float("inf"), float("nan"), "", "x", "<script>", "\ud800",
    "2026-01-31T12:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
    [], [None], {}, {"from": 1, "to": []},
)  # fmt: skip
PAGES = {"glance": "/memory", "activity": "/memory/feed", "search": "/memory/search?q=tea"}
MISSING = object()


class Speaker(BaseHTTPRequestHandler):
    """Says what it was told to say, by the last word of the path."""

    said: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        body = json.dumps(self.said[urlsplit(self.path).path.rsplit("/", 1)[1]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """It is not about what it logs."""


@contextmanager
def speaking() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Speaker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api/butlers/far"
        server.shutdown()


@pytest.fixture
async def looking(tmp_path: Path, monkeypatch) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody signed in at a home whose only butler is far away."""
    monkeypatch.setenv("FAR_TOKEN", "btl_x")
    monkeypatch.setattr(fanout, "ANSWER_SECONDS", 10)
    home = Home(tmp_path)
    with speaking() as url:
        remote = RemoteButler(name="far", url=url, token_env="FAR_TOKEN")
        fleet = FleetSection(remotes=(remote,))
        app = build(AppState(home, {}, TokenStore(home.tokens_file), fleet))
        transport = httpx2.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://here") as http,
        ):
            http.cookies.set(COOKIE, await app.state.sessions.begin(None))
            yield http


def spoiled(told: Any) -> Iterator[Any]:
    """The answer with one part of it, at any depth, left out or made strange."""
    yield from STRANGE
    for place in _places(told):
        for strange in (*STRANGE, MISSING):
            answer = copy.deepcopy(told)
            *way, last = place
            part = answer
            for step in way:
                part = part[step]
            if strange is not MISSING:
                part[last] = strange
            elif isinstance(part, dict):
                del part[last]
            yield answer


def _places(told: Any) -> Iterator[tuple[Any, ...]]:
    inner = told.items() if isinstance(told, dict) else enumerate(told[:1])
    for key, value in inner:
        yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *rest) for rest in _places(value))


@pytest.mark.contract("P6")
@pytest.mark.parametrize("asked", PAGES)
async def test_no_answer_of_a_remote_butler_breaks_a_page(
    caller: ApiCaller, looking: httpx2.AsyncClient, asked: str
):
    await caller.post("/facts", {"subject": "Ann", "predicate": "likes", "content": "tea"})
    params = {"search": {"query": "tea"}}.get(asked, {})
    sound = await caller.get(f"/{asked}", **params)
    if asked == "search":
        sound["items"][0] |= {"composite_score": 0.5, "score_parts": {"relevance": 0.5}}
    Speaker.said = {asked: sound}
    page = (await looking.get(PAGES[asked])).text
    assert "far" in page and "did not answer" not in page and "down" not in page
    for number, answer in enumerate(spoiled(sound)):
        Speaker.said = {asked: answer}
        shown = await looking.get(PAGES[asked])
        assert shown.status_code == 200, (number, answer)
        assert "<script>" not in shown.text.replace('<script src="', "")
