"""Every older database becomes a new one, and nothing in it is lost."""

from pathlib import Path

import pytest

import butlers.memory
from butlers.db.migrate import current_revisions, migrate
from butlers.memory.module import MemoryModule
from db.databases import catalog, connected, fresh_database
from memory import legacy
from memory.index import differences
from memory.legacy import id_of

MEMORY = MemoryModule.migrations
FILES = sorted(Path(butlers.memory.__file__).with_name("migrations").glob("mem_*.py"))
REVISIONS = [file.name[:7] for file in FILES]

ENTITIES_ALONE_HAD_TENANTS = ("mem_002", "mem_003")


@pytest.fixture(scope="module", params=REVISIONS)
async def upgraded(request, postgres, template):
    """A filled database of an older revision, brought to the head: revision, before, after, dsn."""
    revision = request.param
    async with fresh_database(postgres) as name:
        dsn = postgres.dsn(name)
        await migrate(dsn, [MEMORY], [f"memory@{revision}"])
        async with connected(dsn) as connection:
            await legacy.fill(connection, revision)
            before = await legacy.contents(connection)
        await migrate(dsn, [MEMORY])
        async with connected(dsn) as connection:
            yield revision, before, await legacy.contents(connection), connection


@pytest.fixture(scope="module")
async def fresh_schema(postgres, template):
    """What the catalogs say of a database that was made at the head."""
    async with fresh_database(postgres, template) as name, connected(postgres.dsn(name)) as fresh:
        return await catalog(fresh)


def expected_changes(revision):
    """What the way from a revision to the head makes of some rows, by id."""
    changes = {}
    if revision < "mem_005":
        changes |= legacy.LIFECYCLES
    if revision < "mem_002":
        changes |= legacy.UNIQUENESS
    if "mem_006" <= revision < "mem_027":
        changes |= legacy.HELPED
    return {id_of(name): values for name, values in changes.items()}


# Each of these has a test of its own.
OTHERWISE_PROVED = {
    "tenant_id", "metadata", "source_episode_id", "supersedes_id", "search_vector",
}  # fmt: skip


async def test_every_revision_is_tried(postgres, template):
    assert REVISIONS[0] == "mem_001" and len(REVISIONS) >= 13
    async with fresh_database(postgres, template) as name:
        assert await current_revisions(postgres.dsn(name)) == (REVISIONS[-1],)


@pytest.mark.contract("P8", "N5.2", "L9")
async def test_no_row_is_lost_and_only_what_was_wrong_is_changed(upgraded):
    revision, before, after, _ = upgraded
    assert sum(len(rows) for rows in before.values()) >= 15
    changes = expected_changes(revision)
    for table, rows in before.items():
        if table != "embedding_versions":
            assert rows.keys() == after[table].keys()
        for key, row in rows.items():
            kept = {name: after[table][key].get(name) for name in row}
            wanted = {**row, **changes.get(key, {})}
            assert without(kept) == without(wanted), (revision, table)


def without(row):
    return {name: value for name, value in row.items() if name not in OTHERWISE_PROVED}


@pytest.mark.contract("N5.2")
async def test_notes_on_a_row_stay_and_fading_becomes_one(upgraded):
    revision, before, after, _ = upgraded
    fading = {id_of("fading"), id_of("fading twice")} if revision < "mem_005" else set()
    moved = id_of("of another tenant") if revision in ENTITIES_ALONE_HAD_TENANTS else None
    for table in ("episodes", "facts", "rules"):
        for key, row in before[table].items():
            found = dict(after[table][key]["metadata"])
            if key in fading:
                assert found.pop("status") == "fading"
            if key == moved:
                assert found.pop("former_source_episode_id") == row["source_episode_id"]
                assert found.pop("former_supersedes_id") == row["supersedes_id"]
            assert found == row["metadata"]


async def test_provenance_stays_inside_a_tenant_and_is_kept_there(upgraded):
    revision, before, after, _ = upgraded
    # Before facts had tenants, what is about an entity had to follow it away from its source.
    about = {id_of("of another tenant")} if revision in ENTITIES_ALONE_HAD_TENANTS else set()
    for table in ("facts", "rules"):
        for key, row in before[table].items():
            for column in {"source_episode_id", "supersedes_id"} & row.keys():
                wanted = None if key in about else row[column]
                assert after[table][key][column] == wanted


@pytest.mark.contract("L38")
async def test_what_gave_way_held_until_then_and_all_else_as_long_as_it_is_believed(upgraded):
    revision, before, after, _ = upgraded
    held = {key: (row["valid_from"], row["valid_to"]) for key, row in after["facts"].items()}
    if revision >= "mem_028":
        known = before["facts"].items()
        assert held == {key: (row["valid_from"], row["valid_to"]) for key, row in known}
        return
    begun = after["facts"][id_of("current")]["created_at"]
    assert held[id_of("current")] == (begun, None)
    heirs = [row for row in after["facts"].values() if row["supersedes_id"] == id_of("old")]
    assert held[id_of("old")] == (None, min(row["created_at"] for row in heirs))
    assert held[id_of("expired")] == held[id_of("retracted")] == (None, None)


@pytest.mark.contract("L1")
async def test_rows_from_before_tenants_belong_to_the_default_one_or_their_entitys(upgraded):
    revision, before, after, _ = upgraded
    entities = {key: row["tenant_id"] for key, row in after["entities"].items()}
    for table, rows in before.items():
        for key, row in rows.items():
            found = after[table][key]
            if row.get("tenant_id"):
                assert found["tenant_id"] == row["tenant_id"]
            elif table == "memory_links":
                assert found["tenant_id"] == after["facts"][found["source_id"]]["tenant_id"]
            else:
                assert found["tenant_id"] == entities.get(row.get("entity_id"), "default")
    if revision in ENTITIES_ALONE_HAD_TENANTS:
        assert after["facts"][id_of("of another tenant")]["tenant_id"] == "rival"


@pytest.mark.contract("L9", "N5.1")
async def test_attempts_and_reasons_are_kept_under_both_names(upgraded):
    _, before, after, _ = upgraded
    for key, row in before["episodes"].items():
        found = after["episodes"][key]
        assert found["consolidation_attempts"] == found["retry_count"] == max(row["retry_count"], 0)
        assert found["last_consolidation_error"] == found["last_error"] == row["last_error"]
        dead = found["consolidation_status"] == "dead_letter"
        wanted = row.get("dead_letter_reason") or row["last_error"] or "unknown"
        assert found["dead_letter_reason"] == (wanted if dead else None)


@pytest.mark.contract("R31.1")
async def test_every_vector_has_a_version_and_only_those(upgraded):
    revision, before, after, _ = upgraded
    for table in ("episodes", "facts", "rules"):
        for row in after[table].values():
            version = after["embedding_versions"].get(row["embedding_version_id"])
            assert (row["embedding"] is not None) == (version is not None)
            if version:
                assert version["tenant_id"] == row["tenant_id"]
                assert version["version"] == ("unrecorded" if revision < "mem_007" else "1")


@pytest.mark.contract("N5.4")
async def test_events_are_told_in_the_order_they_happened(upgraded):
    revision, _, after, connection = upgraded
    if revision < "mem_003":
        assert after["memory_events"] == {}
    elif revision < "mem_006":
        told = sorted(after["memory_events"].values(), key=lambda event: event["sequence"])
        assert told == sorted(told, key=lambda event: (event["created_at"], event["id"]))
    newest = await connection.fetchval(
        "insert into memory_events (tenant_id, event_type) values ('acme', 'x') returning sequence"
    )
    assert newest > max((row["sequence"] for row in after["memory_events"].values()), default=0)


@pytest.mark.contract("L39")
async def test_every_event_there_was_is_chained(upgraded):
    _, _, after, connection = upgraded
    chained = await connection.fetch(
        "select c.event_id, "
        "c.hash = sha256(lag(c.hash, 1, '') over w || event_digest(e, c.marked)) "
        "from memory_event_chain c join memory_events e on e.id = c.event_id "
        "window w as (partition by c.tenant_id order by c.number)"
    )
    assert {str(row[0]) for row in chained} >= set(after["memory_events"])
    assert all(row[1] for row in chained)


@pytest.mark.contract("L1")
async def test_workers_find_every_tenant_there_was(upgraded):
    _, _, after, connection = upgraded
    async with connection.transaction():
        await connection.execute("select act_for('', 'owner', tenant_proof('', 'owner'))")
        found = {row[0] for row in await connection.fetch("select memory_tenant_names()")}
    tables = ("episodes", "facts", "rules", "entities")
    assert found == {row["tenant_id"] for table in tables for row in after[table].values()}


async def test_the_words_of_every_script_are_told_apart_and_none_is_invented(upgraded):
    """Rows stored before mem_016 with letters beyond ASCII are made anew, the others stay."""
    revision, before, after, _ = upgraded
    for table in ("episodes", "facts", "rules"):
        for key, row in before[table].items():
            found, was = after[table][key]["search_vector"], row["search_vector"]
            if was is not None and not row["content"].isascii() and revision < "mem_016":
                assert "'日本'" in found and "'本語'" in found and "'unicod'" in found
            else:
                assert found == was


async def test_whatever_was_stored_before_is_in_the_index(upgraded):
    *_, connection = upgraded
    assert await connection.fetchval("select count(*) from index_memories") > 12
    assert await differences(connection) == []
    if any("Ann" in row["canonical_name"] for row in upgraded[2]["entities"].values()):
        names = await connection.fetch("select name from index_names where tenant_id = 'acme'")
        assert {"ann", "annie", "änn"} <= {row["name"] for row in names}


@pytest.mark.contract("P8")
async def test_a_migrated_schema_equals_a_fresh_one(upgraded, fresh_schema):
    *_, connection = upgraded
    assert await catalog(connection) == fresh_schema


@pytest.mark.contract("P8")
async def test_one_step_at_a_time_leads_to_the_same_schema(postgres, fresh_schema):
    async with fresh_database(postgres) as name:
        for revision in REVISIONS:
            await migrate(postgres.dsn(name), [MEMORY], [f"memory@{revision}"])
            assert await current_revisions(postgres.dsn(name)) == (revision,)
        async with connected(postgres.dsn(name)) as stepwise:
            assert await catalog(stepwise) == fresh_schema
