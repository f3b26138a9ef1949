"""The pages are fit for everybody: axe finds nothing, and nothing runs out of a phone's screen."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from browser.story import Told
from butlers.interfaces import web

NewContext = Callable[..., BrowserContext]
HOME = "/butlers/general/memory"
PHONE = {"width": 360, "height": 740}


def _axe() -> Path | None:
    """The script of axe-core, where a package brings it along."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.rglob("axe*.js"), None)


def _paths(told: Told) -> list[str]:
    return [
        "/memory", "/memory/search?q=Ann", HOME, f"{HOME}/facts?state=active", f"{HOME}/rules",
        f"{HOME}/episodes", f"{HOME}/entities", f"{HOME}/search?q=Ann", f"{HOME}/context",
        f"{HOME}/activity", f"{HOME}/jobs", f"{HOME}/facts/{told.tea}", f"{HOME}/rules/{told.rule}",
        f"{HOME}/entities/{told.ann}", f"{HOME}/entities/{told.annie}/merge?into={told.ann}",
        "/sign-in",
    ]  # fmt: skip


@pytest.mark.parametrize("viewport", [None, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing(
    new_context: NewContext, operator: dict[str, str], told: Told, viewport: dict[str, int] | None
):
    axe = _axe()
    if axe is None:
        pytest.skip("axe-core is not installed (pip install axe-playwright-python)")
    page = _patient(
        new_context(operator, **({"viewport": viewport} if viewport else {})).new_page()
    )
    violations = {path: _violations(page, path, axe) for path in _paths(told)}
    assert not {path: rules for path, rules in violations.items() if rules}


def _patient(page: Page) -> Page:
    page.set_default_timeout(30_000)
    return page


ALL_RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice']}"
# The dark scheme changes colours and nothing else (test_the_dark_scheme_changes_colours_alone).
COLOUR_RULES = "{runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}}"


def _violations(page: Page, path: str, axe: Path) -> list[str]:
    page.emulate_media(color_scheme="light")
    page.goto(path)
    # Everything that opens is opened, so that what it hides is looked at too.
    page.evaluate("document.querySelectorAll('details').forEach((one) => {"
                  " one.removeAttribute('name'); one.open = true; })")  # fmt: skip
    page.evaluate(axe.read_text(encoding="utf-8"))
    violations = page.evaluate(f"axe.run({ALL_RULES})")["violations"]
    page.emulate_media(color_scheme="dark")
    violations += page.evaluate(f"axe.run({COLOUR_RULES})")["violations"]
    return [_told(one) for one in violations]


def _told(violation: dict[str, Any]) -> str:
    nodes = [
        f"{node['html'][:160]} {node.get('failureSummary', '')}" for node in violation["nodes"]
    ]
    return f"{violation['id']}: {nodes}"


def test_the_dark_scheme_changes_colours_alone():
    style = (Path(web.__file__).parent / "static" / "style.css").read_text(encoding="utf-8")
    _, dark = style.split("@media (prefers-color-scheme: dark) {")
    block = dark[: dark.index("\n}")].strip()
    assert block.startswith(":root {") and block.endswith("}")
    assert all(line.strip().startswith("--") for line in block.splitlines()[1:-1])


def test_nothing_runs_out_of_a_phones_screen(
    new_context: NewContext, operator: dict[str, str], told: Told
):
    page = new_context(operator, viewport=PHONE).new_page()
    for path in _paths(told):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path


def test_every_field_has_a_label_and_every_page_a_title_and_a_language(page: Page, told: Told):
    unlabelled = """() => [...document.querySelectorAll(
      'input:not([type=hidden]), select, textarea')].filter((one) => one.labels.length === 0
      && !one.ariaLabel).map((one) => one.outerHTML)"""
    for path in _paths(told):
        page.goto(path)
        assert page.evaluate(unlabelled) == [], path
        assert page.title().endswith("· Butlers") and len(page.title()) > len("· Butlers")
        assert page.evaluate("document.documentElement.lang") == "en"
        assert page.locator("main").count() == 1 and page.locator("h1").count() == 1
