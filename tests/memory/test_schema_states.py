"""States the database keeps and states it refuses."""

import uuid

import asyncpg
import pytest

from memory.schema_rows import insert


@pytest.mark.contract("L9", "R01.1")
async def test_older_names_of_attempts_tell_the_same_truth(owner):
    row = await insert(
        owner,
        "episodes",
        consolidation_status="failed",
        consolidation_attempts=3,
        last_consolidation_error="timeout",
    )
    assert (row["retry_count"], row["last_error"]) == (3, "timeout")
    changed = await owner.fetchrow(
        "update episodes set consolidation_attempts = 4, last_consolidation_error = null "
        "returning retry_count, last_error"
    )
    assert tuple(changed.values()) == (4, None)
    for column, value in (("retry_count", 1), ("last_error", "x")):
        with pytest.raises(asyncpg.GeneratedAlwaysError):
            await insert(owner, "episodes", **{column: value})


CONSOLIDATED = {"consolidated": True, "consolidation_status": "consolidated"}
DEAD = {"consolidation_status": "dead_letter", "dead_letter_reason": "five failures"}


@pytest.mark.contract("L9", "N5.1")
@pytest.mark.parametrize("state", [CONSOLIDATED, DEAD, {"consolidation_status": "failed"}, {}])
async def test_states_of_consolidation_that_agree_are_kept(owner, state):
    assert await insert(owner, "episodes", **state)


REFUSED = [
    ("episodes", {"consolidated": True}),
    ("episodes", {"consolidation_status": "consolidated"}),
    ("episodes", {**DEAD, "consolidated": True}),
    ("episodes", {"consolidation_status": "failed", "consolidated": True}),
    ("episodes", {"consolidation_status": "lost"}),
    ("episodes", {"consolidation_status": "dead_letter"}),
    ("episodes", {"dead_letter_reason": "for no reason"}),
    ("episodes", {"leased_by": "worker"}),
    ("episodes", {"consolidation_attempts": -1}),
    ("episodes", {"importance": 11.0}),
    ("episodes", {"importance": float("nan")}),
    ("facts", {"validity": "forgotten"}),
    ("facts", {"validity": "fading"}),
    ("facts", {"permanence": "eternal"}),
    ("facts", {"confidence": 1.01}),
    ("facts", {"confidence": float("nan")}),
    ("facts", {"decay_rate": -0.1}),
    ("facts", {"importance": -1.0}),
    ("rules", {"maturity": "wise"}),
    ("rules", {"permanence": "eternal"}),
    ("rules", {"confidence": -0.5}),
    ("rules", {"decay_rate": -0.1}),
    ("rules", {"applied_count": 1, "success_count": 1, "harmful_count": 1}),
    ("rules", {"applied_count": 1, "harmful_count": -1}),
    ("memory_events", {"memory_id": uuid.uuid4()}),
    ("memory_events", {"memory_type": "dream"}),
]


@pytest.mark.contract("N5.1", "N5.2", "N5.3", "L9")
@pytest.mark.parametrize(("table", "values"), REFUSED)
async def test_states_outside_the_lifecycle_are_refused(owner, table, values):
    with pytest.raises(asyncpg.CheckViolationError):
        await insert(owner, table, **values)


@pytest.mark.parametrize("table", ["episodes", "facts", "rules"])
async def test_an_idempotency_key_is_taken_once_per_tenant(owner, table):
    different = {"facts": {"subject": "Bo"}}.get(table, {})
    await insert(owner, table, idempotency_key="k")
    await insert(owner, table, idempotency_key="k", tenant_id="rival")
    await insert(owner, table, idempotency_key=None, **different)
    with pytest.raises(asyncpg.UniqueViolationError):
        await insert(owner, table, idempotency_key="k", **different)


@pytest.mark.parametrize(
    ("confidence", "rate", "days", "expected"),
    [
        (0.7, 0.0, None, 0.7),
        (0.7, 0.008, None, 0.0),
        (0.8, 0.1, 10, 0.8 * 2.718281828459045**-1),
        (0.8, 0.1, -10, 0.8),
        (1.0, 0.1, 20_000, 0.0),
        (1e-30, 5.0, 100_000, 0.0),
    ],
)
@pytest.mark.contract("L4")
async def test_confidence_is_counted_in_the_database_as_in_the_code(
    owner, confidence, rate, days, expected
):
    found = await owner.fetchval(
        "select effective_confidence($1, $2, $3::timestamptz - $4::int * interval '1 day', $3)",
        confidence,
        rate,
        await owner.fetchval("select timestamptz '2026-01-10 12:00+00'"),
        days,
    )
    assert found == pytest.approx(expected, abs=1e-12)
