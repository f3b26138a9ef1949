"""Nothing changes unless a page of ours was asked to, by the session it was given to."""

from typing import Any

import pytest

from interfaces.daemons import Daemon
from interfaces.http.callers import ApiCaller, token_store
from interfaces.web.visitors import PageVisitor, browsing, visiting


@pytest.fixture
async def fact(caller: ApiCaller) -> str:
    stored = await caller.post("/facts", {"subject": "Ann", "predicate": "tea", "content": "Green"})
    return str(stored["id"])


async def _state(caller: ApiCaller, fact: str) -> str:
    return str((await caller.get(f"/facts/{fact}"))["memory"]["state"])


@pytest.mark.contract("P7")
@pytest.mark.parametrize("csrf", ["wrong", "x" * 43, "é"])
async def test_a_form_without_the_sessions_secret_changes_nothing(
    daemon: Daemon, tenant: str, caller: ApiCaller, fact: str, csrf: str
):
    with visiting(daemon, tenant) as visitor:
        visitor.act(f"/facts/{fact}/forget", 403, csrf=csrf)
    assert await _state(caller, fact) == "active"


async def test_the_secret_of_another_session_is_no_secret(
    daemon: Daemon, tenant: str, caller: ApiCaller, fact: str
):
    with visiting(daemon, tenant) as mine, visiting(daemon, tenant) as other:
        mine.act(f"/facts/{fact}/forget", 403, csrf=other.open("/memory").csrf)
        assert await _state(caller, fact) == "active"
        mine.act(f"/facts/{fact}/forget")
    assert await _state(caller, fact) == "retracted"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
async def test_another_sites_form_is_refused_even_with_the_secret(
    daemon: Daemon, tenant: str, caller: ApiCaller, fact: str, headers: dict[str, str]
):
    with visiting(daemon, tenant) as visitor:
        visitor.headers = headers
        visitor.act(f"/facts/{fact}/forget", 403)
    assert await _state(caller, fact) == "active"


async def test_a_form_sent_as_something_else_is_refused(
    daemon: Daemon, tenant: str, caller: ApiCaller, fact: str
):
    with visiting(daemon, tenant) as visitor:
        csrf = visitor.open("/memory").csrf
        path = f"/butlers/general/memory/facts/{fact}/forget"
        for kind in ("text/plain", "multipart/form-data; boundary=x", "application/json"):
            answer = visitor.http.post(path, content=f"csrf={csrf}", headers={"Content-Type": kind})
            assert answer.status_code == 415
    assert await _state(caller, fact) == "active"


async def test_reading_never_changes(daemon: Daemon, tenant: str, caller: ApiCaller, fact: str):
    with visiting(daemon, tenant) as visitor:
        for action in ("forget", "confirm", "correct"):
            answer = visitor.http.get(f"/butlers/general/memory/facts/{fact}/{action}")
            assert answer.status_code == 405
            assert "there is no page" in answer.text
    assert await _state(caller, fact) == "active"


async def test_the_api_takes_a_cookie_for_reading_and_a_secret_for_writing(
    daemon: Daemon, tenant: str, caller: ApiCaller, fact: str
):
    path = f"/api/butlers/general/memory/facts/{fact}"
    with visiting(daemon, tenant) as visitor:
        assert visitor.http.get(path).status_code == 200
        assert visitor.http.post(f"{path}/forget").status_code == 403
        secret = {"X-CSRF-Token": visitor.open("/memory").csrf}
        foreign = {**secret, "Origin": "https://evil.example"}
        assert visitor.http.post(f"{path}/forget", headers=foreign).status_code == 403
        assert await _state(caller, fact) == "active"
        assert visitor.http.post(f"{path}/forget", headers=secret).status_code == 200
    assert await _state(caller, fact) == "retracted"


def test_signing_in_from_another_site_is_refused(daemon: Daemon, tenant: str):
    _, token = token_store(daemon.home).create("general", tenant)
    with browsing(daemon) as http:
        foreign = {"Origin": "https://evil.example"}
        answer = http.post("/sign-in", data={"token": token}, headers=foreign)
        assert answer.status_code == 403 and "set-cookie" not in answer.headers


@pytest.mark.contract("P7")
async def test_another_tenants_memory_cannot_be_touched(
    daemon: Daemon, tenant: str, caller: ApiCaller, stranger: ApiCaller
):
    told = {"subject": "Ann", "predicate": "secret", "content": "Only theirs"}
    theirs = (await stranger.post("/facts", told))["id"]
    with visiting(daemon, tenant) as visitor:
        visitor.home(f"/facts/{theirs}", 404)
        sent: dict[str, dict[str, Any]] = {
            "forget": {}, "confirm": {}, "restore": {}, "correct": {"content": "Mine now"},
        }  # fmt: skip
        for action, fields in sent.items():
            assert visitor.act(f"/facts/{theirs}/{action}", _refusal(action), **fields)
    after = await stranger.get(f"/facts/{theirs}")
    assert after["memory"]["content"] == "Only theirs" and after["memory"]["state"] == "active"
    assert len(after["events"]) == 1


def _refusal(action: str) -> int:
    return 404 if action == "correct" else 409


def test_a_visitor_without_a_session_changes_nothing(daemon: Daemon):
    with browsing(daemon) as http:
        nobody = PageVisitor(http, "general")
        path = "/facts/00000000-0000-4000-8000-000000000000/forget"
        assert "Sign in" in nobody.act(path, 401, csrf="x").text
