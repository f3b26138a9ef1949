"""Loading a million facts in minutes: as the product would have stored them, without its flow.

The first facts are stored by the product. The others get their texts and vectors by COPY and all
else from the first of them; then they enter the index by the product's own functions, all at once
in place of one by one. Only the audit stream knows nothing of them.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
from pgvector.asyncpg import register_vector

from bench.speed_load import Note, Vectors

# From more facts than this on a tenant is loaded so, after the first ones.
QUICKLY, FIRST = 10_000, 500
_OWN = ("id", "subject", "predicate", "content", "embedding", "created_at", "last_confirmed_at")
_COLUMNS = """
    select column_name from information_schema.columns
    where table_schema = 'public' and table_name = $1 and is_generated = 'NEVER'
"""
_MADE_LATER = """
    select conrelid::regclass::text as of, conname as name, pg_get_constraintdef(oid) as definition
    from pg_constraint where conname in ('facts_hold_apart', 'index_words_pkey') order by conname
"""
_FACTS = """
    insert into facts (search_vector, {own}, {others})
    select to_tsvector('english', s.subject || ' ' || s.predicate || ' ' || s.content), {staged},
      {first}
    from staged s cross join (
      select * from facts where tenant_id = $1 order by created_at, id limit 1
    ) f
"""
_MEMORIES = """
    insert into index_memories ({shared}, length)
    select {shared}, word_count(m.search_vector)
    from indexed_memories m
    where tenant_id = $1 and memory_id in (select id from staged)
    order by created_at, memory_id
"""
_WORDS = """
    insert into index_words (tenant_id, word, doc, impact, place)
    select i.tenant_id, lexeme, i.doc,
      bm25_impact(coalesce(array_length(positions, 1), 1), i.length), coalesce(positions[1], 0)
    from index_memories i join facts f on f.tenant_id = i.tenant_id and f.id = i.memory_id
    cross join unnest(f.search_vector)
    where i.tenant_id = $1 and i.memory_id in (select id from staged)
    order by i.doc
"""
_VECTORS = """
    insert into index_vectors (tenant_id, version_id, doc, embedding)
    select i.tenant_id, m.version_id, i.doc, m.embedding::halfvec(384)
    from index_memories i join indexed_vectors m
      on m.tenant_id = i.tenant_id and m.memory_id = i.memory_id
    where i.tenant_id = $1 and i.memory_id in (select id from staged)
"""


async def load_many(owner: asyncpg.Connection, tenant: str, vectors: Vectors, rest: range) -> None:
    """Store facts of which the product has stored others before, all at once."""
    await register_vector(owner)
    own, shared = ", ".join(_OWN), await _shared(owner)
    others = [one for one in await _columns(owner, "facts") if one not in (*_OWN, "search_vector")]
    last = await owner.fetchval("select max(created_at) from facts where tenant_id = $1", tenant)
    await owner.execute(f"create unlogged table staged as select {own} from facts with no data")
    for notes in vectors.notes(rest):
        await owner.copy_records_to_table("staged", records=list(_rows(notes, rest.start, last)))
    told = {
        "own": own,
        "others": ", ".join(others),
        "staged": ", ".join(f"s.{one}" for one in _OWN),
        "first": ", ".join(f"f.{one}" for one in others),
        "shared": ", ".join(shared),
    }
    async with _constraints_made_later(owner), owner.transaction():
        await owner.execute("set local session_replication_role = replica")
        for statement in (_FACTS, _MEMORIES, _WORDS, _VECTORS):
            await owner.execute(statement.format(**told), tenant)
    await owner.execute("drop table staged")


def _rows(notes: list[Note], start: int, last: datetime) -> Iterator[tuple[Any, ...]]:
    """What is a fact's own, stored a millisecond after the one before."""
    for note in notes:
        stored_at = last + timedelta(milliseconds=1 + note.number - start)
        said = (note.fact.subject, note.fact.predicate, note.fact.content)
        yield (uuid4(), *said, note.vector, stored_at, stored_at)


async def _columns(owner: asyncpg.Connection, table: str) -> list[str]:
    return [row["column_name"] for row in await owner.fetch(_COLUMNS, table)]


async def _shared(owner: asyncpg.Connection) -> list[str]:
    """What the index takes over from a memory as it is."""
    known = set(await _columns(owner, "indexed_memories"))
    return [one for one in await _columns(owner, "index_memories") if one in known]


@asynccontextmanager
async def _constraints_made_later(owner: asyncpg.Connection) -> AsyncIterator[None]:
    """What is slow to check row by row is checked once everything is there."""
    constraints = await owner.fetch(_MADE_LATER)
    for one in constraints:
        await owner.execute(f"alter table {one['of']} drop constraint {one['name']}")
    yield
    async with owner.transaction():
        await owner.execute("set local maintenance_work_mem = '2GB'")
        for one in constraints:
            await owner.execute(
                f"alter table {one['of']} add constraint {one['name']} {one['definition']}"
            )
