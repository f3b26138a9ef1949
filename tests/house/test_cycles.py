"""No two modules import each other, be it when they run or for types alone."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import butlers

SOURCE = Path(butlers.__file__).parents[1]


def name_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """Every module of ours that is imported anywhere in a file, in functions and for types too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known or {node.module}
    return found & known


def graph(sources: dict[str, str]) -> dict[str, set[str]]:
    known = set(sources)
    return {name: imported(ast.parse(text), known) - {name} for name, text in sources.items()}


def test_no_module_leads_back_to_itself() -> None:
    sources = {name_of(file): file.read_text() for file in SOURCE.rglob("*.py")}
    assert len(sources) > 200 and "butlers_cluster.move" in sources
    # `from butlers import open_memory` is for programs, and loaded only when they ask.
    sources["butlers"] = ""
    tuple(TopologicalSorter(graph(sources)).static_order())  # a CycleError names the circle


def test_a_circle_would_be_noticed() -> None:
    circle = {
        "butlers.a": "def f():\n    from butlers import b",
        "butlers.b": "if TYPE_CHECKING:\n    from butlers.a import x",
    }
    try:
        tuple(TopologicalSorter(graph(circle)).static_order())
    except CycleError as error:
        assert set(error.args[1]) == {"butlers.a", "butlers.b"}
    else:
        raise AssertionError("the circle was passed over")
