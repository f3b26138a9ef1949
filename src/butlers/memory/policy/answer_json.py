"""Find the JSON object in a model's answer, whatever text surrounds it."""

import json
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

MAX_ANSWER = 1_000_000
# Bounds the work for an answer full of braces; one that is never closed costs most.
_MAX_TRIES = 20
_MAX_UNCLOSED = 3

_FENCE = re.compile(r"```[ \t]*+json\s*+(?=\{)", re.IGNORECASE)
_MARK = re.compile(r'[{}"\\]')


def find_object(text: str, wanted: frozenset[str]) -> tuple[dict[str, Any], str | None]:
    """Return the first object with a wanted key, fenced ones first; else what is wrong."""
    if len(text) > MAX_ANSWER:
        return {}, f"The consolidation output is longer than {MAX_ANSWER} characters"
    fault = "No JSON block found in consolidation output"
    for block in islice(chain(_fenced(text), _bare(text)), _MAX_TRIES):
        try:
            answer = json.loads(block, strict=False, object_pairs_hook=_without_duplicates)
        except (ValueError, RecursionError):
            fault = "Invalid JSON in consolidation output"
            continue
        if not wanted.isdisjoint(answer):
            return answer, None
        fault = f"The JSON block holds none of {', '.join(sorted(wanted))}"
    return {}, fault


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields


def _fenced(text: str) -> Iterator[str]:
    """Yield the object at the start of each fenced block."""
    for fence in islice(_FENCE.finditer(text), _MAX_UNCLOSED):
        end = _balanced_end(text, fence.end())
        if end is not None:
            yield text[fence.end() : end]


def _bare(text: str) -> Iterator[str]:
    """Yield every outermost balanced pair of braces, in order."""
    begin, unclosed = text.find("{"), 0
    while begin >= 0 and unclosed < _MAX_UNCLOSED:
        end = _balanced_end(text, begin)
        if end is None:
            unclosed += 1
        else:
            yield text[begin:end]
        begin = text.find("{", end or begin + 1)


def _balanced_end(text: str, begin: int) -> int | None:
    """Return where the object that begins here ends; braces inside its texts do not count."""
    depth, in_text, escaped_at = 0, False, -1
    for mark in _MARK.finditer(text, begin):
        at, char = mark.start(), mark[0]
        if at == escaped_at:
            continue
        if char == '"':
            in_text = not in_text
        elif in_text:
            escaped_at = at + 1 if char == "\\" else -1
        elif char != "\\":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return mark.end()
    return None
