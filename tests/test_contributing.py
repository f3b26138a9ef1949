"""The documents name files, commands and settings that exist."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / name
    for name in ("CONTRIBUTING.md", "ARCHITECTURE.md", "README.md", "CHANGELOG.md", "SECURITY.md")
]
PAGES = [*DOCUMENTS, ROOT / "CODE_OF_CONDUCT.md", *sorted((ROOT / "docs").glob("*.md"))]
GITHUB = ROOT / ".github"
DECISIONS = ROOT / "docs" / "decisions"
RECORDS = sorted(DECISIONS.glob("[0-9]*.md"))
MAKEFILE = (ROOT / "Makefile").read_text()


def text_of(documents: list[Path]) -> str:
    return "\n".join(document.read_text() for document in documents)


def test_every_target_of_make_that_is_named_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(code_of(text_of(DOCUMENTS)))))
    assert {"one", "test", "check", "hooks"} <= named
    known = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    assert named - known == set()


def code_of(text: str) -> list[str]:
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [*blocks, *re.findall(r"`([^`\n]+)`", text)]


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, DECISIONS / "README.md", *RECORDS], ids=lambda p: p.name
)
def test_every_file_that_is_named_exists(document: Path) -> None:
    text = document.read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / link).exists(), link
    named = re.findall(r"`((?:[\w.-]+/)+[\w-]*(?:\.\w+)?|[\w/]+\.(?:py|sql))`", text)
    missing = [name for name in named if not is_there(name)]
    assert set(missing) == set()


def is_there(name: str) -> bool:
    """Whether it is a path of the checkout, of the source, or of a package of the source."""
    source = ROOT / "src" / "butlers"
    places = (ROOT, ROOT / "src", source, source / "memory", source / "memory" / "migrations")
    return any((place / name).exists() for place in places)


def test_a_file_that_is_not_there_would_be_noticed() -> None:
    assert is_there("memory/flows/") and is_there("model.py") and is_there("tests/house")
    assert not is_there("memory/flows/levitate.py")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_its_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text())
    for name, anchor in links:
        target = page.parent / name if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors_of(target), f"{name}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`\[([a-z_.]+)\] ([a-z_]+)\b", page.read_text())
    assert [f"[{table}] {key}" for table, key in named if key not in SETTINGS[table]] == []


def settings_by_table() -> dict[str, set[str]]:
    """The keys of each table of the reference."""
    text = (ROOT / "docs" / "settings.md").read_text()
    _, *parts = re.split(r"^## `\[([a-z_.]+)\]`$", text, flags=re.MULTILINE)
    keys = (re.findall(r"^\| `(\w+)", part, re.MULTILINE) for part in parts[1::2])
    return dict(zip(parts[::2], map(set, keys), strict=True))


SETTINGS = settings_by_table()


def test_a_heading_that_is_not_there_would_be_noticed() -> None:
    assert "run-tests" in anchors_of(ROOT / "CONTRIBUTING.md")
    assert "levitate" not in anchors_of(ROOT / "CONTRIBUTING.md")


def test_ci_runs_what_make_test_runs() -> None:
    workflow = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert job["steps"][-1]["run"] == "make test"


def test_every_issue_form_asks_something() -> None:
    forms = [yaml.safe_load(file.read_text()) for file in GITHUB.glob("ISSUE_TEMPLATE/*.yml")]
    bodies = [form["body"] for form in forms if "body" in form]
    assert len(bodies) == 3
    for body in bodies:
        ids = [part["id"] for part in body if part["type"] != "markdown"]
        assert ids and len(ids) == len(set(ids))


def test_the_unreleased_changes_are_short() -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1].splitlines()
    entries = [line for line in unreleased[1:] if line and not line.startswith("### ")]
    assert all(line.startswith("- ") and len(line) <= 150 for line in entries)
    assert len(entries) <= 60


def test_decisions_are_numbered_in_order_and_each_is_in_the_index() -> None:
    index = (DECISIONS / "README.md").read_text()
    assert len(RECORDS) >= 15
    for number, record in enumerate(RECORDS, 1):
        title = record.read_text().splitlines()[0].removeprefix(f"# {number}. ")
        assert record.name.startswith(f"{number:04d}-")
        assert f"{number}. [{title}]({record.name})" in index


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem[:4])
def test_a_decision_is_short_and_says_why_what_and_what_follows(record: Path) -> None:
    text = record.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
    assert len(text) < 1_800


def test_hooks_run_the_checks_from_here_and_fetch_nothing() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    programs = [hook["entry"].split(" -")[0] for hook in repository["hooks"]]
    assert all(hook["language"] == "system" for hook in repository["hooks"])
    checks = re.search(r"^check:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert checks is not None
    checked = [line.strip().removeprefix("@$(BIN)/") for line in checks[1].splitlines()]
    wanted = [line.split(" -")[0].removesuffix(" .") for line in checked]
    assert [program.removeprefix(".venv/bin/") for program in programs] == wanted


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("tests/memory/test_recall.py", "pytest 'tests/memory/test_recall.py'"),
        ("tests/a.py::test_b[x y]", "pytest 'tests/a.py::test_b[x y]'"),
        ("decay or rise", "pytest -k 'decay or rise'"),
    ],
)
def test_one_test_is_chosen_by_path_by_id_or_by_a_word(given: str, chosen: str) -> None:
    command = ["make", "--dry-run", "one", f"T={given}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert chosen in " ".join(result.stdout.split())


def test_without_a_choice_it_is_said_how_to_choose() -> None:
    result = subprocess.run(["make", "one"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "make one T=tests/" in result.stderr


def test_the_version_is_released_in_the_changelog_below_what_is_not() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(r"0\.1\.0 – \d{4}-\d\d-\d\d", headings[1])
