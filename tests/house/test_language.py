"""How the code names things: one name for one thing, in words that others use too."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = {
    path: ast.parse(path.read_text("utf-8"))
    for package in ("butlers", "butlers_cluster")
    for path in sorted((ROOT / "src" / package).rglob("*.py"))
}
# Participles that stand for a thing say nothing of it; metaphors only their maker understands.
PARTICIPLES = {
    "told", "said", "asked", "found", "looked", "held", "kept", "shown", "stored", "standing",
    "place", "placed", "known", "seen", "given",
}  # fmt: skip
METAPHORS = {
    "wall", "door", "desk", "seat", "hands", "sight", "clock_sources", "heir", "rivals", "arrivals",
    "household", "glance", "anchoring", "legs",
}  # fmt: skip
# Modules of one name in several packages: the same subject, at another layer.
SUBJECTS = {
    "batch": "storing many memories at once",
    "browse": "listing memories",
    "butler": "one butler",
    "candidates": "memories that may answer a query",
    "conflicts": "facts that contradict each other",
    "consolidation": "learning from episodes",
    "context": "the block for an agent's prompt",
    "database": "a butler's database",
    "decisions": "what was settled in sessions",
    "entities": "entities",
    "entity_resolution": "the entity that a name means",
    "erase": "erasing",
    "feedback": "confirming, marking, forgetting",
    "fleet": "all butlers together",
    "handle": "what a module's flows work with",
    "inbox": "what waits for a person",
    "injections": "what sessions were given",
    "jobs": "jobs",
    "lease": "time-limited claims",
    "links": "links between memories",
    "logs": "the log",
    "memories": "episodes, facts and rules alike",
    "model": "the types of a module",
    "module": "a module of a butler",
    "portability": "export, import, erase",
    "portable": "rows on their way out and in",
    "projects": "projects",
    "proposals": "changes that wait for approval",
    "quarantine": "memories that wait for a person",
    "repeats": "what is said again",
    "results": "what callers get back",
    "search": "searching",
    "sections": "sections of settings",
    "sessions": "sessions",
    "settings": "the settings of a module",
    "sign_in": "signing in",
    "status": "whether a home is served",
    "tokens": "tokens",
    "check": "checking what is stored",
    "trust": "how far a memory is trusted",
    "undo": "undoing a source",
}


def in_plain_words(name: str) -> bool:
    return name.strip("_").lower() not in PARTICIPLES | METAPHORS


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT / "src"))


def definitions(*kinds: type[ast.AST]) -> list[tuple[Path, str]]:
    """The file and name of everything of these kinds that a module defines at its top."""
    return [
        (path, node.name)
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, kinds)
    ]


def test_no_public_class_name_stands_twice():
    names = Counter(name for _, name in definitions(ast.ClassDef) if not name.startswith("_"))
    assert {name: times for name, times in names.items() if times > 1} == {}


def test_classes_functions_and_modules_are_named_in_plain_words():
    named = definitions(ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    named += [(path, path.stem) for path in TREES]
    assert [f"{shown(path)} {name}" for path, name in named if not in_plain_words(name)] == []


def test_a_module_name_stands_for_one_subject():
    places = defaultdict(list)
    for path in TREES:
        if not path.stem.startswith("__"):
            places[path.stem].append(shown(path))
    several = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {name: paths for name, paths in several.items() if name not in SUBJECTS} == {}
    assert sorted(SUBJECTS.keys() - several.keys()) == [], "no longer several"


def test_few_functions_take_more_than_six_parameters():
    """What travels together is an object."""
    excused = [
        f"{shown(path)}:{number}"
        for path in TREES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "PLR0913" in line
    ]
    assert len(excused) <= 7, excused


def test_the_map_of_the_house_is_short():
    assert len((ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines()) < 150


def test_what_is_unreleased_is_told_in_lines():
    _, _, after = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("## Unreleased\n")
    unreleased = after.partition("\n## ")[0]
    entries = [line for line in unreleased.splitlines() if line.strip()]
    lines = [line for line in entries if line.startswith("- ")]
    assert 0 < len(lines) <= 60
    assert [line for line in entries if not line.startswith(("- ", "### "))] == []
