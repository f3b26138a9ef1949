"""What a person does with the pages, in a real browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from browser.conftest import Agent
from browser.story import Told
from interfaces.daemons import Daemon
from interfaces.web.visitors import link_of

NewContext = Callable[..., BrowserContext]
HOME = "/butlers/general/memory"
UUID = "[0-9a-f-]{36}"


def test_signing_in_and_out(new_context: NewContext, agent: Agent):
    page = new_context().new_page()
    page.goto("/butlers/general/memory/facts")
    expect(page).to_have_url(re.compile("/sign-in"))
    page.get_by_label("Token").fill(agent.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile("/butlers/general/memory/facts$"))
    expect(page.get_by_text("No facts yet.")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    page.goto("/memory")
    expect(page).to_have_url(re.compile("/sign-in"))


def test_a_used_link_says_so(browser, daemon: Daemon, operator: dict[str, str]):
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(link_of(daemon))
    assert answer is not None and answer.status == 403
    expect(page.get_by_text("this link was already used")).to_be_visible()
    context.close()


@pytest.mark.contract("P6")
def test_the_fleet_leads_to_a_fact_by_search(page: Page, told: Told):
    page.goto("/")
    expect(page.get_by_role("heading", name="general")).to_have_count(2)  # its card and its jobs
    page.get_by_label("Search all butlers").fill("what can Ann not eat")
    page.get_by_role("button", name="Search").click()
    found = page.locator("#results")
    expect(found.get_by_text("Peanuts; carries an EpiPen")).to_be_visible()
    expect(found.get_by_text("No peanuts, not even oil")).to_be_visible()
    found.get_by_role("link", name="Ann · allergy").click()
    expect(page).to_have_url(re.compile(f"{HOME}/facts/{told.allergy}"))
    expect(
        page.get_by_text("never fades").or_(page.get_by_role("heading", name="History"))
    ).to_be_visible()


def test_search_answers_while_one_types(page: Page):
    page.goto(f"{HOME}/search")
    page.get_by_label("Search for").press_sequentially("heating", delay=20)
    expect(page.get_by_text("Turn down to 17 °C")).to_be_visible()
    expect(page).to_have_url(re.compile("q=heating"))
    expect(page.get_by_label("Search for")).to_be_focused()
    page.get_by_label("By").select_option("keyword")
    expect(page.get_by_text("keyword rank").first).to_be_visible()


@pytest.mark.contract("P7")
def test_confirming_and_correcting_a_fact_and_going_back(new_context: NewContext, agent: Agent):
    fact = agent.fact("Coffee")
    page = new_context().new_page()
    agent.sign_in(page)
    page.goto(f"{HOME}/facts")
    page.get_by_role("link", name="Ann · drink").click()
    page.locator("summary", has_text="Confirm").click()
    page.get_by_role("button", name="Yes, it is still true").click()
    expect(page.get_by_role("status").filter(has_text="Confirmed")).to_be_visible()
    expect(page.locator(".life")).to_contain_text("Fact confirmed")
    page.locator("summary", has_text="Correct").click()
    expect(page.get_by_label("Correct content")).to_have_value("Coffee")
    page.get_by_label("Correct content").fill("Tea")
    page.get_by_role("button", name="Save correction").click()
    expect(page.get_by_role("status").filter(has_text="Corrected")).to_be_visible()
    assert fact not in page.url
    expect(page.locator("article")).to_contain_text("Tea")
    expect(page.locator("svg.graph a")).to_have_count(1)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
    expect(page.locator("article")).to_contain_text("Coffee")


@pytest.mark.contract("P7")
def test_forgetting_is_asked_once_and_undone(new_context: NewContext, agent: Agent):
    fact = agent.fact()
    page = new_context().new_page()
    agent.sign_in(page)
    page.goto(f"{HOME}/facts/{fact}")
    expect(page.get_by_role("button", name="Yes, forget it")).to_be_hidden()
    page.locator("summary", has_text="Forget").click()
    page.get_by_role("button", name="Yes, forget it").click()
    expect(page.locator("article .chip").first).to_have_text("retracted")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("article .chip").first).to_have_text("active")


@pytest.mark.contract("P5", "P7")
def test_a_rule_is_marked_until_it_becomes_a_warning(new_context: NewContext, agent: Agent):
    rule = agent.send("/rules", {"content": "Call at night"})["id"]
    page = new_context().new_page()
    agent.sign_in(page)
    for reason in ("woke everybody", "rude", "again"):
        page.goto(f"{HOME}/rules/{rule}")
        page.locator("summary", has_text="Mark harmful").click()
        page.get_by_label("What harm it did").fill(reason)
        page.get_by_role("button", name="Yes, it did harm").click()
        expect(page.get_by_role("status").filter(has_text="Marked harmful")).to_be_visible()
    expect(page.get_by_role("heading", name="Anti-pattern")).to_be_visible()
    page.goto(HOME)
    expect(page.get_by_role("heading", name="Anti-patterns")).to_be_visible()


def test_two_entities_are_merged_after_a_preview(new_context: NewContext, agent: Agent):
    ann, annie = agent.entity("Ann Keller"), agent.entity("Annie K.")
    agent.fact("In May", predicate="born", entity_id=annie)
    page = new_context().new_page()
    agent.sign_in(page)
    page.goto(f"{HOME}/entities")
    page.get_by_role("link", name="Annie K.").click()
    page.get_by_label("Entity to keep").select_option(ann)
    page.get_by_role("button", name="Preview the merge").click()
    expect(page.get_by_role("heading", name="Merge Annie K. into Ann Keller?")).to_be_visible()
    page.get_by_role("button", name="Yes, merge them").click()
    expect(page).to_have_url(re.compile(f"/entities/{ann}"))
    expect(page.get_by_text("also Annie K.")).to_be_visible()
    expect(page.get_by_text("In May")).to_be_visible()


@pytest.mark.contract("P9")
def test_a_job_is_run_and_its_history_tells(page: Page):
    page.goto("/memory")
    page.get_by_role("button", name="Run decay sweep of kitchen now").click()
    expect(page.get_by_text("The job has run")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="decay sweep").filter(has_text="request")
    expect(row.first).to_contain_text("ok")


@pytest.mark.contract("P9")
def test_the_feed_moves_by_itself(new_context: NewContext, agent: Agent):
    agent.fact("Coffee", predicate="first")
    page = new_context().new_page()
    agent.sign_in(page)
    feed = page.locator("[data-feed]")
    expect(feed.locator("li")).to_have_count(1)
    agent.fact("Tea", predicate="second")
    expect(feed.locator("li")).to_have_count(2)
    expect(feed.locator("li").first).to_contain_text("predicate: second")
    expect(page.locator("#feed-status")).to_have_text("1 new event")


def test_a_feed_that_was_empty_begins_to_move(new_context: NewContext, agent: Agent):
    page = new_context().new_page()
    agent.sign_in(page)
    expect(page.get_by_text("No activity yet.")).to_be_visible()
    agent.fact()
    expect(page.locator("[data-feed] li")).to_have_count(1)
    expect(page.get_by_text("No activity yet.")).to_be_hidden()


def test_the_context_preview_shows_the_block_and_its_reasons(page: Page):
    page.goto(f"{HOME}/context")
    page.get_by_label("Prompt").fill("Plan a breakfast for Ann")
    page.get_by_label("Token budget").fill("400")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("pre.block")).to_contain_text("# Memory Context")
    expect(page.locator("pre.block")).to_contain_text("Green tea")
    expect(page.get_by_role("heading", name="Why each line is included")).to_be_visible()
    expect(page.get_by_text(re.compile(r"of 400 tokens"))).to_be_visible()


def test_old_pages_do_not_stay_in_the_cache(new_context: NewContext, agent: Agent):
    fact = agent.fact()
    page = new_context().new_page()
    agent.sign_in(page)
    page.goto(f"{HOME}/facts/{fact}")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"/sign-in\?next="))
