"""A real Chromium in front of a real daemon; without a Chromium these tests are skipped."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from browser.chromium import chromium, found
from browser.story import Told, tell
from butlers.auth.rights import Right
from butlers.host.home import Home
from interfaces.daemons import Daemon, butlers, up
from interfaces.furnished import furnished_home
from interfaces.http.callers import token_store
from interfaces.web.visitors import browsing, link_of

NewContext = Callable[..., BrowserContext]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in str(item.path):
            item.add_marker(pytest.mark.browser)
            if found() is None:
                item.add_marker(pytest.mark.skip(reason="no Chromium on this machine"))


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    with furnished_home("general", "kitchen") as place:
        for name in ("general", "kitchen"):
            assert butlers("new", name, "--home", place.root).returncode == 0
        yield place


@pytest.fixture(scope="session")
def told(home: Home) -> Told:
    """What the story of the tenant `default` told."""
    # In a thread: the browser of an earlier test may have a loop of its own in this one.
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, tell(home)).result()


@pytest.fixture(scope="session")
def daemon(home: Home, told: Told) -> Iterator[Daemon]:
    with up(home) as running:
        yield running


@pytest.fixture(scope="session")
def operator(daemon: Daemon) -> dict[str, str]:
    """The cookie of whoever used the link."""
    with browsing(daemon) as http:
        assert http.get(link_of(daemon)).status_code == 200
        return dict(http.cookies)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for each file: while it is open, no loop can run in this thread."""
    with chromium() as one:
        yield one


@pytest.fixture
def new_context(browser: Browser, daemon: Daemon) -> Iterator[NewContext]:
    """Contexts in which nothing may go wrong: no error, and no request to another host."""
    opened: list[BrowserContext] = []
    faults: list[str] = []

    def make(cookies: dict[str, str] | None = None, **options: Any) -> BrowserContext:
        context = browser.new_context(base_url=daemon.url, **options)
        context.set_default_timeout(15_000)
        kept = [{"name": k, "value": v, "url": daemon.url} for k, v in (cookies or {}).items()]
        context.add_cookies(kept)  # type: ignore[arg-type]
        context.on(
            "console", lambda said: said.type in ("error", "warning") and faults.append(said.text)
        )
        context.on("weberror", lambda error: faults.append(str(error.error)))
        context.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        context.on("request", lambda sent: _is_ours(sent.url, daemon) or faults.append(sent.url))
        opened.append(context)
        return context

    yield make
    for context in opened:
        context.close()
    assert not faults


def _is_ours(url: str, daemon: Daemon) -> bool:
    return urlsplit(url).netloc == urlsplit(daemon.url).netloc


@pytest.fixture
def page(new_context: NewContext, operator: dict[str, str]) -> Page:
    """A page of the operator."""
    return new_context(operator).new_page()


class Agent:
    """A tenant of its own that writes over the API, and its token."""

    def __init__(self, daemon: Daemon) -> None:
        self.tenant = f"tenant-{uuid.uuid4().hex[:10]}"
        _, self.token = token_store(daemon.home).create(
            "general", self.tenant, rights=Right.OPERATE
        )
        self._daemon = daemon

    def send(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Write something; what the API answers."""
        with httpx2.Client(base_url=self._daemon.url, trust_env=False, timeout=60) as http:
            answer = http.post(f"/api/butlers/general/memory{path}", json=body,
                               headers={"Authorization": f"Bearer {self.token}"})  # fmt: skip
        assert answer.is_success, answer.text
        return dict(answer.json())

    def fact(self, content: str = "Green tea", **more: Any) -> str:
        told = {"subject": "Ann", "predicate": "drink", "content": content, **more}
        return str(self.send("/facts", told)["id"])

    def entity(self, name: str) -> str:
        told = {"canonical_name": name, "entity_type": "person"}
        return str(self.send("/entities", told)["entity_id"])

    def sign_in(self, page: Page) -> None:
        """Sign in by hand."""
        page.goto("/sign-in")
        page.get_by_label("Token").fill(self.token)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/memory")


@pytest.fixture
def agent(daemon: Daemon) -> Agent:
    return Agent(daemon)
