"""The site of the documentation has every page, its links lead somewhere, it fetches nothing."""

import json
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import docs_site

ROOT = Path(__file__).parent.parent
CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
# Relations of <link> that a browser does not fetch.
NAMED_ONLY = {"canonical", "next", "prev", "alternate"}


class Page(HTMLParser):
    """The ids, links and fetched addresses of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        address = values.get(FETCHED.get(tag, ""))
        if address is not None and values.get("rel") not in NAMED_ONLY:
            self.fetched.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return docs_site.build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def in_menu(entries: object) -> set[str]:
    if isinstance(entries, str):
        return {entries}
    inner = entries.values() if isinstance(entries, dict) else entries
    return set().union(*map(in_menu, inner))  # type: ignore[call-overload]


def test_every_page_is_in_the_menu_and_every_entry_is_a_page() -> None:
    written = {str(docs_site.place_of(path)) for path in (ROOT / "docs").glob("*.md")}
    wanted = written | set(docs_site.PAGES.values()) | {"decisions/README.md"}
    assert in_menu(CONFIG["nav"]) == wanted


def test_every_link_leads_to_a_page_and_its_heading(pages: dict[Path, Page]) -> None:
    assert len(pages) > 70
    broken = [
        f"{page.path.name}: {link}"
        for page in pages.values()
        for link in page.links
        if not urlsplit(link).scheme and not leads_somewhere(page, link, pages)
    ]
    assert broken == []


def leads_somewhere(page: Page, link: str, pages: dict[Path, Page]) -> bool:
    name, _, anchor = unquote(link).partition("#")
    target = (page.path.parent / name).resolve() if name else page.path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    return not anchor or target not in pages or anchor in pages[target].ids


def test_a_broken_link_would_be_noticed(pages: dict[Path, Page]) -> None:
    page = next(page for path, page in pages.items() if path.name == "guide.html")
    assert leads_somewhere(page, "operations.html#retention", pages)
    assert not leads_somewhere(page, "operations.html#levitation", pages)
    assert not leads_somewhere(page, "levitation.html", pages)


def test_no_page_fetches_anything_from_elsewhere(pages: dict[Path, Page]) -> None:
    elsewhere = {
        address
        for page in pages.values()
        for address in page.fetched
        if urlsplit(address).netloc or not (page.path.parent / urlsplit(address).path).exists()
    }
    assert elsewhere == set()
    assert all(page.fetched for page in pages.values())


def test_the_site_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search.json").read_text("utf-8"))
    found = [item for item in index["items"] if "EpiPen" in json.dumps(item)]
    assert found
    assert len({item["location"].partition("#")[0] for item in index["items"]}) > 70


def test_the_readme_is_short_and_names_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) < 120
    commands = [line.partition(" #")[0].strip() for line in lines]
    assert "make run" in commands and "make test" in commands
