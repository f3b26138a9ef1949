"""The pages without a script, without a mouse, and with text that means harm."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from browser.conftest import Agent
from interfaces.daemons import Daemon

NewContext = Callable[..., BrowserContext]
HOME = "/butlers/general/memory"
HOSTILE = (
    "\"'><script>window.harmed=1</script><img src=https://evil.example/x onerror=window.harmed=1>"
    "<style>@import 'https://evil.example/s.css';*{display:none}</style><svg/onload=window.harmed=1>"
    "<iframe src=https://evil.example></iframe></textarea><base href=https://evil.example/>"
    "javascript:window.harmed=1 https://evil.example/ \u202egnp.exe"
)


def test_everything_works_without_a_script(new_context: NewContext, agent: Agent):
    fact, ann, annie = agent.fact("Coffee"), agent.entity("Ann"), agent.entity("Annie")
    page = new_context(java_script_enabled=False).new_page()
    agent.sign_in(page)
    page.get_by_label("Search all butlers").fill("coffee")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="Ann · drink").click()
    page.locator("summary", has_text="Confirm").click()
    page.get_by_role("button", name="Yes, it is still true").click()
    expect(page.get_by_role("status")).to_contain_text("Confirmed")
    page.locator("summary", has_text="Correct").click()
    page.get_by_label("Correct content").fill("Tea")
    page.get_by_role("button", name="Save correction").click()
    expect(page.locator("article")).to_contain_text("Tea")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("article")).to_contain_text("Coffee")
    page.goto(f"{HOME}/facts/{fact}")
    expect(page.get_by_text("A newer fact replaced it")).to_be_visible()
    page.goto(f"{HOME}/entities/{annie}")
    page.get_by_label("Entity to keep").select_option(ann)
    page.get_by_role("button", name="Preview the merge").click()
    page.get_by_role("button", name="Yes, merge them").click()
    expect(page.get_by_text("also Annie")).to_be_visible()
    page.goto(f"{HOME}/context")
    page.get_by_label("Prompt").fill("coffee")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("pre.block")).to_contain_text("Coffee")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))


def test_a_job_runs_without_a_script(new_context: NewContext, operator: dict[str, str]):
    page = new_context(operator, java_script_enabled=False).new_page()
    page.goto(f"{HOME}/jobs")
    page.get_by_role("button", name="Run episode cleanup of general now").click()
    expect(page.get_by_text("The job has run")).to_be_visible()


def _tab_to(page: Page, wanted: Callable[[Page], bool], most: int = 80) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted(page):
            return
    raise AssertionError("the keyboard never got there")


def _focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def test_everything_can_be_reached_by_keyboard(new_context: NewContext, agent: Agent):
    agent.fact("Coffee")
    page = new_context().new_page()
    page.goto("/sign-in")
    page.keyboard.type(agent.token)  # the field has the focus
    page.keyboard.press("Enter")
    page.wait_for_url("**/memory")
    page.keyboard.press("Tab")
    assert _focused(page) == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    page.keyboard.type("coffee")
    page.keyboard.press("Enter")
    page.wait_for_url("**/memory/search**")
    _tab_to(page, lambda one: _focused(one) == "Ann · drink")
    page.keyboard.press("Enter")
    page.wait_for_url("**/facts/**")
    _tab_to(page, lambda one: _focused(one) == "Confirm")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Yes, it is still true")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Yes, it is still true")).to_be_hidden()
    assert _focused(page) == "Confirm"
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    assert _focused(page) == "Yes, it is still true"
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Confirmed")).to_be_visible()


def test_whatever_has_the_focus_shows_it(page: Page):
    page.goto("/memory")
    for _ in range(25):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", _focused(page)


@pytest.mark.contract("P5")
def test_hostile_text_in_every_field_does_nothing(new_context: NewContext, agent: Agent):
    short = HOSTILE[:90]
    named = {"canonical_name": HOSTILE[:180], "entity_type": "person", "aliases": [short]}
    entity = agent.send("/entities", {**named, "metadata": {short: HOSTILE}})["entity_id"]
    other = agent.entity(f"x{HOSTILE[:120]}")
    told = {"subject": HOSTILE[:190], "predicate": short, "scope": short, "tags": [short]}
    facts = [agent.fact(f"{HOSTILE}{n}", entity_id=entity, **told) for n in range(2)]
    # A rule that hides words would wait for a person, and take no marks meanwhile.
    seen = HOSTILE.replace("\u202e", "")
    rule = agent.send("/rules", {"content": seen, "scope": short, "tags": []})["id"]
    for _ in range(3):
        agent.send(f"/rules/{rule}/harmful", {"reason": HOSTILE})
    episode = agent.send("/episodes", {"content": HOSTILE})["id"]
    page = new_context().new_page()
    agent.sign_in(page)
    for path in (
        "/memory", "/memory/search?q=harmed", HOME, f"{HOME}/facts", f"{HOME}/rules",
        f"{HOME}/episodes", f"{HOME}/entities", f"{HOME}/activity", f"{HOME}/search?q=harmed",
        *(f"{HOME}/facts/{fact}" for fact in facts), f"{HOME}/rules/{rule}",
        f"{HOME}/episodes/{episode}", f"{HOME}/entities/{entity}",
        f"{HOME}/entities/{entity}/merge?into={other}",
    ):  # fmt: skip
        page.goto(path)
        assert page.evaluate("window.harmed") is None, path
        assert page.locator("main").is_visible()
        assert page.locator("img, iframe, base, style, main a[href^='http']").count() == 0
    page.goto(f"{HOME}/context")
    page.get_by_label("Prompt").fill(HOSTILE)
    page.get_by_role("button", name="Preview").click()
    assert page.evaluate("window.harmed") is None
    page.goto(f"{HOME}/search")
    page.get_by_label("Search for").press_sequentially("harmed", delay=10)
    expect(page.locator("#results .item").first).to_be_visible()
    assert page.evaluate("window.harmed") is None


def test_the_policy_of_the_pages_stops_a_script_that_got_in(
    browser: Browser, daemon: Daemon, operator: dict[str, str]
):
    """Were a text ever not escaped, the browser itself would refuse to run it."""
    context = browser.new_context(base_url=daemon.url)
    context.add_cookies([{"name": k, "value": v, "url": daemon.url} for k, v in operator.items()])
    refused: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: refused.append(said.text))
    page.goto("/memory")
    page.evaluate("""() => {
      const added = document.createElement("div");
      document.body.append(added);
      added.innerHTML = "<img src=/static/none.png onerror='window.harmed=1'>";
      const script = document.createElement("script");
      script.textContent = "window.harmed=1";
      document.body.append(script);
    }""")
    page.wait_for_timeout(300)
    assert page.evaluate("window.harmed") is None
    assert any("Content Security Policy" in words for words in refused)
    context.close()
