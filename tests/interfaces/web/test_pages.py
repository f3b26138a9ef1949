"""The pages: what each shows, what its buttons do, and what it says when there is nothing."""

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.http.fanout import ANSWER_SECONDS
from butlers.interfaces.web.app import build
from butlers.sessions import spool
from butlers.settings.sections import FleetSection
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, until, up
from interfaces.furnished import furnished_home
from interfaces.http.callers import ApiCaller
from interfaces.web.visitors import Page, PageVisitor, browsing, link_of, visiting

SECTIONS = ("", "/facts", "/rules", "/episodes", "/entities", "/search", "/context", "/activity",
            "/jobs", "/data")  # fmt: skip
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def visitor(daemon: Daemon, tenant: str) -> Iterator[PageVisitor]:
    """Somebody with a token of a tenant that no other test is."""
    with visiting(daemon, tenant) as one:
        yield one


async def _fact(caller: ApiCaller, content: str = "Green tea", **more: object) -> str:
    told = {"subject": "Ann", "predicate": "drink", "content": content, **more}
    return str((await caller.post("/facts", told))["id"])


def _arrived(location: str) -> tuple[str, str]:
    """Which memory an action led to, and which word it said."""
    parts = urlsplit(location)
    return parts.path.rsplit("/", 1)[1], parts.query.partition("=")[2]


def test_the_front_leads_to_the_fleet(daemon: Daemon):
    with browsing(daemon) as http:
        assert http.get("/").headers["location"] == "/memory"


PAGES = ["/memory", "/memory/search", *(f"/butlers/general/memory{one}" for one in SECTIONS)]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_protected(visitor: PageVisitor, path: str):
    answer = visitor.http.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "same-origin"
    page = PageVisitor(visitor.http, "general").open(path)
    assert not [one for one in page.elements if "style" in one.attributes or one.tag == "style"]
    assert all(one.attributes["src"].startswith("/static/") for one in page.find("script"))
    assert len(page.find("main")) == 1 and len(page.find("h1")) == 1


@pytest.mark.parametrize("path", ["/static/style.css", "/static/app.js", "/static/icon.svg"])
def test_style_and_script_are_our_own(daemon: Daemon, path: str):
    with browsing(daemon) as http:
        answer = http.get(path)
        assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff"
        own = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(", own)
        assert http.get("/static/../app.py").status_code == 404


@pytest.mark.parametrize("path", SECTIONS)
def test_an_empty_memory_says_what_to_do_next(visitor: PageVisitor, path: str):
    page = visitor.home(path)
    if path not in ("/context", "/jobs"):
        assert [one for one in page.elements if one.attributes.get("class") == "empty"]


@pytest.mark.contract("P5")
async def test_a_butlers_page_shows_facts_rules_and_episodes(
    visitor: PageVisitor, caller: ApiCaller
):
    fact = await _fact(caller, permanence="volatile", scope="general", tags=["taste"])
    rule = (await caller.post("/rules", {"content": "Ask first"}))["id"]
    await caller.post(f"/rules/{rule}/helpful")
    await caller.post("/episodes", {"content": "We talked about tea"})
    page = visitor.home()
    assert page.find("a", href=f"/butlers/general/memory/facts/{fact}")
    for words in ("Ann · drink", "Green tea", "volatile", "scope general", "# taste", "1.00",
                  "fades in 1 month", "by general", "Ask first", "candidate", "1 helpful",
                  "0 harmful", "We talked about tea", "pending"):  # fmt: skip
        assert words in page.words, words
    assert any("fades on" in one.attributes.get("aria-label", "") for one in page.find("svg"))


@pytest.mark.contract("P5")
async def test_anti_patterns_stand_apart(visitor: PageVisitor, caller: ApiCaller):
    rule = (await caller.post("/rules", {"content": "Shout"}))["id"]
    for reason in ("loud", "rude", "late"):
        await caller.post(f"/rules/{rule}/harmful", {"reason": reason})
    await caller.post("/rules", {"content": "Whisper"})
    for path in ("", "/rules"):
        page = visitor.home(path)
        assert page.find("section", **{"aria-labelledby": "h-warnings"})
        assert "3 harmful" in page.words and "anti pattern" in page.words
    alone = visitor.home("/rules?maturity=anti_pattern")
    assert "Do NOT Shout" in alone.words and "Whisper" not in alone.words


async def test_listings_filter_and_turn_their_pages(visitor: PageVisitor, caller: ApiCaller):
    ids = [await _fact(caller, f"Tea {number}", predicate=f"p{number}") for number in range(25)]
    await _fact(caller, "Bread", subject="Bob", tags=["food"])
    first = visitor.home("/facts")
    older = first.find("a", rel="next")[0].attributes["href"]
    second = visitor.home(f"/facts{older}")
    shown = [_ids(page) for page in (first, second)]
    assert len(shown[0]) == 20 and len(shown[1]) == 6 and not shown[0] & shown[1]
    assert set(ids) <= shown[0] | shown[1]
    only = visitor.home(
        "/facts?subject=Bob&tag=food&state=active&permanence=standard&scope=&predicate="
    )
    assert len(_ids(only)) == 1 and "Bread" in only.words
    assert only.find("option", value="active", selected="")
    assert "No fact matches these filters" in visitor.home("/facts?state=expired").words
    assert "No fact matches" in visitor.home("/facts?created_before=2001-01-01").words
    assert "found" in visitor.home("/facts?state=nonsense", 400).words


def _ids(page: object) -> set[str]:
    links = [one.attributes.get("href", "") for one in page.find("a")]  # type: ignore[attr-defined]
    return {link.rsplit("/", 1)[1] for link in links if re.search("/facts/[0-9a-f-]{36}$", link)}


@pytest.mark.contract("P5")
async def test_a_facts_page_tells_its_life_and_where_it_came_from(
    visitor: PageVisitor, caller: ApiCaller
):
    first = await _fact(caller, "Coffee")
    second = (await caller.post(f"/facts/{first}/correct", {"content": "Tea"}))["id"]
    page = visitor.home(f"/facts/{second}")
    assert "Fact stored" in page.words and "confidence now" in page.words.lower()
    graph = page.find("svg", role="group")[0]
    assert "replaced" in graph.attributes["aria-label"]
    assert page.find("a", href=f"/butlers/general/memory/facts/{first}")
    old = visitor.home(f"/facts/{first}")
    assert "superseded" in old.words and "Fact superseded" in old.words
    assert old.find("a", href=f"/butlers/general/memory/facts/{second}")
    assert not old.find("form", action=f"/butlers/general/memory/facts/{first}/correct")
    origin = {"stated_in": "session-7"}
    told = {"subject": "user", "predicate": "tea", "content": "green", "metadata": origin}
    stated = (await caller.post("/facts", told))["id"]
    words = "by a user in session session-7, extracted by pattern; not confirmed yet"
    assert words in visitor.home(f"/facts/{stated}").words


@pytest.mark.contract("P7", "P9")
async def test_confirming_goes_through_the_butlers_own_flow(
    visitor: PageVisitor, caller: ApiCaller
):
    fact = await _fact(caller)
    answer = visitor.act(f"/facts/{fact}/confirm")
    assert _arrived(answer.headers["location"]) == (fact, "confirmed")
    assert "Confirmed" in visitor.open(answer.headers["location"]).words
    events = (await caller.get(f"/facts/{fact}"))["events"]
    assert [one["event_type"] for one in events] == ["fact_created", "fact_confirmed"]
    assert events[1]["actor"].startswith("token:") and events[1]["request_id"]


async def test_a_decision_is_past_or_holds_by_a_click(visitor: PageVisitor, caller: ApiCaller):
    for minute, said in enumerate(
        ("Let's use the Oslo bucket.", "Scrap that, let's use Rome's bucket.")
    ):
        lines = [
            {
                "type": role,
                "message": {"role": role, "content": text},
                "timestamp": f"2026-01-10T00:{minute}{second}:00Z",
            }
            for second, (role, text) in enumerate(
                [
                    ("user", "Look."),
                    ("assistant", "Which one?"),
                    ("user", said),
                    ("assistant", "Done."),
                ]
            )
        ]
        told = {"session_id": f"s{minute}", "transcript": "\n".join(map(json.dumps, lines))}
        stored = await caller.send("POST", "/butlers/general/hooks/SessionEnd", json=told)
        assert stored.json()["episode_id"]
    (rome,) = (await caller.get("/decisions"))["items"]
    (oslo,) = rome["earlier"]
    assert oslo["line"] == "until 10 Jan 2026: Let's use the Oslo bucket."
    assert "outdated" in visitor.home(f"/episodes/{oslo['id']}").words
    answer = visitor.act(f"/episodes/{oslo['id']}/reinstate")
    assert _arrived(answer.headers["location"]) == (oslo["id"], "reinstated")
    assert "It holds again." in visitor.open(answer.headers["location"]).words
    visitor.act(f"/episodes/{oslo['id']}/reinstate", 409)
    answer = visitor.act(f"/episodes/{rome['id']}/retire")
    assert "It is past" in visitor.open(answer.headers["location"]).words
    assert [one["id"] for one in (await caller.get("/decisions"))["items"]] == [oslo["id"]]


@pytest.mark.contract("P7")
async def test_a_correction_supersedes_and_can_be_undone(visitor: PageVisitor, caller: ApiCaller):
    first = await _fact(caller, "Coffee", permanence="stable", importance=8)
    answer = visitor.act(f"/facts/{first}/correct", content="Tea", permanence="volatile")
    second, word = _arrived(answer.headers["location"])
    assert word == "corrected"
    now = (await caller.get(f"/facts/{second}"))["memory"]
    assert (now["content"], now["permanence"], now["importance"]) == ("Tea", "volatile", 8)
    page = visitor.open(answer.headers["location"])
    assert page.find("form", action=f"/butlers/general/memory/facts/{second}/undo")
    third, word = _arrived(visitor.act(f"/facts/{second}/undo").headers["location"])
    assert word == "undone"
    again = (await caller.get(f"/facts/{third}"))["memory"]
    assert (again["content"], again["permanence"], again["importance"]) == ("Coffee", "stable", 8)
    visitor.act(f"/facts/{second}/correct", 409, content="Late")
    visitor.act(f"/facts/{third}/correct", 400, content="  ")


async def test_what_replaced_nothing_cannot_go_back(visitor: PageVisitor, caller: ApiCaller):
    fact = await _fact(caller)
    assert "nothing to go back to" in visitor.act(f"/facts/{fact}/undo", 409).text


@pytest.mark.contract("P7")
async def test_forgetting_can_be_undone(visitor: PageVisitor, caller: ApiCaller):
    rule = (await caller.post("/rules", {"content": "Ask first"}))["id"]
    for kinds, memory_id, gone in (("facts", await _fact(caller), "retracted"),
                                   ("rules", rule, "forgotten")):  # fmt: skip
        page = visitor.open(visitor.act(f"/{kinds}/{memory_id}/forget").headers["location"])
        assert gone in page.words and "Undo" in page.words
        visitor.act(f"/{kinds}/{memory_id}/forget", 409)
        visitor.act(f"/{kinds}/{memory_id}/restore")
        assert (await caller.get(f"/{kinds}/{memory_id}"))["memory"]["state"] == "active"


@pytest.mark.contract("P7", "L25")
async def test_what_a_cleanup_removed_is_restored_from_the_bin(
    visitor: PageVisitor, caller: ApiCaller
):
    assert "The bin is empty." in visitor.home("/bin").words
    episode = (await caller.post("/episodes", {"content": "<b>The boiler</b> is a Vaillant"}))["id"]
    visitor.act(f"/episodes/{episode}/forget")
    await caller.post("/episodes/cleanup", {})
    page = visitor.home("/bin")
    assert "<b>The boiler</b> is a Vaillant expired" in page.words
    (form,) = [one for one in page.find("form") if one.attributes["action"].endswith("/restore")]
    assert form.attributes["action"].endswith(f"/episodes/{episode}/restore")
    restored = visitor.open(visitor.act(f"/episodes/{episode}/restore").headers["location"])
    assert "Restored, with a new expiry date" in restored.words
    assert "The bin is empty." in visitor.home("/bin").words


@pytest.mark.contract("L25")
async def test_an_episode_expires_only_once_it_was_read_or_forgotten(
    visitor: PageVisitor, caller: ApiCaller
):
    episode = (await caller.post("/episodes", {"content": "The boiler is a Vaillant"}))["id"]
    assert "expires" not in visitor.home("/episodes").words
    page = visitor.home(f"/episodes/{episode}").words
    assert "Expires some days after consolidation has read it" in page
    visitor.act(f"/episodes/{episode}/forget")
    page = visitor.home(f"/episodes/{episode}").words
    assert "Expires" in page and "after consolidation" not in page


@pytest.mark.contract("P7", "L37")
async def test_what_is_less_trusted_is_reviewed_beside_what_is_so(
    visitor: PageVisitor, caller: ApiCaller
):
    fact = await _fact(caller)
    for content in ("<i>Gin</i>", "Rum"):
        await _fact(caller, content, origin="tool")
    page = visitor.home("/review")
    assert "<i>Gin</i> Green tea" in page.words and "Only the operator of the home" in page.words
    asked = [one.attributes["action"] for one in page.find("form")]
    gin, rum = (one for one in asked if one.endswith("/accept"))
    visitor.act("/" + rum.split("/memory/")[1].replace("/accept", "/decline"))
    visitor.act("/" + gin.split("/memory/")[1])
    assert "No proposals." in visitor.home("/review").words
    told = await caller.get(f"/facts/{fact}")
    assert told["memory"]["state"] == "superseded"
    assert "Origin agent" in visitor.home(f"/facts/{fact}").words
    visitor.act(f"/quarantine/{fact}/accept", 409)


@pytest.mark.contract("P7")
async def test_what_contradicts_is_settled_beside_what_it_contradicts(
    visitor: PageVisitor, caller: ApiCaller
):
    for predicate, content in (
        ("city", "<i>Oslo</i>"),
        ("lives_in", "Rome"),
        ("home_city", "Rome"),
    ):
        await _fact(caller, content, predicate=predicate)
    assert "city and lives_in hold one value" in visitor.home("/review").words
    found = {
        (one["newer"]["predicate"], one["older"]["predicate"]): f"/conflicts/{one['id']}"
        for one in (await caller.get("/conflicts"))["items"]
    }
    visitor.act(found["home_city", "lives_in"], holds="same")
    visitor.act(found["lives_in", "city"], 400, holds="since", since="soon")
    visitor.act(found["lives_in", "city"], holds="since", since="2025-03-01")
    assert "No open conflicts" in visitor.home("/review").words
    visitor.act(found["lives_in", "city"], 404, holds="newer")
    states = {one["predicate"]: one["state"] for one in (await caller.get("/facts"))["items"]}
    assert states == {"city": "superseded", "lives_in": "active", "home_city": "superseded"}


@pytest.mark.contract("P7")
async def test_rules_are_marked_helpful_and_harmful_with_a_reason(
    visitor: PageVisitor, caller: ApiCaller
):
    rule = (await caller.post("/rules", {"content": "Ask first"}))["id"]
    visitor.act(f"/rules/{rule}/helpful")
    visitor.act(f"/rules/{rule}/harmful", reason="too slow")
    visitor.act(f"/rules/{rule}/harmful", reason="")
    told = await caller.get(f"/rules/{rule}")
    assert (told["memory"]["success_count"], told["memory"]["harmful_count"]) == (1, 2)
    assert {one["reason"] for one in told["applications"]} == {None, "too slow"}
    assert "too slow" in visitor.home(f"/rules/{rule}").words


@pytest.mark.contract("P5")
async def test_search_shows_the_mode_and_the_parts_of_each_score(
    visitor: PageVisitor, caller: ApiCaller
):
    fact = await _fact(caller)
    for mode, words in {
        "recall": ("relevance", "importance 0.50", "recency 0.00", "confidence 1.00"),
        "hybrid": ("relevance", "by meaning", "by words"),
        "semantic": ("similarity",),
        "keyword": ("keyword rank",),
    }.items():
        page = visitor.home(f"/search?q=green+tea&mode={mode}")
        assert page.find("a", href=f"/butlers/general/memory/facts/{fact}"), mode
        assert page.find("option", value=mode, selected="")
        assert all(word in page.words for word in words), (mode, page.words)
    assert "Nothing found" in visitor.home("/search?q=tea&types=rule").words
    assert "found" in visitor.home("/search?q=tea&mode=magic", 400).words
    assert (await caller.get(f"/facts/{fact}"))["memory"]["reference_count"] == 0


async def test_the_context_preview_shows_the_exact_block_its_budget_and_its_reasons(
    visitor: PageVisitor, caller: ApiCaller
):
    fact = await _fact(caller)
    sent = visitor.act("/context", 200, prompt="what does Ann drink?", token_budget="500")
    built = await caller.post(
        "/context/preview", {"trigger_prompt": "what does Ann drink?", "token_budget": 500}
    )
    assert "[Ann] [drink]: Green tea" in built["text"]
    assert built["text"].strip() in _block(sent.text)
    assert f"{built['tokens']} of 500 tokens" in sent.text and "relevance" in sent.text
    assert (await caller.get(f"/facts/{fact}"))["memory"]["reference_count"] == 0
    visitor.act("/context", 400, prompt="x", token_budget="many")


def _block(html: str) -> str:
    found = re.search(r'<pre class="block"[^>]*>(.*?)</pre>', html, re.S)
    assert found is not None
    return found[1].replace("&#39;", "'").replace("&#34;", '"')


@pytest.mark.contract("P7")
async def test_entities_are_merged_after_a_preview(visitor: PageVisitor, caller: ApiCaller):
    ann, annie = [
        (await caller.post("/entities", {"canonical_name": name, "entity_type": "person"}))[
            "entity_id"
        ]
        for name in ("Ann", "Annie")
    ]
    await _fact(caller, "Green", entity_id=ann)
    await _fact(caller, "Black", entity_id=annie)
    await _fact(caller, "May", predicate="born", entity_id=annie)
    assert "Ann" in visitor.home("/entities").words
    page = visitor.home(f"/entities/{annie}")
    assert page.find("option", value=ann) and not page.find("option", value=annie)
    preview = visitor.home(f"/entities/{annie}/merge?into={ann}")
    assert "facts to move 1 facts to supersede 1 names added 1" in preview.words
    assert "Green (active, 1.00) the target's own" in preview.words
    assert (await caller.get(f"/entities/{annie}"))["entity"]["metadata"] == {}
    answer = visitor.act(f"/entities/{annie}/merge", into=ann)
    assert _arrived(answer.headers["location"]) == (ann, "merged")
    assert "also Annie" in visitor.open(answer.headers["location"]).words
    assert visitor.home(f"/entities/{annie}").find(
        "a", href=f"/butlers/general/memory/entities/{ann}"
    )
    visitor.act(f"/entities/{annie}/merge", 409, into=ann)
    answer = visitor.act(f"/entities/{annie}/unmerge")
    assert _arrived(answer.headers["location"]) == (annie, "parted")
    assert "Black" in visitor.open(answer.headers["location"]).words
    assert "also Annie" not in visitor.home(f"/entities/{ann}").words
    visitor.act(f"/entities/{annie}/unmerge", 409)
    visitor.home(f"/entities/{ann}/merge?into=nonsense", 400)
    visitor.home(f"/entities/{ann}/merge?into={NOBODY}", 404)


async def test_the_names_of_an_entity_are_changed(visitor: PageVisitor, caller: ApiCaller):
    told = {"canonical_name": "Ann", "entity_type": "person"}
    ann = (await caller.post("/entities", told))["entity_id"]
    visitor.act(f"/entities/{ann}/change", name="Ann Keller", aliases="Ann\r\nAnnie\r\n\r\n")
    entity = (await caller.get(f"/entities/{ann}"))["entity"]
    assert entity["canonical_name"] == "Ann Keller" and entity["aliases"] == ["Ann", "Annie"]


@pytest.mark.contract("P9")
async def test_the_feed_tells_what_happened_who_did_it_and_grows(
    visitor: PageVisitor, caller: ApiCaller
):
    fact = await _fact(caller)
    before = visitor.open("/memory/feed")
    visitor.act(f"/facts/{fact}/confirm")
    after = visitor.open("/memory/feed")
    events = [[one.attributes["data-event"] for one in page.find("li")] for page in (before, after)]
    assert events[1][1:] == events[0] and len(events[1]) == 2
    assert "Fact confirmed" in after.words and "an agent (token" in after.words
    assert visitor.home("/activity").find("a", href=f"/butlers/general/memory/facts/{fact}")


@pytest.mark.contract("P9")
def test_only_the_butlers_own_tenant_runs_its_jobs(daemon: Daemon, visitor: PageVisitor):
    path = "/butlers/general/memory/jobs/decay_sweep/run"
    assert not visitor.home("/jobs").find("form", action=path)
    visitor.send(path, 403)
    with visiting(daemon, "default") as owner:
        assert owner.home("/jobs").find("form", action=path)
        answer = owner.send(path)
        page = owner.open(answer.headers["location"])
        assert "The job has run" in page.words and "request" in page.words
        owner.send("/butlers/general/memory/jobs/nonsense/run", 404)


@pytest.mark.parametrize("path", [f"/facts/{NOBODY}", "/facts/nonsense", f"/nothing/{NOBODY}",
                                  f"/entities/{NOBODY}", "/nothing"])  # fmt: skip
def test_what_is_not_there_is_a_page_that_says_so(visitor: PageVisitor, path: str):
    answer = visitor.http.get(f"/butlers/general/memory{path}")
    assert answer.status_code in (404, 422)
    assert "Go to the fleet" in answer.text and answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("path", ["/nothing", "/memory/nothing", "/apiary", "/butlers/general"])
def test_an_address_nobody_serves_is_a_page_too(visitor: PageVisitor, path: str):
    page = visitor.open(path, 404)
    assert f"there is no page '{path}' to read" in page.words and "Go to the fleet" in page.words
    answer = visitor.http.put(path)
    assert answer.status_code in (404, 405) and "to send something to" in answer.text


async def test_a_fault_nobody_foresaw_is_a_page_without_its_reason(tmp_path: Path):
    home = Home(tmp_path)
    app = build(AppState(home, {}, TokenStore(home.tokens_file), FleetSection()))

    async def broken() -> None:
        raise ZeroDivisionError("a secret that only the log may hold")

    app.add_api_route("/memory/broken", broken)
    app.add_api_route("/api/broken", broken)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as http:
        page, told = await http.get("/memory/broken"), await http.get("/api/broken")
    assert (page.status_code, told.status_code) == (500, 500)
    assert "an unexpected error occurred" in Page(page.text).words
    assert page.headers["content-security-policy"] == POLICY
    assert told.json()["error"]["message"].startswith("an unexpected error occurred")
    assert "secret" not in page.text + told.text


def test_whoever_runs_the_home_is_told_of_sessions_that_went_without_memory(
    daemon: Daemon, visitor: PageVisitor
):
    told = {"butler": "general", "session": "s", "why": "<b>the daemon was not running</b>"}
    hooks = daemon.home.root / "hooks"
    hooks.mkdir(exist_ok=True)
    spool.note(str(hooks / "without-memory.jsonl"), told)
    link = urlsplit(butlers("open", "--home", daemon.home.root).stdout.split()[-1])
    with browsing(daemon) as http:
        assert http.get(link.path).status_code == 200
        page = PageVisitor(http, "general").open("/memory")
    assert "started without memory" in page.words
    assert "<b>the daemon was not running</b>" in page.words  # as text
    assert "started without memory" not in visitor.open("/memory").words


LIMIT = ANSWER_SECONDS


@pytest.fixture(scope="module")
def fleet() -> Iterator[PageVisitor]:
    """The operator of a home with two butlers, and two remote ones that do not answer."""
    with (
        furnished_home("general", "kitchen") as home,
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("general", "kitchen"):
            assert butlers("new", name, "--home", home.root).returncode == 0
        home.settings_file.write_text(
            "[fleet]\nremotes = [\n"
            '  { name = "far", token_env = "FAR_TOKEN", url = "http://127.0.0.1:9/api/butlers/a" },'
            "\n"
            '  { name = "mute", token_env = "MUTE_TOKEN", '
            f'url = "http://127.0.0.1:{mute.getsockname()[1]}/api/butlers/a" }},\n]\n'
        )
        patch.setitem(ENVIRONMENT, "MUTE_TOKEN", "btl_something")
        with up(home) as daemon, browsing(daemon) as http:
            assert http.get(link_of(daemon)).status_code == 200
            yield PageVisitor(http, "general")


@pytest.mark.contract("P6")
def test_a_butler_that_does_not_answer_costs_its_time_limit_once(fleet: PageVisitor):
    fleet.open("/memory")
    began = time.monotonic()
    page = fleet.open("/memory")
    assert LIMIT <= time.monotonic() - began < 2 * LIMIT
    assert f"no answer within {LIMIT:g} seconds" in page.words


@pytest.mark.contract("P6")
def test_the_fleet_page_shows_every_butler_and_one_that_is_down(fleet: PageVisitor):
    page = fleet.open("/memory")
    for name in ("general", "kitchen"):
        assert page.find("a", href=f"/butlers/{name}/memory")
        assert page.find("form", action=f"/butlers/{name}/memory/jobs/consolidate/run")
    assert "far" in page.words and "down" in page.words and "FAR_TOKEN" in page.words
    for words in ("Backlog", "Last consolidation", "Dead letters", "ok", "decay sweep", "in "):
        assert words in page.words


@pytest.mark.contract("P6")
def test_one_search_finds_in_every_butler(fleet: PageVisitor):
    token = {"X-CSRF-Token": fleet.open("/memory").csrf}
    for name in ("general", "kitchen"):
        told = {"subject": "Ann", "predicate": "drink", "content": f"Green tea at {name}"}
        stored = fleet.http.post(f"/api/butlers/{name}/memory/facts", json=told, headers=token)
        assert stored.status_code == 201
    page = fleet.open("/memory/search?q=green+tea")
    for name in ("general", "kitchen"):
        assert f"Green tea at {name}" in page.words
    assert "far did not answer" in page.words
    assert "Nothing found" in fleet.open("/memory/search?q=tea&types=episode").words


@pytest.mark.contract("P9")
def test_the_operator_runs_a_job_and_reads_what_came_of_it(fleet: PageVisitor):
    answer = fleet.act("/jobs/episode_cleanup/run")
    page = fleet.open(answer.headers["location"])
    assert "episode cleanup" in page.words and "request" in page.words and "ok" in page.words


def test_the_operator_backs_up_the_home_and_nobody_else_does(fleet: PageVisitor, daemon: Daemon):
    assert "Newest none yet" in fleet.open("/memory").words
    page = fleet.open(fleet.send("/memory/backups").headers["location"])
    assert "Backup made" in page.words or "The backup is running" in page.words
    until(lambda: fleet.http.get("/api/backups").json()["backups"])
    (kept,) = fleet.http.get("/api/backups").json()["backups"]
    assert kept["bytes"] > 10_000 and Path(kept["file"]).stat().st_mode & 0o777 == 0o600
    assert "just now" in fleet.open("/memory").words or "ago" in fleet.open("/memory").words
    asked = fleet.send("/memory/backups/verify").headers["location"]
    until(lambda: fleet.http.get("/api/backups").json()["checked"]["whole"] is not None)
    assert "complete, all checksums match" in fleet.open(asked).words
    with visiting(daemon, "default") as other:
        assert "Backups" not in other.open("/memory").words
        other.send("/memory/backups", 403)
        other.send("/memory/backups/verify", 403)


def test_what_would_go_with_a_butler_is_shown_with_the_commands_that_remove_it(fleet: PageVisitor):
    told = fleet.http.get("/api/butlers/kitchen/removal").json()
    assert told["commands"][1].startswith("butlers remove kitchen --home /")
    assert set(told["memories"]) == {"facts", "rules", "episodes", "entities"}
    page = fleet.open("/butlers/kitchen/memory/data")
    assert told["commands"][1] in page.words and "Stop the home first" in page.words


@pytest.mark.contract("P9")
def test_a_consolidation_without_a_model_says_what_is_missing(fleet: PageVisitor):
    page = fleet.open(fleet.act("/jobs/consolidate/run").headers["location"])
    assert "skipped" in page.words
    assert "no model (" in page.words and "name one in [runtime] of butler.toml" in page.words
    assert "True" not in page.words


@pytest.fixture(scope="module")
def many() -> Iterator[PageVisitor]:
    """The operator of a home with nine butlers, none of which has ever served anybody."""
    with furnished_home() as home:
        for name in "abcdefghi":
            home.create_butler(f"butler_{name}")
        with up(home) as daemon, browsing(daemon) as http:
            assert http.get(link_of(daemon)).status_code == 200
            yield PageVisitor(http, "butler_i")


@pytest.mark.contract("P6")
def test_a_large_fleet_stays_easy_to_survey(many: PageVisitor):
    page = many.open("/memory")
    folded = [one for one in page.find("details") if "open" not in one.attributes]
    assert len(folded) == 9
    assert len(page.find("summary")) == 9
    assert page.find("a", href="/memory#h-butlers")
    bar = page.text[: page.text.index("Sign out")].split()
    assert "butler_f" in bar and "butler_g" not in bar
    own = many.home()
    assert own.find("a", **{"href": "/butlers/butler_i/memory", "aria-current": "true"})
