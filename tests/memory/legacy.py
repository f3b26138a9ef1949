"""A database as an older version left it: every kind of row its revision could hold."""

import json
import uuid

VECTOR = json.dumps([1.0] + [0.0] * 383)
EARLY, LATE = "2025-01-01T00:00:00+00:00", "2025-06-01T00:00:00.123456+00:00"


def id_of(name: str) -> str:
    """The same id for the same name, always."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def _row(name, **values):
    return {"id": id_of(name), "tenant_id": "acme", **values}


def _episode(name, **values):
    return _row(
        name,
        **{
            "butler": "general",
            "content": f"{name}: Ünïcode 🦉 日本語",
            "search_vector": "'owl':1",
            "created_at": EARLY,
            "consolidation_status": "pending",
            **values,
        },
    )


def _fact(name, **values):
    return _row(
        name,
        **{
            "subject": name,
            "predicate": "is",
            "content": f"{name} — “quoted” \\ %_",
            "created_at": EARLY,
            "tags": ["a", "ü"],
            "metadata": {"deep": {"list": [1, None, "x"]}},
            **values,
        },
    )


def _embedded(row):
    return {**row, "embedding": VECTOR, "embedding_version_id": id_of("version")}


def always() -> dict[str, list[dict]]:
    """Rows that every revision can hold, in the order they must be inserted."""
    return {
        "embedding_versions": [
            _row("version", model="toy", version="1", dimensions=384, created_at=EARLY)
        ],
        "entities": [
            _row("ann", canonical_name="Ann", entity_type="person", aliases=["Annie", "Änn"])
        ],
        "episodes": [
            _embedded(_episode("plain", session_id=id_of("session"), importance=9.5)),
            _episode("no vector", search_vector=None, expires_at=None, metadata={"k": "v"}),
            _episode("done", consolidated=True, consolidation_status="consolidated"),
            _episode(
                "failed",
                consolidation_status="failed",
                retry_count=3,
                last_error="timeout",
                consolidation_attempts=3,
                last_consolidation_error="timeout",
                next_consolidation_retry_at=LATE,
            ),
            _episode(
                "dead",
                consolidation_status="dead_letter",
                retry_count=5,
                last_error="no JSON",
                consolidation_attempts=5,
                last_consolidation_error="no JSON",
                dead_letter_reason="no JSON",
            ),
        ],
        "facts": [
            _fact("old", subject="Ann", validity="superseded"),
            _embedded(
                _fact(
                    "current",
                    subject="Ann",
                    created_at=LATE,
                    supersedes_id=id_of("old"),
                    source_episode_id=id_of("plain"),
                    last_confirmed_at=LATE,
                    reference_count=7,
                )
            ),
            _fact("same key in another scope", subject="Ann", scope="health"),
            _fact("expired", validity="expired"),
            _fact("retracted", validity="retracted"),
            _fact("about an entity", subject="Annie", entity_id=id_of("ann")),
        ],
        "rules": [
            _embedded(
                _row(
                    "proven",
                    content="be kind",
                    maturity="proven",
                    applied_count=20,
                    success_count=18,
                    harmful_count=1,
                    effectiveness_score=0.9,
                    source_episode_id=id_of("plain"),
                    tags=["tone"],
                )
            ),
            _row("harmful", content="shout", metadata={"needs_inversion": True}),
        ],
        "memory_links": [
            _link("current", "episode", "plain", "derived_from"),
            _link("current", "fact", "old", "supersedes"),
        ],
        "memory_events": [
            _row("second", event_type="fact_created", actor="me", created_at=LATE),
            _row("first", event_type="episode_created", created_at=EARLY, payload={"ü": 1}),
        ],
        "rule_applications": [
            _row("helped", rule_id=id_of("proven"), outcome="helpful", created_at=LATE)
        ],
    }


def _link(source, target_type, target, relation):
    return {
        "tenant_id": "acme",
        "source_type": "fact",
        "source_id": id_of(source),
        "target_type": target_type,
        "target_id": id_of(target),
        "relation": relation,
    }


def before_lifecycles() -> dict[str, list[dict]]:
    """States that could be written until the database knew which there are."""
    return {
        "episodes": [
            _episode("says both", consolidated=True),
            _episode("says both otherwise", consolidation_status="consolidated"),
            _episode("dead without a word", consolidation_status="dead_letter", retry_count=5),
            _episode("beyond measure", importance=42, retry_count=-1),
        ],
        "facts": [
            _fact("forgotten", validity="forgotten"),
            _fact("fading", validity="fading"),
            _fact("fading under a taken key", subject="Ann", validity="fading"),
            _fact("fading twice", subject="twice", validity="fading", created_at=LATE),
            _fact("fading twice, older", subject="twice", validity="fading"),
            _fact("too sure", confidence=1.5, importance=-3, decay_rate=-1),
        ],
        "rules": [_row("miscounted", content="x", success_count=2, harmful_count=-1)],
    }


# What becomes of them; everything else stays as it was.
LIFECYCLES = {
    "says both": {"consolidation_status": "consolidated"},
    "says both otherwise": {"consolidated": True},
    "beyond measure": {"importance": 10, "retry_count": 0},
    "forgotten": {"validity": "retracted"},
    "fading": {"validity": "active"},
    "fading under a taken key": {"validity": "superseded"},
    "fading twice": {"validity": "active"},
    "fading twice, older": {"validity": "superseded"},
    "too sure": {"confidence": 1, "importance": 0, "decay_rate": 0},
    "miscounted": {"applied_count": 2, "harmful_count": 0},
}
# A rule was confirmed by the mark that it helped.
HELPED = {"proven": {"last_confirmed_at": LATE}}


def before_uniqueness() -> dict[str, list[dict]]:
    """Facts that shared a key while nothing forbade it."""
    return {
        "facts": [
            _fact("twin, newest", subject="twin", created_at=LATE),
            _fact("twin, older", subject="twin"),
            _fact("twin elsewhere", subject="twin", scope="health"),
        ]
    }


UNIQUENESS = {"twin, older": {"validity": "superseded"}}


def before_tenants() -> dict[str, list[dict]]:
    """Rows of the time when entities had tenants and facts had none."""
    return {
        "entities": [
            {**_row("bo", canonical_name="Bo", entity_type="person"), "tenant_id": "rival"}
        ],
        "facts": [
            _fact(
                "of another tenant",
                entity_id=id_of("bo"),
                source_episode_id=id_of("plain"),
                supersedes_id=id_of("old"),
            )
        ],
        "memory_links": [_link("of another tenant", "episode", "plain", "derived_from")],
        "memory_events": [
            {**_row("of nobody", event_type="x", created_at=EARLY), "tenant_id": None}
        ],
    }


def as_of(revision: str) -> dict[str, list[dict]]:
    """Every row a database at this revision could hold."""
    groups = [always()]
    if revision < "mem_004":
        groups.append(before_tenants())
    if revision < "mem_005":
        groups.append(before_lifecycles())
    if revision < "mem_002":
        groups.append(before_uniqueness())
    return {table: [row for group in groups for row in group.get(table, [])] for table in always()}


async def fill(connection, revision: str) -> None:
    """Insert every row of `as_of`, as far as the revision has its tables and columns."""
    for table, rows in as_of(revision).items():
        known = await _writable_columns(connection, table)
        for row in rows if known else []:
            names = ", ".join(name for name in row if name in known)
            await connection.execute(
                f"insert into {table} ({names}) "
                f"select {names} from jsonb_populate_record(null::{table}, $1)",
                json.dumps(row),
            )


async def contents(connection) -> dict[str, dict[str, dict]]:
    """Every row of every table that is not derived by its key, as the database writes it."""
    tables = await connection.fetch(
        "select tablename from pg_tables where schemaname = 'public' "
        "and tablename not in ('alembic_version', 'memory_tenants', 'tenant_key', "
        "'memory_event_chain') "
        "and tablename not like 'index\\_%'"
    )
    return {row["tablename"]: await _rows(connection, row["tablename"]) for row in tables}


async def _rows(connection, table):
    rows = [json.loads(r[0]) for r in await connection.fetch(f"select to_jsonb(t) from {table} t")]
    return {row.get("id") or f"{row['source_id']}→{row['target_id']}": row for row in rows}


async def _writable_columns(connection, table):
    rows = await connection.fetch(
        "select column_name from information_schema.columns "
        "where table_schema = 'public' and table_name = $1 and is_generated = 'NEVER'",
        table,
    )
    return {row["column_name"] for row in rows}
