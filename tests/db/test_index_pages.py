"""The pages of indexes, checked by the server itself."""

import pytest

from butlers.db.index_pages import check_pages, sequences
from db.databases import connected, fresh_database

DAMAGED = """
create table words (word text, number integer generated always as identity);
create function turned(word text) returns text language sql immutable return reverse(word);
create index words_turned on words (turned(word));
create index words_word on words (word);
insert into words select 'word ' || n from generate_series(1, 500) n;
create or replace function turned(word text) returns text language sql immutable return word;
"""


async def test_a_damaged_index_is_named_and_nothing_stays_of_the_extension(postgres):
    async with fresh_database(postgres) as name:
        dsn = postgres.dsn(name)
        async with connected(dsn) as connection:
            await connection.execute(DAMAGED)
        damaged, why_not = await check_pages(dsn)
        assert why_not == ""
        assert damaged.keys() == {"public.words_turned"}
        assert "lacks matching index tuple" in damaged["public.words_turned"]
        assert await sequences(dsn) == {"words": 500}
        async with connected(dsn) as connection:
            assert not await connection.fetchval(
                "select 1 from pg_extension where extname = 'amcheck'"
            )


async def test_who_may_not_check_pages_is_told_so(postgres):
    async with fresh_database(postgres) as name:
        async with connected(postgres.dsn(name)) as connection:
            await connection.execute("create role nobody_special login")
        try:
            damaged, why_not = await check_pages(postgres.dsn(name, "nobody_special"))
            assert damaged == {}
            assert why_not == 'permission denied to create extension "amcheck"'
        finally:
            async with connected(postgres.dsn(name)) as connection:
                await connection.execute("drop role nobody_special")


@pytest.mark.usefixtures("owner")
async def test_the_indexes_of_a_memory_are_whole(worker_access):
    assert await check_pages(worker_access.owner_dsn) == ({}, "")
    assert {"memory_events", "index_memories"} <= (await sequences(worker_access.owner_dsn)).keys()
