"""How the database goes about what it is asked: visibility is defined once, and costs nothing."""

import re
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from butlers.db.queries import load
from butlers.memory import store
from conftest import TABLES
from db.databases import emptied

# One row in ten is of the tenant that asks, and has a vector.
FILLED = """
    insert into {table} (tenant_id, {columns}, embedding, embedding_version_id, search_vector)
    select case when asks then 'acme' else 'tenant' || n % 10 end, {values},
      case when asks then array_fill(1.0 / n, array[383]) || n::numeric end::vector,
      case when asks then $1::uuid end, to_tsvector('simple', 'word' || n)
    from (select n, n % 10 = 0 as asks from generate_series(1, 3000) n) numbered
"""
ROWS = {
    "episodes": ("butler, content", "'general', 'x'"),
    "facts": ("subject, predicate, content, scope", "n::text, 'is', 'x', 'global'"),
    "rules": ("content, scope", "'x', 'global'"),
}
VERSION = uuid.uuid4()
# With these off an index is taken wherever one can serve at all.
ANYTHING_ELSE = ("enable_seqscan", "enable_sort")


@pytest.fixture(scope="module")
async def filled(owner_session):
    """Nine thousand rows of ten tenants, made once: making them takes longer than every plan."""
    await emptied(owner_session, TABLES)
    await owner_session.execute(
        "insert into embedding_versions (id, tenant_id, model, version, dimensions, created_at) "
        "values ($1, 'acme', 'toy', '1', 384, now())",
        VERSION,
    )
    for table, (columns, values) in ROWS.items():
        statement = FILLED.format(table=table, columns=columns, values=values)
        await owner_session.execute(statement, VERSION)
    await owner_session.execute("vacuum analyze episodes, facts, rules")
    yield
    await emptied(owner_session, TABLES)


@pytest.fixture
async def plan(filled, open_database, clock):
    """What the database would do for one of ten tenants, by the statement's place and name."""
    asked = {
        "now": clock.now, "scope": "general", "min_confidence": 0.2, "limit": 10,
        "butler": "general", "episode_ids": [uuid.uuid4()], "as_of": None, "known_at": None,
    }  # fmt: skip

    async def explain(file, name, off=()):
        query = load(str(Path(store.__file__).with_name(file)))[name]
        values = {name: asked[name] for name in query.parameters if name != "tenant_id"}
        async with open_database.transaction("acme") as tx:
            for setting in off:
                await tx._connection.execute(f"set local {setting} = off")
            rows = await tx.fetch(
                replace(query, positional=f"explain {query.positional}"), **values
            )
        return "\n".join(row[0] for row in rows)

    return explain


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("browse", "count_memories"),
        ("episodes", "find_recent"),
        ("consolidation", "find_known_facts"),
        ("consolidation", "find_known_rules"),
    ],
)
async def test_what_is_visible_is_contained_in_the_statement(plan, file, name):
    """A function that is called instead of contained reads every row before any is chosen."""
    found = await plan(file, name)
    for function in ("visible_", "_state(", "is_visible_scope(", "effective_confidence("):
        assert function not in found


async def test_what_may_be_found_is_contained_in_the_statement_that_asks(
    plan, open_database, clock
):
    """Asked of every candidate, a call would cost more than all else."""
    async with open_database.transaction("acme") as tx:
        rows = await tx._connection.fetch(
            "explain select doc from index_memories m where m.tenant_id = 'acme' "
            "and passes_filter(m, array['fact'], 'general', 0.2, $1, null, null)",
            clock.now,
        )
    found = "\n".join(row[0] for row in rows)
    assert "shown" in found
    for function in ("passes_filter(", "_state(", "is_visible_scope(", "effective_confidence("):
        assert function not in found


async def test_facts_are_counted_from_indexes_alone(plan):
    found = await plan("browse", "count_memories", ANYTHING_ELSE)
    for index in ("facts_counted", "facts_fading"):
        assert f"Index Only Scan using {index} on facts" in found


async def test_what_changes_several_facts_does_not_read_their_exclusion_over_and_over(
    owner_session,
):
    """PostgreSQL 18.6 may take entries for dead that are not, if it splits that index meanwhile."""
    several = {
        f"{file.name} {name}": query
        for file in Path(store.__file__).parent.glob("*.sql")
        for name, query in load(str(file)).items()
        if "update facts" in query.text and "unnest(" in query.text
    }
    await owner_session.execute("set plan_cache_mode = force_generic_plan")
    read = {}
    for name, query in several.items():
        nothing = ", ".join(["null"] * len(query.parameters))
        await owner_session.execute(f"prepare asked as {query.positional}")
        rows = await owner_session.fetch(f"explain (costs off) execute asked({nothing})")
        await owner_session.execute("deallocate asked")
        read[name] = re.split(r"\n  (?=\S)", "\n".join(row[0] for row in rows))
    await owner_session.execute("reset plan_cache_mode")
    assert any("facts_hold_apart" in part for parts in read.values() for part in parts)
    again = [
        name
        for name, parts in read.items()
        if any("facts_hold_apart" in part and "InitPlan" not in part for part in parts)
    ]
    assert again == []
