"""Rows as JSON can carry them."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest

from butlers.kernel.json_values import as_json
from butlers.memory.flows import feedback, history, remember
from butlers.memory.model import Maturity, NewRule

ID = UUID("00000000-0000-4000-8000-000000000001")
AT = datetime(2026, 1, 10, 12, 30, tzinfo=UTC)


@pytest.mark.contract("R27.1")
def test_ids_become_texts_at_every_depth():
    shown = as_json({"id": ID, "nested": {"ids": [ID, (ID,)], "deep": [{"id": ID}]}})
    text = "00000000-0000-4000-8000-000000000001"
    assert shown == {"id": text, "nested": {"ids": [text, [text]], "deep": [{"id": text}]}}


@pytest.mark.contract("R27.2")
def test_instants_become_iso_8601_at_every_depth():
    shown = as_json({"at": AT, "nested": {"all": [AT, {"at": AT}]}})
    text = "2026-01-10T12:30:00+00:00"
    assert shown == {"at": text, "nested": {"all": [text, {"at": text}]}}


def test_everything_else_stays_and_a_second_time_changes_nothing():
    row = {"none": None, "flag": True, "count": 3, "share": 0.5, "word": Maturity.PROVEN, "id": ID}
    once = as_json(row)
    assert as_json(once) == once
    assert json.loads(json.dumps(once)) == {**row, "word": "proven", "id": str(ID)}


@pytest.mark.contract("L19")
def test_no_answer_carries_a_vector():
    shown = as_json({"id": ID, "embedding": [0.1], "search_vector": "'a':1"})
    assert shown == {"id": str(ID)}


@pytest.mark.contract("R27.1", "R27.2", "L19")
async def test_what_flows_return_is_json_as_it_stands(memory, lineage, clock):
    rule = await remember.store_rule(memory, NewRule("be brief"), lineage)
    marked = await feedback.mark_helpful(memory, rule.id, lineage)
    told = await history.memory_history(memory, rule.id, lineage)
    explained = await history.explain_memory(memory, "rule", rule.id, lineage)
    assert json.loads(json.dumps([marked, told, explained])) == [marked, told, explained]
    assert (marked["id"], marked["created_at"]) == (str(rule.id), clock.now.isoformat())
    assert not {"embedding", "search_vector"} & (marked.keys() | explained["memory"].keys())
