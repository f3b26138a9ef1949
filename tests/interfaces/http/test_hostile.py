"""Stored text is hostile: whatever a field holds, a page shows it as words."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from interfaces.daemons import Daemon
from interfaces.http.callers import ApiCaller
from interfaces.web.visitors import Page, PageVisitor, visiting

HOSTILE = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(1)><style>*{display:none}</style>"
    "<a href=https://evil.example/>click</a><svg onload=alert(1)></textarea></title><!--"
    "{{ 7*7 }}{% raw %}https://evil.example/x [md](https://evil.example) javascript:alert(1)"
)
UNSEEN = "abc\u202edcba\u2066\u200b\x1b[31m\x07\u2028end"
FRAME = {"html", "head", "meta", "title", "link", "script", "body", "header", "main", "footer"}
PROSE = {"nav", "div", "section", "article", "h1", "h2", "h3", "p", "span", "bdi", "strong", "time"}
LISTS = {"ul", "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td"}
FORMS = {"form", "label", "input", "textarea", "select", "option", "button", "details", "summary"}
DRAWN = {"figure", "figcaption", "svg", "g", "path", "rect", "line", "text", "circle"}
TAGS = FRAME | PROSE | LISTS | FORMS | DRAWN | {"a", "pre", "code", "small"}
ADDRESSES = ("href", "src", "action", "formaction", "poster", "data")


@pytest.fixture(params=[HOSTILE, UNSEEN], ids=["markup", "unseen"])
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def visitor(daemon: Daemon, tenant: str) -> Iterator[PageVisitor]:
    with visiting(daemon, tenant) as one:
        yield one


async def _stored(caller: ApiCaller, hostile: str) -> list[str]:
    """Hostile text in every field there is; the pages that show it."""
    short = hostile[:90]
    entity = {"canonical_name": hostile[:180], "entity_type": "person", "aliases": [short],
              "metadata": {short: hostile}}  # fmt: skip
    ids = [(await caller.post("/entities", entity))["entity_id"] for _ in range(1)]
    other = {**entity, "canonical_name": f"x{hostile[:100]}"}
    ids.append((await caller.post("/entities", other))["entity_id"])
    fact = {"subject": hostile[:190], "predicate": short, "content": hostile, "scope": short,
            "tags": [short], "metadata": {short: hostile}, "entity_id": ids[0]}  # fmt: skip
    first = (await caller.post("/facts", fact))["id"]
    second = (await caller.post("/facts", {**fact, "content": f"{hostile} again"}))["id"]
    # A rule that hides words waits for a person, and takes no marks meanwhile.
    said = hostile if hostile == HOSTILE else "Ring first"
    rule = (await caller.post("/rules", {"content": said, "scope": said[:90], "tags": []}))["id"]
    for _ in range(3):
        await caller.post(f"/rules/{rule}/harmful", {"reason": hostile})
    episode = (await caller.post("/episodes", {"content": hostile}))["id"]
    await caller.send("POST", f"/api/butlers/general/memory/facts/{second}/confirm",
                      headers={"X-Request-Id": "<b>request</b>"})  # fmt: skip
    return [
        "", "/facts", "/rules", "/episodes", "/entities", "/activity", "/jobs",
        f"/facts/{first}", f"/facts/{second}", f"/rules/{rule}", f"/episodes/{episode}",
        f"/entities/{ids[0]}", f"/entities/{ids[0]}/merge?into={ids[1]}",
    ]  # fmt: skip


def _check(page: Page, hostile: str) -> None:
    assert {one.tag for one in page.elements} <= TAGS
    scripts = [one.attributes for one in page.find("script")]
    assert scripts == [{"src": "/static/app.js", "defer": ""}]
    for one in page.elements:
        assert not [key for key in one.attributes if key.startswith("on") or key == "style"], one
        for key in ADDRESSES:
            address = one.attributes.get(key, "/")
            assert re.match(r"^(/(?!/)|\?|#)", address), one
    if hostile == UNSEEN:
        seen = page.text + "".join(v for one in page.elements for v in one.attributes.values())
        assert not set(seen) & set("\u202e\u2066\u200b\x1b\x07\u2028")


@pytest.mark.contract("P5")
async def test_hostile_text_in_every_field_stays_text_on_every_page(
    visitor: PageVisitor, caller: ApiCaller, hostile: str
):
    for path in await _stored(caller, hostile):
        page = visitor.home(path)
        _check(page, hostile)
    for path in ("/memory", "/memory/search?q=alert", "/butlers/general/memory/search?q=alert",
                 "/butlers/general/memory/search?q=alert&mode=keyword"):  # fmt: skip
        _check(visitor.open(path), hostile)


async def test_hostile_text_in_the_context_preview_stays_text(
    visitor: PageVisitor, caller: ApiCaller, hostile: str
):
    await _stored(caller, hostile)
    sent = visitor.act("/context", 200, prompt=hostile, butler=hostile[:90])
    _check(Page(sent.text), hostile)


def test_hostile_text_in_an_address_stays_text(visitor: PageVisitor):
    text = quote(HOSTILE)
    short = quote(HOSTILE[:80])
    for path in (
        f"/search?q={text}&scope={short}",
        f"/facts?subject={short}",
        f"/entities?name={short}",
        f"/jobs?done={quote('<b>')}",
    ):
        _check(visitor.home(path), HOSTILE)
    for path in (
        f"/facts?state={text}",
        f"/facts?cursor={quote(HOSTILE[:150])}",
        f"/activity?cursor={text}",
    ):
        _check(visitor.home(path, 400), HOSTILE)
    _check(visitor.open(f"/memory/search?q={text}"), HOSTILE)
    _check(visitor.open(f"/butlers/{quote('<b>')}/memory", 404), HOSTILE)
    _check(visitor.open(f"/memory/{quote('<img src=x>')}", 404), HOSTILE)
    _check(visitor.open(f"/sign-in?next={text}"), HOSTILE)


async def test_a_correction_shows_and_keeps_what_was_stored(
    visitor: PageVisitor, caller: ApiCaller
):
    """A text that begins with a line break or ends a text area is put into the form whole."""
    told = {"subject": "a", "predicate": "b", "content": "</textarea>\n<b>&amp;"}
    fact = (await caller.post("/facts", told))["id"]
    html = visitor.http.get(f"/butlers/general/memory/facts/{fact}").text
    assert "&lt;/textarea&gt;\n&lt;b&gt;&amp;amp;</textarea>" in html
