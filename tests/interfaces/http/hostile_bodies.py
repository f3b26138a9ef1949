"""Requests that nobody would mean, made from what an API says it takes."""

import json
import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

JSON = "application/json"
KEYS = ("metadata", "content", "limit", "filters", "", "__proto__", "a\x00b", "x" * 300)
WORDS = ("", " ", "\x00", "x" * 70_000, "\ud800", "𝒳\u202e", "null", "[]", "-1", "2026-13-45",
         "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "%00", "'; drop table facts; --",
         "../../etc/passwd", "fact", "hybrid", "global")  # fmt: skip
NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.1, -0.0, 1e308, float("nan"),
           float("inf"), True)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request: a path with what fills it in, a query and a body."""

    method: str
    path: str
    query: list[tuple[str, str]]
    body: bytes
    kind: str


def hostile_requests(spec: Mapping[str, Any], count: int, seed: int = 14) -> Iterator[Request]:
    """So many, each route in turn; the same for the same seed."""
    draw = random.Random(seed)
    routes = [(path, method, what) for path, doors in spec["paths"].items()
              for method, what in doors.items()]  # fmt: skip
    for number in range(count):
        path, method, what = routes[number % len(routes)]
        yield _request(draw, spec, path, method, what)


def _request(
    draw: random.Random, spec: Mapping[str, Any], path: str, method: str, what: Mapping[str, Any]
) -> Request:
    query = []
    for parameter in what.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", _place(draw, parameter["name"]))
        elif draw.random() < 0.6:
            query.append((parameter["name"], _text(_value(draw, parameter["schema"], spec))))
    asked = what.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema")
    document = _value(draw, asked, spec) if asked else _nonsense(draw)
    kind = draw.choice((JSON, JSON, JSON, JSON, "text/plain", "application/json; charset=utf-16"))
    return Request(method.upper(), path, query, _written(draw, document), kind)


def _place(draw: random.Random, name: str) -> str:
    if name == "name":
        return "general"
    return str(draw.choice((uuid.UUID(int=draw.getrandbits(128)), "x", "%00", "a%20b", "-1")))


def _value(draw: random.Random, schema: Mapping[str, Any], spec: Mapping[str, Any]) -> Any:
    """What a schema asks for, or something else one time in three."""
    if draw.random() < 0.3:
        return _nonsense(draw)
    if "$ref" in schema:
        return _value(draw, _resolved(schema["$ref"], spec), spec)
    if "anyOf" in schema:
        return _value(draw, draw.choice(schema["anyOf"]), spec)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    return _of_type(draw, schema, spec)


def _of_type(draw: random.Random, schema: Mapping[str, Any], spec: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "object" if "properties" in schema:
            asked = schema["properties"].items()
            return {key: _value(draw, inner, spec) for key, inner in asked if draw.random() < 0.8}
        case "array":
            inner = schema.get("items", {})
            return [_value(draw, inner, spec) for _ in range(draw.choice((0, 1, 3)))]
        case "integer" | "number":
            return draw.choice((1, 5, 10))
        case "string" if schema.get("format") == "uuid":
            return str(uuid.UUID(int=draw.getrandbits(128)))
        case "string":
            return draw.choice(("Ann", "likes", "tea in the morning", "standard"))
        case "boolean":
            return draw.random() < 0.5
    return _nonsense(draw)


def _resolved(reference: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = spec
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _nonsense(draw: random.Random) -> Any:
    match draw.randrange(6):
        case 0:
            return draw.choice(WORDS)
        case 1:
            return draw.choice(NUMBERS)
        case 2:
            return None
        case 3:
            return _nested(draw.choice((3, 31, 33, 253, 600)), draw.random() < 0.5)
        case 4:
            return [draw.choice(WORDS) for _ in range(draw.choice((0, 2, 500)))]
        case _:
            return {draw.choice(KEYS): draw.choice(NUMBERS) for _ in range(3)}


def _nested(depth: int, in_objects: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"deep": value} if in_objects else [value]
    return value


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:4_000].encode("utf-8", "replace").decode()


def _written(draw: random.Random, document: Any) -> bytes:
    """As JSON, four times in five."""
    written = json.dumps(document).encode()
    return draw.choice((written,) * 8 + (written[: len(written) // 2], b"[" * 50_000, b"\xff\xfe"))
