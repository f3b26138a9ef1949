"""People who look at pages, without a browser: forms are read out of the page and sent back."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import httpx2

from butlers.auth.rights import Right
from butlers.auth.sign_in import SignInLinks
from interfaces.daemons import Daemon, until
from interfaces.http.callers import token_store


@dataclass
class Element:
    """One start tag with its attributes."""

    tag: str
    attributes: dict[str, str]


class Page(HTMLParser):
    """The tags of a page and its text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.text += " "
        self.elements.append(Element(tag, {key: value or "" for key, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def find(self, tag: str, **attributes: str) -> list[Element]:
        """Every tag of a name with these attributes."""
        wanted = attributes.items()
        return [
            one
            for one in self.elements
            if one.tag == tag and all(one.attributes.get(key) == value for key, value in wanted)
        ]

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    @property
    def csrf(self) -> str:
        return self.find("input", name="csrf")[0].attributes["value"]


@dataclass
class PageVisitor:
    """Somebody with a session of their own."""

    http: httpx2.Client
    butler: str
    headers: dict[str, str] = field(default_factory=dict)

    def open(self, path: str, status: int = 200) -> Page:
        """A page, which must have this status."""
        answer = self.http.get(path)
        assert answer.status_code == status, (answer.status_code, answer.text[:2000])
        assert answer.headers["content-type"].startswith("text/html")
        return Page(answer.text)

    def home(self, path: str = "", status: int = 200) -> Page:
        """A page below the butler's own."""
        return self.open(f"/butlers/{self.butler}/memory{path}", status)

    def send(self, path: str, status: int = 303, **fields: Any) -> httpx2.Response:
        """Send a form as the page would, with the session's own secret."""
        csrf = fields.pop("csrf", None) or self.open("/memory").csrf
        headers = {"Origin": str(self.http.base_url).rstrip("/")} | self.headers
        answer = self.http.post(path, data={"csrf": csrf, **fields}, headers=headers)
        assert answer.status_code == status, (answer.status_code, answer.text[:2000])
        return answer

    def act(self, path: str, status: int = 303, **fields: Any) -> httpx2.Response:
        """Send a form below the butler's own pages."""
        return self.send(f"/butlers/{self.butler}/memory{path}", status, **fields)


@contextmanager
def browsing(daemon: Daemon) -> Iterator[httpx2.Client]:
    """A client that keeps cookies and follows nothing by itself."""
    with httpx2.Client(
        base_url=daemon.url, trust_env=False, timeout=60, follow_redirects=False
    ) as http:
        yield http


@contextmanager
def visiting(daemon: Daemon, tenant: str, butler: str = "general") -> Iterator[PageVisitor]:
    """A visitor who signed in with a token of a tenant."""
    _, token = token_store(daemon.home).create(butler, tenant, rights=Right.OPERATE)
    with browsing(daemon) as http:
        sign_in(http, token)
        yield PageVisitor(http, butler)


def sign_in(http: httpx2.Client, token: str, status: int = 303, **fields: str) -> httpx2.Response:
    headers = {"Origin": str(http.base_url).rstrip("/")}
    answer = http.post("/sign-in", data={"token": token, **fields}, headers=headers)
    assert answer.status_code == status, answer.text
    return answer


def deciding_link_of(daemon: Daemon) -> str:
    """A sign-in link as `butlers open` makes it for somebody who is at the terminal."""
    return daemon.url + SignInLinks(daemon.home.invitations_directory).create(may_decide=True)


def link_of(daemon: Daemon) -> str:
    """The sign-in link that `butlers up` printed."""
    printed = re.compile(r"http\S+/sign-in/once/\S+")
    until(lambda: printed.search(daemon.stdout))
    return printed.findall(daemon.stdout)[0]
