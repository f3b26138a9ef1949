"""The schema: columns, defaults, indexes and what the database refuses."""

import uuid
from datetime import timedelta

import asyncpg
import pytest

from db.databases import connected, fresh_database
from memory.schema_rows import (
    ENTITIES,
    EPISODES,
    EVENTS,
    FACTS,
    MINIMAL,
    REQUIRED,
    RULES,
    columns,
    constraints,
    indexes,
    insert,
)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param("episodes", EPISODES, marks=pytest.mark.contract("R01.1", "L9")),
        pytest.param("facts", FACTS, marks=pytest.mark.contract("R01.2")),
        pytest.param("rules", RULES, marks=pytest.mark.contract("R01.3", "L8")),
        pytest.param("entities", ENTITIES, marks=pytest.mark.contract("R16.1")),
        pytest.param("memory_events", EVENTS, marks=pytest.mark.contract("R25.7")),
    ],
)
async def test_columns_and_defaults(owner, table, expected):
    found = await columns(owner, table)
    assert {name: found.get(name) for name in expected} == {
        name: (kind, nullable) for name, (kind, nullable, _) in expected.items()
    }
    assert await constraints(owner, table, "p") == {"PRIMARY KEY (id)"}
    row = await insert(owner, table)
    assert isinstance(row["id"], uuid.UUID)
    defaults = {name: value for name, (_, _, value) in expected.items() if value is not ...}
    assert {name: row[name] for name in defaults} == defaults


@pytest.mark.contract("R01.1")
async def test_an_episode_lives_seven_days_unless_told_otherwise(owner):
    row = await insert(owner, "episodes")
    assert row["expires_at"] - row["created_at"] == timedelta(days=7)
    assert (await insert(owner, "episodes", expires_at=None))["expires_at"] is None


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("episodes", marks=pytest.mark.contract("N5.1")),
        pytest.param("facts", marks=pytest.mark.contract("N5.2")),
        pytest.param("rules", marks=pytest.mark.contract("N5.3")),
        *(
            pytest.param(table, marks=pytest.mark.contract("N5.4"))
            for table in (
                "memory_links",
                "memory_events",
                "rule_applications",
                "embedding_versions",
            )
        ),
    ],
)
async def test_required_fields(owner, table):
    found = await columns(owner, table)
    assert set(REQUIRED[table].split()) <= set(found)
    assert found["tenant_id"] == ("text", False)


@pytest.mark.contract("L1")
async def test_every_memory_table_names_its_tenant_and_guesses_none(owner):
    rows = await owner.fetch(
        "select t.table_name, c.is_nullable, c.column_default from information_schema.tables t "
        "left join information_schema.columns c on c.table_schema = t.table_schema "
        "and c.table_name = t.table_name and c.column_name = 'tenant_id' "
        "where t.table_schema = 'public' and t.table_type = 'BASE TABLE' "
        "and t.table_name not in ('alembic_version', 'memory_tenants', 'tenant_key')"
    )
    assert len(rows) >= 8
    assert {tuple(row.values())[1:] for row in rows} == {("NO", None)}


@pytest.mark.contract("R25.1", "L17")
async def test_extensions_are_there(owner):
    found = await owner.fetch(
        "select extname from pg_extension where extnamespace = 'public'::regnamespace "
        "and extname in ('vector', 'uuid-ossp', 'pg_trgm') order by 1"
    )
    assert [row["extname"] for row in found] == ["pg_trgm", "uuid-ossp", "vector"]


@pytest.mark.contract("L17")
async def test_ids_do_not_depend_on_uuid_ossp(postgres, template):
    async with (
        fresh_database(postgres, template) as name,
        connected(postgres.dsn(name)) as connection,
    ):
        await connection.execute('drop extension "uuid-ossp" restrict')
        for table in MINIMAL:
            assert (await insert(connection, table))["id"]


EPISODE_INDEXES = {
    "btree (butler, created_at DESC)",
    "btree (expires_at) WHERE (expires_at IS NOT NULL)",
    "btree (butler, created_at) WHERE ((consolidation_status)::text = 'pending'::text)",
}
FACT_INDEXES = {
    "btree (scope, validity) WHERE (validity = 'active'::text)",
    "btree (subject, predicate)",
    "gin (tags)",
}
INDEX = {
    "index_memories": {
        "UNIQUE btree (tenant_id, doc)",
        "UNIQUE btree (tenant_id, memory_type, memory_id)",
        "btree (tenant_id, session_id, place) WHERE (session_id IS NOT NULL)",
    },
    "index_words": {
        "UNIQUE btree (tenant_id, word, doc) INCLUDE (impact, place)",
        "btree (tenant_id, word) INCLUDE (doc, impact) WHERE ((hashint8(doc) & 31) = 0)",
    },
    "index_vectors": {
        "UNIQUE btree (tenant_id, version_id, doc)",
        "hnsw (embedding halfvec_cosine_ops) WITH (m='24', ef_construction='128')",
    },
    "index_names": {"UNIQUE btree (tenant_id, name)"},
}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param("episodes", EPISODE_INDEXES, marks=pytest.mark.contract("R25.2", "L16")),
        pytest.param("facts", FACT_INDEXES, marks=pytest.mark.contract("R25.3", "L16")),
        pytest.param("rules", {"gin (tags)"}, marks=pytest.mark.contract("L16")),
    ],
)
async def test_indexes_of_the_wide_rows(owner, table, expected):
    found = await indexes(owner, table)
    assert expected <= found
    assert not any("embedding" in one or "search_vector" in one for one in found)


@pytest.mark.contract("L16", "L43")
@pytest.mark.parametrize("table", INDEX)
async def test_what_is_searched_by_lies_in_narrow_tables(owner, table):
    assert await indexes(owner, table) == INDEX[table]


@pytest.mark.contract("R25.4", "L2", "N5.2")
async def test_active_facts_of_one_key_hold_apart_within_a_tenant(owner):
    # Facts of one key may follow each other in time: the constraint is that they hold apart.
    apart = await owner.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'facts_hold_apart'"
    )
    assert apart == (
        "EXCLUDE USING gist (tenant_id WITH =, fact_key(scope, entity_id, subject, predicate) "
        "WITH =, tstzrange(valid_from, valid_to) WITH &&) WHERE ((validity = 'active'::text))"
    )


@pytest.mark.contract("R25.4", "L2", "N5.2")
@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({}, False),
        ({"content": "coffee"}, False),
        ({"scope": "health"}, True),
        ({"tenant_id": "rival"}, True),
        ({"predicate": "drinks"}, True),
        ({"subject": "Bo"}, True),
        ({"validity": "superseded"}, True),
        ({"validity": "retracted"}, True),
    ],
)
async def test_one_active_fact_under_a_subject_key(owner, change, allowed):
    await insert(owner, "facts")
    await allowed_or_unique_violation(owner, allowed, "facts", **change)


@pytest.mark.contract("R25.4", "L2")
@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({"subject": "Annie"}, False),
        ({"scope": "health"}, True),
        ({"predicate": "drinks"}, True),
        ({"validity": "expired"}, True),
        ({"entity_id": None}, True),
    ],
)
async def test_one_active_fact_under_an_entity_key(owner, change, allowed):
    ann = (await insert(owner, "entities"))["id"]
    await insert(owner, "facts", entity_id=ann)
    await allowed_or_unique_violation(owner, allowed, "facts", **{"entity_id": ann, **change})


async def allowed_or_unique_violation(connection, allowed, table, **values):
    if allowed:
        assert await insert(connection, table, **values)
    else:
        with pytest.raises((asyncpg.UniqueViolationError, asyncpg.ExclusionViolationError)):
            await insert(connection, table, **values)


@pytest.mark.contract("R25.5", "N5.4")
async def test_links(owner):
    assert await constraints(owner, "memory_links", "p") == {
        "PRIMARY KEY (source_type, source_id, target_type, target_id)"
    }
    assert "btree (target_type, target_id)" in await indexes(owner, "memory_links")
    link = (
        "insert into memory_links (tenant_id, source_type, source_id, target_type, target_id, "
        "relation) values ('acme', $1, $2, 'fact', $3, $4)"
    )
    for relation in ("derived_from", "supports", "contradicts", "supersedes", "related_to"):
        await owner.execute(link, "rule", uuid.uuid4(), uuid.uuid4(), relation)
    one = uuid.uuid4()
    for kind, target, relation in [
        ("fact", uuid.uuid4(), "resembles"),
        ("dream", uuid.uuid4(), "supports"),
        ("fact", one, "supports"),
    ]:
        with pytest.raises(asyncpg.CheckViolationError):
            await owner.execute(link, kind, one, target, relation)


@pytest.mark.contract("R25.6", "R16.1", "R16.2")
async def test_entities(owner):
    assert "UNIQUE (tenant_id, canonical_name, entity_type)" in await constraints(
        owner, "entities", "u"
    )
    assert {
        "btree (tenant_id, canonical_name)",
        "gin (aliases)",
        "gin (metadata)",
    } <= await indexes(owner, "entities")
    referred = "FOREIGN KEY (entity_id) REFERENCES entities(id) ON DELETE RESTRICT"
    assert referred in await constraints(owner, "facts", "f")
    ann = await insert(owner, "entities")
    with pytest.raises(asyncpg.UniqueViolationError):
        await insert(owner, "entities")
    await insert(owner, "entities", entity_type="place")
    with pytest.raises(asyncpg.CheckViolationError):
        await insert(owner, "entities", canonical_name="Bo", entity_type="ghost")
    await insert(owner, "facts", entity_id=ann["id"])
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await owner.execute("delete from entities where id = $1", ann["id"])


@pytest.mark.contract("R25.7", "N5.4")
async def test_events(owner):
    assert {
        "btree (event_type, created_at DESC)",
        "btree (tenant_id, created_at DESC)",
    } <= await indexes(owner, "memory_events")


@pytest.mark.contract("R01.2", "R01.3")
async def test_what_came_from_a_deleted_row_stays_and_forgets_it(owner):
    episode = (await insert(owner, "episodes"))["id"]
    old = (await insert(owner, "facts", validity="superseded"))["id"]
    fact = (await insert(owner, "facts", source_episode_id=episode, supersedes_id=old))["id"]
    rule = (await insert(owner, "rules", source_episode_id=episode))["id"]
    await owner.execute("delete from episodes where id = $1", episode)
    await owner.execute("delete from facts where id = $1", old)
    row = await owner.fetchrow("select * from facts where id = $1", fact)
    assert (row["source_episode_id"], row["supersedes_id"]) == (None, None)
    assert row["tenant_id"] == "acme"
    rule_row = await owner.fetchrow("select * from rules where id = $1", rule)
    assert (rule_row["source_episode_id"], rule_row["tenant_id"]) == (None, "acme")
