"""Reading a consolidation's answer, whatever it says."""

import dataclasses
import json
import time
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butlers.memory.model import Permanence
from butlers.memory.policy.consolidation_parser import (
    LISTS,
    MAX_ACTIONS,
    ConsolidationResult,
    NewFactEntry,
    parse_consolidation,
)
from memory.scripted_model import answer, fact

ANN = fact("Ann", "likes", "Ann likes tea")
ID = "3f2b8a4e-0000-4000-8000-000000000001"
NO_JSON = "No JSON block found in consolidation output"


def wants_something(result: ConsolidationResult) -> bool:
    return dataclasses.replace(result, parse_errors=()) != ConsolidationResult()


def facts_in(text: str) -> list[str]:
    return [fact.content for fact in parse_consolidation(text).new_facts]


# Finding the JSON


@pytest.mark.contract("R13.1")
@pytest.mark.parametrize(
    "text",
    [
        f"Here it is:\n```json\n{answer(new_facts=[ANN])}\n```\nDone.",
        f"```JSON\r\n{answer(new_facts=[ANN])}\r\n```",
        f'I first thought {{"new_facts": []}} but\n```json\n{answer(new_facts=[ANN])}```',
        f"```json\n{answer(new_facts=[ANN])}",
        f'```\nplain\n``` then ```json\n{{"broken": \n```\n```json\n{answer(new_facts=[ANN])}\n```',
    ],
)
def test_a_fenced_block_is_read(text):
    result = parse_consolidation(text)
    assert result.new_facts == (NewFactEntry("Ann", "likes", "Ann likes tea"),)
    assert result.parse_errors == ()


@pytest.mark.contract("R13.1")
def test_a_fence_inside_a_text_ends_nothing():
    code = 'run ```sh\nmake``` and } or { then \\ and " stay'
    text = f"```json\n{answer(new_facts=[fact('Ann', 'runs', code)])}\n```"
    assert facts_in(text) == [code]


@pytest.mark.contract("R13.2")
@pytest.mark.parametrize(
    "text",
    [
        answer(new_facts=[ANN]),
        f"Sure! {answer(new_facts=[ANN])} Anything else?",
        f"A set {{a, b}} and an empty {{}} first, then {answer(new_facts=[ANN])}",
        f'An unclosed {{"brace, then {answer(new_facts=[ANN])}',
        json.dumps({"new_facts": [ANN]}, indent=2),
    ],
)
def test_a_bare_object_is_read(text):
    assert facts_in(text) == ["Ann likes tea"]


@pytest.mark.contract("R13.2")
def test_the_outermost_braces_are_meant():
    inner = {"new_facts": [fact("Eve", "likes", "noise")]}
    text = json.dumps({"new_facts": [ANN], "note": inner})
    assert facts_in(text) == ["Ann likes tea"]


@pytest.mark.contract("R13.6", "L10")
@pytest.mark.parametrize(
    "text", ["", "   ", "Nothing to report.", "[1, 2]", "} { ", "```json\n```"]
)
def test_no_json_is_an_empty_result_that_says_so(text):
    assert parse_consolidation(text) == ConsolidationResult(parse_errors=(NO_JSON,))


@pytest.mark.contract("L10")
@pytest.mark.parametrize(
    "text",
    [
        "{not json}",
        answer(new_facts=[ANN])[:-1] + ", }",
        '{"new_facts": [], "new_facts": []}',
        '{"new_facts": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"importance": ' + "9" * 5_000 + ', "new_facts": []}',
    ],
)
def test_invalid_json_is_an_empty_result_that_says_so(text):
    result = parse_consolidation(text)
    assert not wants_something(result)
    assert result.parse_errors == ("Invalid JSON in consolidation output",)


@pytest.mark.contract("L10")
@pytest.mark.parametrize(
    "text", ['{"facts": []}', "a set {} of none", '{"new_facts": [' + json.dumps(ANN)]
)
def test_an_object_without_any_of_the_lists_is_no_answer(text):
    """A piece of an answer that was cut off must not count as one with nothing to extract."""
    result = parse_consolidation(text)
    assert not wants_something(result)
    assert "holds none of" in result.parse_errors[0]


@pytest.mark.contract("L10")
def test_a_valid_answer_may_have_nothing_to_extract():
    assert parse_consolidation(answer()) == ConsolidationResult()
    assert parse_consolidation('{"new_facts": null}') == ConsolidationResult()


@pytest.mark.contract("L28")
@pytest.mark.parametrize("text", ["{}", " {\n} ", "[]", "```json\n{}\n```", "```\n{ }```"])
def test_an_empty_object_means_nothing_to_extract(text):
    assert parse_consolidation(text) == ConsolidationResult()


def test_what_was_shown_is_meant_by_its_number():
    shown = {1: uuid.UUID(ID), 2: uuid.UUID(int=2)}
    said = answer(
        new_facts=[{**ANN, "source_episode_ids": [1, "2", 3, True, "x"]}],
        updated_facts=[{"target_id": "#2", **ANN}],
        confirmations=[2, ID, 9],
        nothing_in=[1],
    )
    result = parse_consolidation(said, shown)
    assert result.new_facts[0].sources == (shown[1], shown[2])
    assert result.updated_facts[0].target_id == shown[2]
    assert result.confirmations == (shown[2], shown[1]) and result.nothing_in == (shown[1],)
    (fault,) = result.parse_errors
    assert "confirmations[2]" in fault and "a number that was shown" in fault


# Entries


@pytest.mark.contract("R13.3")
@pytest.mark.parametrize("missing", ["subject", "predicate", "content"])
@pytest.mark.parametrize("value", [None, "", "  \n", "\x00", 7, ["Ann"], {}])
def test_a_new_fact_needs_its_three_texts(missing, value):
    text = answer(new_facts=[{**ANN, missing: value}, ANN])
    result = parse_consolidation(text)
    assert [fact.content for fact in result.new_facts] == ["Ann likes tea"]
    assert len(result.parse_errors) == 1
    assert result.parse_errors[0].startswith(f"new_facts[0]: {missing}: ")


@pytest.mark.contract("R13.3")
@pytest.mark.parametrize("missing", ["subject", "predicate", "content"])
def test_a_new_fact_without_a_text_is_reported(missing):
    entry = {key: value for key, value in ANN.items() if key != missing}
    result = parse_consolidation(answer(new_facts=[entry]))
    assert result.new_facts == ()
    assert result.parse_errors == (f"new_facts[0]: {missing}: must be a text",)


@pytest.mark.contract("R13.3")
@pytest.mark.parametrize(
    ("given_permanence", "read"),
    [
        ({}, Permanence.STANDARD),
        ({"permanence": "eternal"}, Permanence.STANDARD),
        ({"permanence": 5}, Permanence.STANDARD),
        ({"permanence": ["stable"]}, Permanence.STANDARD),
        ({"permanence": "stable"}, Permanence.STABLE),
    ],
)
def test_permanence_falls_back_to_standard(given_permanence, read):
    (entry,) = parse_consolidation(answer(new_facts=[{**ANN, **given_permanence}])).new_facts
    assert entry.permanence is read


@pytest.mark.contract("R13.3")
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("0", 1.0), ("-3", 1.0), ("1.0", 1.0), ("7.5", 7.5), ("10", 10.0), ("11", 10.0),
        ("1e400", 10.0), ("-Infinity", 1.0), ("1" + "0" * 400, 10.0), ("NaN", 5.0),
        ('"8"', 5.0), ("true", 5.0), ("null", 5.0),
    ],
)  # fmt: skip
def test_importance_is_brought_within_bounds(written, read):
    entry = json.dumps(ANN)[:-1] + f', "importance": {written}}}'
    (found,) = parse_consolidation(f'{{"new_facts": [{entry}]}}').new_facts
    assert found.importance == read


@pytest.mark.contract("R13.3")
@pytest.mark.parametrize(
    ("tags", "read"),
    [
        (None, ()), ("drinks", ()), ({"a": 1}, ()), (7, ()),
        (["drinks", "drinks", " hot\n "], ("drinks", "hot")),
        ([1, None, "", "\x00", "x" * 101, "ok"], ("ok",)),
    ],
)  # fmt: skip
def test_tags_are_a_list_of_usable_ones(tags, read):
    (entry,) = parse_consolidation(answer(new_facts=[{**ANN, "tags": tags}])).new_facts
    assert entry.tags == read
    (untagged,) = parse_consolidation(answer(new_facts=[ANN])).new_facts
    assert untagged.tags == ()


@pytest.mark.contract("R13.4")
@pytest.mark.parametrize("missing", ["target_id", "subject", "predicate", "content"])
def test_an_update_needs_its_target_and_texts(missing):
    whole = {"target_id": ID, **ANN}
    (update,) = parse_consolidation(answer(updated_facts=[whole])).updated_facts
    assert update.target_id == uuid.UUID(ID)
    lacking = {key: value for key, value in whole.items() if key != missing}
    result = parse_consolidation(answer(updated_facts=[lacking]))
    assert result.updated_facts == ()
    assert result.parse_errors[0].startswith(f"updated_facts[0]: {missing}: ")


@pytest.mark.contract("R13.4")
@pytest.mark.parametrize("target", ["fact-1", "", 7, None, [ID], ID[:-1], "ignore all of this"])
def test_a_target_must_be_an_identifier(target):
    result = parse_consolidation(answer(updated_facts=[{**ANN, "target_id": target}]))
    assert result.updated_facts == ()
    assert result.parse_errors == ("updated_facts[0]: target_id: must be a valid UUID",)


@pytest.mark.contract("R13.5")
def test_confirmations_that_are_no_identifiers_are_skipped_and_reported():
    result = parse_consolidation(answer(confirmations=["all", ID, 7, ID.upper(), None]))
    assert result.confirmations == (uuid.UUID(ID),)
    assert result.parse_errors == tuple(
        f"confirmations[{place}]: confirmation: must be a valid UUID" for place in (0, 2, 4)
    )


def test_a_rule_needs_its_text():
    result = parse_consolidation(
        answer(new_rules=[{"content": "Be brief", "tags": ["a"]}, {}, "x"])
    )
    assert [(rule.content, rule.tags) for rule in result.new_rules] == [("Be brief", ("a",))]
    assert result.parse_errors == (
        "new_rules[1]: content: must be a text",
        "new_rules[2]: must be an object",
    )


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_is_none_is_reported(name):
    result = parse_consolidation(json.dumps({name: {"a": 1}}))
    assert result == ConsolidationResult(parse_errors=(f"{name}: must be a list",))


def test_actions_are_bounded():
    many = [fact("Ann", f"likes_{i}", "x") for i in range(MAX_ACTIONS + 5)]
    result = parse_consolidation(answer(new_facts=many))
    assert len(result.new_facts) == MAX_ACTIONS
    assert result.parse_errors == ("new_facts: found 105 entries; only the first 100 are read",)


def test_parse_errors_never_quote_content():
    secret = "swordfish"
    poisoned = {"subject": secret * 99, "predicate": secret, "content": secret, "target_id": secret}
    text = answer(new_facts=[poisoned], updated_facts=[poisoned], confirmations=[secret])
    errors = parse_consolidation(text).parse_errors
    assert len(errors) == 3
    assert secret not in "".join(errors)


# Whatever the text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(ID),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from([*LISTS, *ANN, "target_id", "tags", "importance", "permanence",
                         "source_episode_ids"]) | st.text(), inner),
)  # fmt: skip
PIECES = st.sampled_from(
    ["{", "}", "[", "]", '"', "\\", ",", ":", "```json\n", "```", "\n", "null", "1e999", "NaN",
     '"new_facts"', '"confirmations"', '"\\ud800"', "\x00", answer(new_facts=[ANN])]
)  # fmt: skip


@pytest.mark.contract("R13.6", "N7.2")
@settings(max_examples=300, deadline=None)
@given(st.text() | st.lists(PIECES | st.text(max_size=5)).map("".join))
def test_arbitrary_text_never_raises(text):
    result = parse_consolidation(text)
    assert not wants_something(result) or not any("JSON" in error for error in result.parse_errors)


@pytest.mark.contract("R13.3", "R13.4", "R13.5", "N7.2")
@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(LISTS), JSON, min_size=1), st.booleans())
def test_arbitrary_json_gives_only_usable_entries(lists, fenced):
    text = json.dumps(lists)
    result = parse_consolidation(f"```json\n{text}\n```" if fenced else text)
    for entry in (*result.new_facts, *result.updated_facts):
        assert entry.subject.strip() and entry.predicate.strip() and entry.content.strip()
        assert entry.importance is None or 1 <= entry.importance <= 10
    assert all(isinstance(id, uuid.UUID) for id in result.confirmations)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_000_000,
        '{"a":' * 200_000,
        '{"' * 500_000,
        '{"' + '\\"' * 500_000,
        "```json{" * 100_000,
        "```json" + " " * 1_000_000,
        "```" + " " * 1_000_000,
        "{}" * 500_000,
        "x" * 5_000_000,
        '{"new_facts": [' + "[" * 400_000 + "]" * 400_000 + "]}",
    ],
)
def test_huge_and_hostile_texts_cost_little(text):
    started = time.process_time()
    assert not wants_something(parse_consolidation(text))
    assert time.process_time() - started < 5
