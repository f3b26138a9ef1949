"""A JSON schema on its way to a runtime, and an answer on its way back."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from butlers.llm.completion import Completion
from butlers.llm.envelopes import json_text, parse_json

Schema = Mapping[str, Any]

_MAX_REFERENCES = 16
_NULL = {"type": "null"}
_NAMED = frozenset({"properties", "$defs", "definitions"})
_LISTED = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
# Strict mode refuses a whole request because of one of these.
_UNSUPPORTED = frozenset(
    {
        *("default", "examples", "$schema", "$id", "not", "if", "then", "else"),
        *("minLength", "maxLength", "uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "patternProperties", "propertyNames"),
        *("unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas"),
    }
)


def instruction(schema: Schema) -> str:
    """The sentence that asks for the schema where no runtime enforces it."""
    return (
        "Answer with one JSON value and nothing else: no explanation and no code fence. "
        f"It must fit this JSON Schema:\n{json.dumps(schema, ensure_ascii=False)}\n"
    )


def strict(schema: Schema) -> dict[str, Any]:
    """The schema in strict mode: objects closed, properties required, optional ones nullable."""
    return dict(_strict_node(schema))


def _strict_node(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node:
        named = [key for key in ("$defs", "definitions") if key in node]
        return {"$ref": node["$ref"]} | {key: _strict_child(key, node[key]) for key in named}
    kept = {key: _strict_child(key, node[key]) for key in node if key not in _UNSUPPORTED}
    if "oneOf" in kept:
        kept["anyOf"] = kept.pop("oneOf")
    if len(kept.get("allOf", ())) == 1:
        kept = kept.pop("allOf")[0] | kept
    is_object = "properties" in node or "object" in _types(node)
    return kept | _closed(node, kept) if is_object else kept


def _strict_child(key: str, value: Any) -> Any:
    if key in _NAMED:
        return {name: _strict_node(child) for name, child in value.items()}
    if key in _LISTED:
        return [_strict_node(child) for child in value]
    return _strict_node(value) if key == "items" else value


def _closed(node: Schema, kept: dict[str, Any]) -> dict[str, Any]:
    required = set(node.get("required", ()))
    properties = {
        name: child if name in required or _accepts_null(child) else {"anyOf": [child, _NULL]}
        for name, child in kept.get("properties", {}).items()
    }
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


def _types(node: Schema) -> list[Any]:
    types = node.get("type", [])
    return types if isinstance(types, list) else [types]


def _accepts_null(node: Any) -> bool:
    if not isinstance(node, Mapping):
        return True
    branches = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    if branches:
        return any(map(_accepts_null, branches))
    if "$ref" in node:
        return False
    if "enum" in node or "const" in node:
        return None in [*node.get("enum", ()), node.get("const", "")]
    return not _types(node) or "null" in _types(node)


def fitted(completion: Completion, schema: Schema | None) -> Completion:
    """The completion as the schema before `strict`, if there was one, has it."""
    if schema is None:
        return completion
    return replace(completion, text=without_added_nulls(completion.text, schema))


def without_added_nulls(answer: str, schema: Schema) -> str:
    """The answer as the schema before `strict` has it: without nulls for absent properties.

    An answer that is not JSON is handed back as it is.
    """
    try:
        return json_text(_fitted(parse_json(answer), schema, schema))
    except (ValueError, RecursionError):
        return answer


def _fitted(value: Any, node: Schema, root: Schema) -> Any:
    node = _resolved(node, root)
    if isinstance(value, list):
        return [_fitted(item, node.get("items", {}), root) for item in value]
    if isinstance(value, dict):
        return {
            name: _fitted(child, node.get("properties", {}).get(name, {}), root)
            for name, child in value.items()
            if child is not None or not _stands_for_absent(name, node, root)
        }
    return value


def _stands_for_absent(name: str, node: Schema, root: Schema) -> bool:
    properties = node.get("properties", {})
    if name not in properties or name in node.get("required", ()):
        return False
    declared = properties[name]
    return not _accepts_null(declared) and not _accepts_null(_resolved(declared, root))


def _resolved(node: Any, root: Schema) -> Schema:
    """The node behind references, and behind a union with null alone."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(node, Mapping):
            return {}
        others = [branch for branch in node.get("anyOf", ()) if branch != _NULL]
        if "$ref" in node:
            node = _referenced(node["$ref"], root)
        elif len(others) == 1:
            node = others[0]
        else:
            return node
    return {}


def _referenced(reference: str, root: Schema) -> Any:
    node: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        node = node.get(step, {}) if step and isinstance(node, Mapping) else node
    return node
