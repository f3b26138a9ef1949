"""Schemas on the way out, answers on the way back."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from butlers.llm.schema import strict, without_added_nulls


class Tag(BaseModel):
    name: str
    weight: float = 1.0


class Fact(BaseModel):
    subject: str = Field(min_length=1, max_length=100)
    permanence: str = "standard"
    note: str | None = None
    tag: Tag | None = None
    default: Tag = Tag(name="x")
    tags: list[Tag] = []


SCHEMA = Fact.model_json_schema()


def objects(node: Any) -> list[dict[str, Any]]:
    """Every object schema below the node."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    below = [found for child in children for found in objects(child)]
    here = isinstance(node, dict) and node.get("type") == "object"
    return [node, *below] if here else below


def test_every_object_is_closed_and_every_property_required():
    found = objects(strict(SCHEMA))
    assert len(found) == 2
    for node in found:
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])


def test_what_was_optional_may_be_null_and_what_was_required_may_not():
    properties = strict(SCHEMA)["properties"]
    assert properties["subject"] == {"title": "Subject", "type": "string"}
    assert {"type": "null"} in properties["permanence"]["anyOf"]
    assert properties["default"] == {"anyOf": [{"$ref": "#/$defs/Tag"}, {"type": "null"}]}
    assert properties["note"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_keywords_that_strict_mode_refuses_are_gone_but_not_properties_of_that_name():
    text = json.dumps(strict(SCHEMA))
    assert "minLength" not in text and "maxLength" not in text
    assert "default" in strict(SCHEMA)["properties"]
    assert "default" not in strict(SCHEMA)["properties"]["permanence"]


def test_the_given_schema_is_left_alone():
    before = json.dumps(SCHEMA)
    strict(SCHEMA)
    assert json.dumps(SCHEMA) == before


def test_one_of_and_single_all_of_become_what_is_supported():
    schema = {"allOf": [{"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}}]}
    assert strict(schema) == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"anyOf": [{"type": "string"}]}, {"type": "null"}]}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_an_answer_in_strict_mode_fits_the_model_again():
    answer = {
        "subject": "Alice",
        "permanence": None,
        "note": None,
        "tag": {"name": "t", "weight": None},
        "default": None,
        "tags": [{"name": "u", "weight": None}, {"name": "v", "weight": 2.0}],
    }
    fitted = json.loads(without_added_nulls(json.dumps(answer), SCHEMA))
    assert fitted == {
        "subject": "Alice",
        "note": None,
        "tag": {"name": "t"},
        "tags": [{"name": "u"}, {"name": "v", "weight": 2.0}],
    }
    assert Fact.model_validate(fitted).permanence == "standard"


@pytest.mark.parametrize("text", ["", "no JSON", "[" * 100_000, '{"a":' * 5_000, "NaN", "9" * 5000])
def test_an_answer_that_is_no_json_is_handed_back(text: str):
    assert without_added_nulls(text, SCHEMA) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda child: st.lists(child) | st.dictionaries(st.text(), child),
)


@settings(max_examples=50, deadline=None)
@given(JSON)
def test_any_json_survives_but_for_nulls(value: Any):
    fitted = json.loads(without_added_nulls(json.dumps(value), SCHEMA))
    if not isinstance(value, dict):
        assert fitted == value
    else:
        assert {name for name in value if value[name] is not None} <= set(fitted)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcdef"), unique=True), st.data())
def test_leaving_properties_out_and_giving_null_are_the_same(names: list[str], data: Any):
    fields: dict[str, Any] = {name: (int, 0) for name in names}
    model = create_model("Sample", **fields)
    given_values = {name: data.draw(st.none() | st.integers()) for name in names}
    fitted = json.loads(without_added_nulls(json.dumps(given_values), model.model_json_schema()))
    assert fitted == {name: v for name, v in given_values.items() if v is not None}
