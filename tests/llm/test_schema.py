"""The schemas that are sent are such as every service enforces."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import butlers
from butlers.memory.policy import consolidation
from butlers.notebook import reranker

SOURCE = Path(butlers.__file__).parent
SENT = {
    "memory/flows/consolidation/run.py": consolidation.answer_schema(),
    "notebook/reranker.py": reranker.answer_schema(5),
}
# Strict mode refuses a whole request because of a keyword it does not know.
KEYWORDS = {"type", "properties", "required", "additionalProperties", "items", "enum", "maxItems"}


def nodes(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and every schema within it."""
    yield schema
    for inner in (*schema.get("properties", {}).values(), schema.get("items")):
        if inner is not None:
            yield from nodes(inner)


@pytest.mark.parametrize("schema", SENT.values(), ids=SENT)
def test_every_object_is_closed_and_every_property_required(schema: dict[str, Any]):
    objects = [node for node in nodes(schema) if node["type"] == "object"]
    assert len(objects) > 1
    for node in objects:
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])


@pytest.mark.parametrize("schema", SENT.values(), ids=SENT)
def test_every_keyword_is_known_in_strict_mode(schema: dict[str, Any]):
    assert {keyword for node in nodes(schema) for keyword in node} <= KEYWORDS


def asks_with_a_schema(node: ast.AST) -> bool:
    """Whether this is a call that asks a model for an answer of its own schema."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(".complete")
        # One that only hands on what it was given has none of its own.
        and any(k.arg == "schema" and ast.unparse(k.value) != "schema" for k in node.keywords)
    )


def test_no_other_schema_is_sent():
    asking = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(map(asks_with_a_schema, ast.walk(ast.parse(path.read_text("utf-8")))))
    }
    assert asking == set(SENT)
