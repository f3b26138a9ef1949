"""Documents as everybody can pass them on, however deep they are."""

import json
from typing import Any

import pytest

from butlers.kernel.json_values import DEEPEST, TOO_DEEP, is_deeper, shallow_json


def nested(depth: int, in_objects: bool) -> Any:
    value: Any = "innermost"
    for _ in range(depth):
        value = {'a"]{\\': value, "b": 1} if in_objects else [1, value, "}"]
    return value


@pytest.mark.parametrize("depth", [0, 1, DEEPEST - 1, DEEPEST, DEEPEST + 1, 253])
@pytest.mark.parametrize("in_objects", [True, False])
def test_what_is_not_too_deep_is_left_as_it_is(depth: int, in_objects: bool) -> None:
    value = nested(depth, in_objects)
    read = shallow_json(json.dumps(value))
    assert not is_deeper(read, DEEPEST)
    assert (read == value) == (depth <= DEEPEST) == (not is_deeper(value, DEEPEST))
    assert (TOO_DEEP in str(read)) == (depth > DEEPEST)


def test_what_stands_beside_something_too_deep_is_kept() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    read = shallow_json(f'{{"deep": {deep}, "beside": [1, {{"a": "]"}}]}}')
    assert read["beside"] == [1, {"a": "]"}]
