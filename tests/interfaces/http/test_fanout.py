"""The fleet: butlers of this home and of another one, some of which do not answer."""

import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from butlers.auth.rights import Caller
from butlers.interfaces.http.access import Visitor
from butlers.interfaces.http.butlers import ButlerOverview, get_overview
from butlers.interfaces.http.fanout import ANSWER_SECONDS, Fleet, FleetQuery
from butlers.settings.sections import FleetSection
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, up
from interfaces.furnished import furnished_home
from interfaces.http.callers import calling, token_store, told
from interfaces.web.visitors import PageVisitor, browsing, link_of

_KEPT: list[socket.socket] = []
LIMIT = ANSWER_SECONDS
TOKEN_VARIABLE = "FAR_HOME_TOKEN"


@pytest.fixture(scope="module")
def far() -> Iterator[Daemon]:
    """Another home, with a butler of its own."""
    with furnished_home() as home:
        assert butlers("new", "garden", "--home", home.root).returncode == 0
        with up(home) as running:
            yield running


@contextmanager
def listener(answer: bytes | None) -> Iterator[int]:
    """A port that takes connections and says this, or says nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        if answer is not None:
            threading.Thread(target=_say, args=(server, answer), daemon=True).start()
        yield server.getsockname()[1]


def _say(server: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)


def closed_port() -> int:
    """A port that nobody listens on, kept so that nobody will."""
    kept = socket.socket()
    kept.bind(("127.0.0.1", 0))
    _KEPT.append(kept)
    return int(kept.getsockname()[1])


def http(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture(scope="module")
def near(far: Daemon) -> Iterator[Daemon]:
    """A home whose fleet has a remote butler that works and several that do not."""
    _, token = token_store(far.home).create("garden", "plants")
    ENVIRONMENT[TOKEN_VARIABLE] = token
    with (
        furnished_home("general", "kitchen") as home,
        listener(None) as silent,
        listener(http(b'{"facts": "none"}')) as babbling,
        listener(http(b"{}", "500 Oops")) as broken,
    ):
        assert butlers("new", "general", "--home", home.root).returncode == 0
        assert butlers("new", "kitchen", "--home", home.root).returncode == 0
        remotes = [
            ("garden", f"{far.url}/api/butlers/garden", TOKEN_VARIABLE),
            ("shut", f"{far.url}/api/butlers/nobody", TOKEN_VARIABLE),
            ("gone", f"http://127.0.0.1:{closed_port()}/api/butlers/x", TOKEN_VARIABLE),
            ("silent", f"http://127.0.0.1:{silent}/api/butlers/x", TOKEN_VARIABLE),
            ("babbling", f"http://127.0.0.1:{babbling}/api/butlers/x", TOKEN_VARIABLE),
            ("broken", f"http://127.0.0.1:{broken}/api/butlers/x", TOKEN_VARIABLE),
            ("tokenless", f"{far.url}/api/butlers/garden", "NO_SUCH_VARIABLE"),
        ]
        listed = ",\n".join(
            f'  {{ name = "{name}", url = "{url}", token_env = "{env}", tenant = "household" }}'
            for name, url, env in remotes
        )
        hidden = f'{{ name = "hidden", url = "{far.url}/api/butlers/garden", token_env = "X" }}'
        home.settings_file.write_text(f"[fleet]\nremotes = [\n{listed},\n  {hidden}\n]\n")
        with up(home) as running:
            yield running
    del ENVIRONMENT[TOKEN_VARIABLE]
    for kept in _KEPT:
        kept.close()


DOWN = {
    "shut": "status 404",
    "gone": "cannot be reached",
    "silent": f"no answer within {LIMIT:g} seconds",
    "babbling": "did not answer like a butler",
    "broken": "status 500",
    "tokenless": "set the environment variable NO_SUCH_VARIABLE",
}


@pytest.mark.contract("P6")
async def test_who_is_down_is_shown_as_down_and_the_rest_is_complete(far, near):
    async with calling(far, "plants", "garden") as gardener:
        await gardener.post("/facts", {"subject": "rose", "predicate": "is", "content": "red"})
    async with calling(near, "household") as caller:
        started = time.monotonic()
        seen = told(await caller.send("GET", "/api/memory/overview"))["butlers"]
        took = time.monotonic() - started
    by_name = {butler["name"]: butler for butler in seen}
    # Names of this home first, each group sorted; the operator's own remote is not shown.
    assert [butler["name"] for butler in seen] == ["general", *sorted(["garden", *DOWN])]
    assert {name for name, one in by_name.items() if one["status"] == "down"} == DOWN.keys()
    for name, error in DOWN.items():
        assert error in by_name[name]["error"]
        assert by_name[name]["overview"] is None
    assert by_name["garden"]["overview"]["facts"]["active"] >= 1
    assert by_name["garden"]["is_remote"] is True
    assert by_name["general"]["overview"]["health"] == "ok"
    # All are asked at once: the silent one costs its time limit, and nothing more.
    assert LIMIT <= took < LIMIT * 2


@pytest.mark.contract("P6")
async def test_one_search_over_all_butlers_in_one_order(far, near):
    word = f"w{uuid.uuid4().hex[:8]}"
    async with calling(far, "plants", "garden") as gardener:
        await gardener.post("/facts", {"subject": word, "predicate": "is", "content": "far away"})
    async with calling(near, "household") as caller:
        stored = await caller.post(
            "/facts", {"subject": word, "predicate": "is", "content": "at home"}
        )
        # Meaning alone: how rare a word is differs from butler to butler.
        params = {"query": f"{word} is at home", "mode": "semantic", "types": ["fact"], "limit": 2}
        found = told(await caller.send("GET", "/api/memory/search", params=params))
    assert [one["butler"] for one in found["items"]] == ["general", "garden"]
    assert found["items"][0]["id"] == stored["id"]
    scores = [one["score"] for one in found["items"]]
    assert scores == sorted(scores, reverse=True)
    assert {one["name"] for one in found["butlers"] if one["status"] == "down"} == DOWN.keys()


@pytest.mark.contract("P6", "L52")
async def test_low_trust_of_one_butler_comes_behind_what_another_knows(far, near):
    word = f"w{uuid.uuid4().hex[:8]}"
    async with calling(far, "plants", "garden") as gardener:
        await gardener.post("/facts", {"subject": word, "predicate": "is", "content": "far away"})
    _, token = token_store(near.home).create("general", "household", low_trust=True)
    async with calling(near, "household", token=token) as low:
        for name in ("at home", "is at home"):
            await low.post("/facts", {"subject": word, "predicate": name, "content": "at home"})
    async with calling(near, "household") as caller:
        params = {"query": f"{word} is at home", "mode": "semantic", "types": ["fact"], "limit": 50}
        every = told(await caller.send("GET", "/api/memory/search", params=params))["items"]
    found = [one for one in every if one["subject"] == word]
    told_as = [(one["butler"], "low trust" in one.get("less_trusted", "")) for one in found]
    assert told_as == [("garden", False), ("general", True), ("general", True)]
    assert found[0]["score"] < found[1]["score"]


@pytest.mark.contract("P6", "P9")
async def test_one_feed_of_all_butlers_newest_first(far, near):
    async with calling(near, "household") as caller, calling(far, "plants", "garden") as gardener:
        await caller.post("/rules", {"content": "first"})
        await gardener.post("/rules", {"content": "second"})
        await caller.post("/rules", {"content": "third"})
        feed = told(await caller.send("GET", "/api/memory/activity", params={"limit": 3}))
    assert [one["butler"] for one in feed["items"]] == ["general", "garden", "general"]
    assert {one["event_type"] for one in feed["items"]} == {"rule_created"}


@pytest.mark.contract("P6", "P9")
async def test_the_jobs_of_all_butlers(far, near):
    async with calling(near, "household") as caller, calling(far, "plants", "garden") as gardener:
        seen = told(await caller.send("GET", "/api/memory/jobs"))["butlers"]
        own, theirs = await caller.get("/jobs"), await gardener.get("/jobs")
    by_name = {butler["name"]: butler for butler in seen}
    assert {name for name, one in by_name.items() if one["jobs"] is None} == DOWN.keys()
    assert (by_name["general"]["jobs"], by_name["garden"]["jobs"]) == (own, theirs)


@pytest.mark.contract("P6", "L1")
async def test_the_fleet_of_a_token_is_what_its_tenant_may_see(near):
    async with calling(near, "somebody", "kitchen") as caller:
        assert told(await caller.send("GET", "/api/butlers")) == {"butlers": ["kitchen"]}
        seen = told(await caller.send("GET", "/api/memory/overview"))["butlers"]
    assert [butler["name"] for butler in seen] == ["kitchen"]


async def test_no_answer_carries_the_token_of_a_remote(near):
    async with calling(near, "household") as caller:
        for path in ("overview", "activity", "jobs", "search?query=rose"):
            answer = await caller.send("GET", f"/api/memory/{path}")
            assert ENVIRONMENT[TOKEN_VARIABLE] not in answer.text
    assert ENVIRONMENT[TOKEN_VARIABLE] not in near.log


@pytest.mark.contract("P6")
async def test_what_a_remote_butler_shows_leads_to_its_own_pages(far, near):
    word = f"w{uuid.uuid4().hex[:8]}"
    async with calling(far, "plants", "garden") as gardener:
        fact = {"subject": word, "predicate": "is", "content": "in the garden"}
        stored = (await gardener.post("/facts", fact))["id"]
    garden = f"{far.url}/butlers/garden/memory"
    with browsing(near) as http:
        assert http.get(link_of(near)).status_code == 200
        visitor = PageVisitor(http, "general")
        page = visitor.open("/memory")
        for place in ("", "/jobs", f"/facts/{stored}"):
            assert page.find("a", href=garden + place), place
        assert page.find("a", href="/butlers/general/memory/jobs")
        assert not page.find("form", action=f"{garden}/jobs/consolidate/run")
        assert visitor.open("/memory/feed").find("a", href=f"{garden}/facts/{stored}")
        found = visitor.open(f"/memory/search?q={word}&mode=keyword")
        assert found.find("a", href=f"{garden}/facts/{stored}")
    with browsing(far) as http:  # Who is signed in here is nobody there.
        assert http.get(f"{garden}/facts/{stored}").headers["location"].startswith("/sign-in")


class Stumbling:
    """A butler with a fault that nobody foresaw."""

    @property
    def settings(self) -> None:
        raise ZeroDivisionError("a secret that only the log may hold")


async def test_a_fault_nobody_foresaw_at_one_butler_does_not_spoil_the_rest():
    app_state = SimpleNamespace(failed={}, butlers={"stumbling": Stumbling()}, fleet=FleetSection())
    visitor = Visitor(Caller("default", "test"), {"stumbling": "default"})
    question = FleetQuery(ButlerOverview, get_overview, "overview", {})
    (reply,) = await Fleet(app_state).ask(visitor, "request", question)
    assert (reply.name, reply.result) == ("stumbling", None)
    assert reply.error == "failed (ZeroDivisionError); `butlers logs` shows more"
