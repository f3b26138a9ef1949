"""Signing in: with a token, with the link once, and for as long as either holds."""

import json
import uuid
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.web.browser_sessions import (
    COOKIE,
    MAX_SESSIONS,
    SESSION_LIFE,
    BrowserSessions,
    give_cookie,
)
from butlers.settings.sections import FleetSection
from conftest import WalkingClock
from interfaces.daemons import Daemon, butlers, up
from interfaces.furnished import furnished_home
from interfaces.http.callers import token_store
from interfaces.web.visitors import PageVisitor, browsing, link_of, sign_in, visiting


def test_a_stranger_is_led_to_the_sign_in_and_back(daemon: Daemon):
    with browsing(daemon) as http:
        answer = http.get("/butlers/general/memory/facts?state=active")
        assert answer.status_code == 303
        assert answer.headers["location"] == (
            "/sign-in?next=/butlers/general/memory/facts%3Fstate%3Dactive"
        )
        page = PageVisitor(http, "general").open(answer.headers["location"])
        kept = page.find("input", name="next")[0].attributes["value"]
        assert kept == "/butlers/general/memory/facts?state=active"


def test_a_token_opens_a_session_with_a_cookie_no_script_can_read(daemon: Daemon, tenant: str):
    _, token = token_store(daemon.home).create("general", tenant)
    with browsing(daemon) as http:
        answer = sign_in(http, token, next="/butlers/general/memory")
        assert answer.headers["location"] == "/butlers/general/memory"
        cookie = answer.headers["set-cookie"]
        for word in ("HttpOnly", "SameSite=strict", "Path=/", f"Max-Age={12 * 3600}"):
            assert word in cookie
        assert token not in cookie and "Secure" not in cookie
        assert tenant in PageVisitor(http, "general").home().text


@pytest.mark.parametrize("given", ["", "btl_nonsense", "x" * 200])
def test_a_wrong_token_opens_nothing(daemon: Daemon, given: str):
    with browsing(daemon) as http:
        answer = sign_in(http, given, 403)
        assert "Unknown token" in answer.text
        assert "set-cookie" not in answer.headers
        assert given == "" or given not in answer.text


@pytest.mark.parametrize("next", ["https://evil.example/", "//evil.example", "/\\evil.example",
                                  "javascript:alert(1)", "/a\nb", "/sign-in"])  # fmt: skip
def test_nobody_is_sent_elsewhere(daemon: Daemon, tenant: str, next: str):
    _, token = token_store(daemon.home).create("general", tenant)
    with browsing(daemon) as http:
        assert sign_in(http, token, next=next).headers["location"] == "/memory"


@pytest.mark.contract("P6")
def test_a_token_shows_its_butler_and_its_tenant_only(daemon: Daemon, tenant: str):
    with visiting(daemon, tenant) as visitor:
        page = visitor.open("/memory")
        assert page.find("a", href="/butlers/general/memory")
        assert not page.find("a", href="/butlers/kitchen/memory")
        visitor.open("/butlers/kitchen/memory", 404)


def test_a_revoked_token_ends_its_session(daemon: Daemon, tenant: str):
    store = token_store(daemon.home)
    record, token = store.create("general", tenant)
    with browsing(daemon) as http:
        sign_in(http, token)
        assert http.get("/memory").status_code == 200
        store.revoke(record.id)
        assert http.get("/memory").status_code == 303


def test_signing_out_ends_the_session_wherever_its_cookie_went(daemon: Daemon, tenant: str):
    with visiting(daemon, tenant) as visitor:
        kept = dict(visitor.http.cookies)
        visitor.send("/sign-out")
        assert visitor.http.get("/memory").status_code == 303
        with browsing(daemon) as thief:
            thief.cookies.update(kept)
            assert thief.get("/memory").status_code == 303


def test_signing_in_again_begins_a_new_session(daemon: Daemon, tenant: str):
    _, token = token_store(daemon.home).create("general", tenant)
    with browsing(daemon) as http:
        sign_in(http, token)
        before = dict(http.cookies)
        sign_in(http, token)
        assert dict(http.cookies) != before
        with browsing(daemon) as other:
            other.cookies.update(before)
            assert other.get("/memory").status_code == 303


@pytest.fixture(scope="module")
def fresh() -> Iterator[Daemon]:
    """A home whose link nobody has used."""
    with furnished_home("general", "kitchen") as home:
        assert butlers("new", "general", "--home", home.root).returncode == 0
        assert butlers("new", "kitchen", "--home", home.root).returncode == 0
        with up(home) as running:
            yield running


@pytest.mark.contract("P6")
def test_the_link_of_a_start_signs_in_once_and_shows_every_butler(fresh: Daemon):
    link = link_of(fresh)
    with browsing(fresh) as http:
        prefetched = http.get(link, headers={"Sec-Purpose": "prefetch"})
        assert prefetched.status_code == 403
        assert http.get(link[:-1]).status_code == 403
        answer = http.get(link)
        assert answer.status_code == 200 and "HttpOnly" in answer.headers["set-cookie"]
        page = PageVisitor(http, "general").open("/memory")
        assert page.find("a", href="/butlers/general/memory")
        assert page.find("a", href="/butlers/kitchen/memory")
    with browsing(fresh) as other:
        again = other.get(link)
        assert again.status_code == 403 and "already used" in again.text
        assert "set-cookie" not in again.headers


def test_the_link_is_kept_in_no_file(fresh: Daemon):
    secret = link_of(fresh).rsplit("/", 1)[1]
    assert len(secret) >= 40
    assert "sign_in" not in json.loads(fresh.home.run_file.read_text())
    files = [file for file in fresh.home.root.rglob("*") if file.is_file() and file.stat().st_size]
    kept = [
        file
        for file in files
        if "postgres" not in str(file) and secret.encode() in file.read_bytes()
    ]
    assert not kept


def test_a_link_that_is_used_or_too_old_names_the_command_for_a_new_one(daemon: Daemon):
    """Too old is the same to a visitor as never there: both are unknown here."""
    with browsing(daemon) as http:
        answer = http.get("/sign-in/once/of-yesterday")
        assert answer.status_code == 403
        assert "butlers open" in answer.text


def _request(cookie: str) -> Request:
    headers = [(b"cookie", f"{COOKIE}={cookie}".encode())]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers})


@pytest.fixture
def app_state(tmp_path: Any) -> AppState:
    tokens = TokenStore(tmp_path / "tokens.json")
    butler: Any = SimpleNamespace(settings=SimpleNamespace(butler=SimpleNamespace(tenant="acme")))
    return AppState(Home(tmp_path), {"general": butler}, tokens, FleetSection())


async def test_a_session_expires(app_state: AppState, clock: WalkingClock):
    sessions = BrowserSessions(app_state, clock)
    cookie = await sessions.begin(None)
    visitor = sessions.visitor(_request(cookie))
    assert (
        visitor is not None and visitor.tenants == {"general": "acme"} and visitor.who.is_operator
    )
    clock.advance(seconds=(SESSION_LIFE - timedelta(seconds=1)).total_seconds())
    assert sessions.visitor(_request(cookie)) is not None
    clock.advance(seconds=1)
    assert sessions.visitor(_request(cookie)) is None


async def test_sessions_are_bounded_and_the_oldest_goes_first(
    app_state: AppState, clock: WalkingClock
):
    sessions = BrowserSessions(app_state, clock)
    first, second = await sessions.begin(None), await sessions.begin(None)
    for _ in range(MAX_SESSIONS - 1):
        await sessions.begin(None)
    assert sessions.visitor(_request(first)) is None
    assert sessions.visitor(_request(second)) is not None


async def test_names_of_sessions_are_kept_as_digests_only(app_state: AppState, clock: WalkingClock):
    sessions = BrowserSessions(app_state, clock)
    cookie = await sessions.begin(None)
    assert cookie not in repr(vars(sessions))
    assert sessions.visitor(_request(str(uuid.uuid4()))) is None


@pytest.mark.parametrize(
    ("scheme", "origin", "secure"),
    [("https", "", True), ("http", "https://butlers.example", True), ("http", "http://a", False)],
)
def test_https_makes_the_cookie_secure_be_it_a_proxys(scheme: str, origin: str, secure: bool):
    headers = [(b"origin", origin.encode())]
    scope = {"type": "http", "scheme": scheme, "path": "/", "headers": headers, "server": ("a", 1)}
    response = Response()
    give_cookie(Request(scope), response, "x")
    assert ("Secure" in response.headers["set-cookie"]) is secure


def test_the_client_library_keeps_cookies(daemon: Daemon, tenant: str):
    """Should it ever stop to, every test above that expects a refusal would pass for nothing."""
    with visiting(daemon, tenant) as visitor:
        assert isinstance(visitor.http, httpx2.Client)
        assert COOKIE in dict(visitor.http.cookies)
