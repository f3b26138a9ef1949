"""What the tables must hold, and the smallest row of each."""

import re

# name: (type, nullable, default as a minimal row shows it; ... where there is none to compare)
EPISODES = {
    "id": ("uuid", False, ...),
    "butler": ("text", False, ...),
    "session_id": ("uuid", True, None),
    "content": ("text", False, ...),
    "embedding": ("vector(384)", True, None),
    "search_vector": ("tsvector", True, None),
    "importance": ("double precision", False, 5.0),
    "reference_count": ("integer", False, 0),
    "consolidated": ("boolean", False, False),
    "consolidation_status": ("character varying(20)", False, "pending"),
    "retry_count": ("integer", True, 0),
    "last_error": ("text", True, None),
    "created_at": ("timestamp with time zone", False, ...),
    "last_referenced_at": ("timestamp with time zone", True, None),
    "expires_at": ("timestamp with time zone", True, ...),
    "metadata": ("jsonb", False, "{}"),
}
FACTS = {
    "id": ("uuid", False, ...),
    "subject": ("text", False, ...),
    "predicate": ("text", False, ...),
    "content": ("text", False, ...),
    "embedding": ("vector(384)", True, None),
    "search_vector": ("tsvector", True, None),
    "importance": ("double precision", False, 5.0),
    "confidence": ("double precision", False, 1.0),
    "decay_rate": ("double precision", False, 0.008),
    "permanence": ("text", False, "standard"),
    "source_butler": ("text", True, None),
    "source_episode_id": ("uuid", True, None),
    "supersedes_id": ("uuid", True, None),
    "entity_id": ("uuid", True, None),
    "validity": ("text", False, "active"),
    "scope": ("text", False, "global"),
    "reference_count": ("integer", False, 0),
    "created_at": ("timestamp with time zone", False, ...),
    "last_referenced_at": ("timestamp with time zone", True, None),
    "last_confirmed_at": ("timestamp with time zone", True, None),
    "tags": ("jsonb", False, "[]"),
    "metadata": ("jsonb", False, "{}"),
}
RULES = {
    "id": ("uuid", False, ...),
    "content": ("text", False, ...),
    "embedding": ("vector(384)", True, None),
    "search_vector": ("tsvector", True, None),
    "scope": ("text", False, "global"),
    "maturity": ("text", False, "candidate"),
    "confidence": ("double precision", False, 0.5),
    "decay_rate": ("double precision", False, 0.008),
    "permanence": ("text", False, "standard"),
    "effectiveness_score": ("double precision", False, 0.0),
    "applied_count": ("integer", False, 0),
    "success_count": ("integer", False, 0),
    "harmful_count": ("integer", False, 0),
    "source_episode_id": ("uuid", True, None),
    "source_butler": ("text", True, None),
    "created_at": ("timestamp with time zone", False, ...),
    "last_applied_at": ("timestamp with time zone", True, None),
    "last_evaluated_at": ("timestamp with time zone", True, None),
    "last_confirmed_at": ("timestamp with time zone", True, None),
    "reference_count": ("integer", False, 0),
    "last_referenced_at": ("timestamp with time zone", True, None),
    "tags": ("jsonb", False, "[]"),
    "metadata": ("jsonb", False, "{}"),
}
ENTITIES = {
    "id": ("uuid", False, ...),
    "tenant_id": ("text", False, ...),
    "canonical_name": ("character varying", False, ...),
    "entity_type": ("character varying", False, ...),
    "aliases": ("text[]", False, []),
    "metadata": ("jsonb", False, "{}"),
    "created_at": ("timestamp with time zone", False, ...),
    "updated_at": ("timestamp with time zone", False, ...),
}
EVENTS = {
    "id": ("uuid", False, ...),
    "event_type": ("text", False, ...),
    "actor": ("text", True, None),
    "payload": ("jsonb", False, "{}"),
    "created_at": ("timestamp with time zone", False, ...),
}

MINIMAL = {
    "episodes": {"tenant_id": "acme", "butler": "general", "content": "hello"},
    "facts": {"tenant_id": "acme", "subject": "Ann", "predicate": "likes", "content": "tea"},
    "rules": {"tenant_id": "acme", "content": "be kind"},
    "entities": {"tenant_id": "acme", "canonical_name": "Ann", "entity_type": "person"},
    "memory_events": {"tenant_id": "acme", "event_type": "tested"},
}

REQUIRED = {
    "episodes": "id tenant_id butler session_id content importance consolidated "
    "consolidation_status consolidation_attempts last_consolidation_error "
    "next_consolidation_retry_at created_at expires_at metadata",
    "facts": "id tenant_id subject predicate content scope validity confidence decay_rate "
    "permanence source_butler source_episode_id supersedes_id created_at last_confirmed_at "
    "last_referenced_at metadata tags",
    "rules": "id tenant_id content scope maturity confidence decay_rate effectiveness_score "
    "applied_count success_count harmful_count source_butler source_episode_id created_at "
    "last_applied_at last_evaluated_at last_confirmed_at metadata tags",
    "memory_links": "tenant_id source_type source_id target_type target_id relation created_at",
    "memory_events": "id tenant_id event_type actor request_id memory_type memory_id payload "
    "created_at",
    "rule_applications": "id tenant_id rule_id outcome context created_at request_id",
    "embedding_versions": "id tenant_id model version dimensions created_at",
}


async def columns(connection, table):
    """Type and nullability of every column."""
    rows = await connection.fetch(
        "select attname, format_type(atttypid, atttypmod) as type, not attnotnull as nullable "
        "from pg_attribute where attrelid = $1::text::regclass and attnum > 0 and not attisdropped",
        table,
    )
    return {row["attname"]: (row["type"], row["nullable"]) for row in rows}


async def indexes(connection, table):
    """What every index covers, without its name: `unique btree (a, b) WHERE ...`."""
    rows = await connection.fetch("select indexdef from pg_indexes where tablename = $1", table)
    return {
        re.sub(r"CREATE (UNIQUE )?INDEX \S+ ON \S+ USING ", r"\1", row["indexdef"]) for row in rows
    }


async def constraints(connection, table, kind):
    """The definitions of a table's constraints of one kind."""
    rows = await connection.fetch(
        "select pg_get_constraintdef(oid) as definition from pg_constraint "
        'where conrelid = $1::text::regclass and contype = $2::text::"char"',
        table,
        kind,
    )
    return {row["definition"] for row in rows}


async def insert(connection, table, **values):
    """Insert a minimal row with the given values; the whole row."""
    row = {**MINIMAL[table], **values}
    places = ", ".join(f"${i}" for i in range(1, len(row) + 1))
    return await connection.fetchrow(
        f"insert into {table} ({', '.join(row)}) values ({places}) returning *", *row.values()
    )
