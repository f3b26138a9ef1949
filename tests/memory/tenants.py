"""Rows of two tenants in every table, and how to act for one of them."""

import json
import uuid
from contextlib import asynccontextmanager

import asyncpg

APPEND_ONLY = ("memory_events", "rule_applications")
VECTORS = ("episode_vectors", "fact_vectors", "rule_vectors")
DERIVED = ("index_memories", "index_names", "index_vectors", "index_words")
"""What the tables fill by themselves when a memory is stored."""
WITHOUT_ID = ("memory_links", "memory_predicates", "binned_episodes", *VECTORS)
CHAIN = "memory_event_chain"
"""What commits fill when something is told."""
PROVING = []
"""The keys of the database that a test is about, the last of them."""
TENANTS = ("acme", "rival")


def id_of(tenant, name):
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{tenant} {name}")


def samples(tenant):
    """One row of every table, in an order that satisfies their references."""
    now = "2026-01-10T12:00:00+00:00"
    rows = {
        "embedding_versions": {"model": "toy", "version": "1", "dimensions": 384},
        "entities": {"canonical_name": "Ann", "entity_type": "person"},
        "episodes": {"butler": "general", "content": "secret"},
        "facts": {
            "subject": "Ann",
            "predicate": "likes",
            "content": "secret",
            "search_vector": "'secret':3",
        },
        "rules": {"content": "secret"},
        "rule_applications": {"rule_id": str(id_of(tenant, "rules")), "outcome": "helpful"},
        "memory_events": {"event_type": "tested"},
        "projects": {
            "name": "secret",
            "keys": ["remote:host/secret"],
            "places": ["/secret"],
            "shared": False,
            "last_seen_at": now,
        },
        "memory_links": {
            "source_type": "fact",
            "source_id": str(id_of(tenant, "facts")),
            "target_type": "episode",
            "target_id": str(id_of(tenant, "episodes")),
            "relation": "derived_from",
        },
        "memory_proposals": {
            "butler": "general",
            "kind": "new_rule",
            "proposed": {"content": "secret"},
            "source_episode_ids": [str(id_of(tenant, "episodes"))],
            "reason": "tested",
            "status": "waiting",
            "idempotency_key": "secret",
            "proposed_by": "tester",
        },
        "memory_conflicts": {
            "kind": "conflict",
            "newer_id": str(id_of(tenant, "facts")),
            "older_id": str(id_of(tenant, "facts")),
            "why": "secret",
            "score": 1.0,
        },
        "memory_predicates": {
            "predicate": "secret",
            "holds": "one",
            "told": True,
            "told_by": "tester",
        },
        "memory_claims": {
            "butler": "general",
            "episode_ids": [str(id_of(tenant, "episodes"))],
            "fact_ids": [],
            "rule_ids": [],
        },
        **{f"{noun}_vectors": _vector(tenant, noun) for noun in ("episode", "fact", "rule")},
    }
    binned = {"episode_id": str(id_of(tenant, "binned")), "reason": "expired", "binned_at": now}
    return {
        table: {"tenant_id": tenant, "created_at": now, **row}
        | ({} if table in WITHOUT_ID else {"id": str(id_of(tenant, table))})
        for table, row in rows.items()
    } | {"binned_episodes": {"tenant_id": tenant, **binned, "episode": {"content": "secret"}}}


def by_hand(tenant):
    """Those of them that the role which serves requests inserts itself."""
    return {table: row for table, row in samples(tenant).items() if table != "memory_events"}


def _vector(tenant, noun):
    return {
        f"{noun}_id": str(id_of(tenant, f"{noun}s")),
        "embedding_version_id": str(id_of(tenant, "embedding_versions")),
        "embedding": json.dumps([1.0] * 384),
    }


async def insert(connection, table, row):
    names = ", ".join(row)
    await connection.execute(
        f"insert into {table} ({names}) "
        f"select {names} from jsonb_populate_record(null::{table}, $1::jsonb)",
        json.dumps(row),
    )


async def tenant_tables(connection):
    """Every table with a tenant, as the catalog knows them."""
    rows = await connection.fetch(
        "select relname from pg_class join pg_attribute on attrelid = pg_class.oid "
        "where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') "
        "and attname = 'tenant_id' order by 1"
    )
    return [row["relname"] for row in rows]


async def act(connection, tenant, actor="tester"):
    """Prove for whom the rest of the transaction acts, as the process does."""
    proof = PROVING[-1].proof(tenant, actor, connection.get_server_pid())
    await connection.execute("select act_for($1, $2, $3)", tenant, actor, proof)


@asynccontextmanager
async def acting_for(connection, tenant):
    """A transaction that names a tenant and is undone afterwards."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        if tenant is not None:
            await act(connection, tenant)
        yield connection
    finally:
        await transaction.rollback()


async def rows_touched(connection, statement):
    """How many rows a statement touched, or that the role may not run it at all."""
    try:
        async with connection.transaction():
            status = await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return "no right"
    return int(status.split()[-1])
