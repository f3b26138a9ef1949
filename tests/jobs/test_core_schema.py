"""The tables every butler has: every statement fits them, and so do the words of the code."""

import re
from pathlib import Path

import asyncpg
import pytest

from butlers import jobs
from butlers.db.postgres import Access, Database
from butlers.db.queries import Query, parse
from butlers.jobs import spending
from butlers.jobs.policy import Cause, Outcome
from db.databases import connected

FILES = sorted(Path(jobs.__file__).parent.glob("*.sql"))
QUERIES = [
    pytest.param(query, id=f"{file.stem}.{query.name}")
    for file in FILES
    for query in parse(file.read_text()).values()
]
WORDS = {
    "job_runs_cause": Cause,
    "job_runs_outcome": Outcome,
    "language_model_spend_account": spending.Account,
    "language_model_spend_outcome": spending.Outcome,
}


def test_there_is_something_to_look_at() -> None:
    assert [file.stem for file in FILES] == ["runs", "spending"]
    assert len(QUERIES) >= 15


@pytest.mark.parametrize("query", QUERIES)
async def test_it_fits_the_schema_and_the_rights_of_the_role_that_runs_it(
    core_access: Access, query: Query
) -> None:
    async with connected(core_access.runtime_dsn) as runtime:
        statement = await runtime.prepare(query.positional)
        assert len(statement.get_parameters()) == len(query.parameters)
        await runtime.execute(f"explain (generic_plan) {query.positional}")


@pytest.mark.parametrize("query", QUERIES)
def test_it_names_its_columns_and_is_told_the_time(query: Query) -> None:
    assert not re.search(r"(select|returning|,)\s+(\w+\.)?\*", query.text)
    assert not re.search(r"\bnow\(|current_(timestamp|date)|clock_timestamp", query.text)


@pytest.mark.parametrize("constraint", WORDS)
async def test_the_words_of_the_code_are_those_of_the_database(
    core_owner: asyncpg.Connection, constraint: str
) -> None:
    definition = await core_owner.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = $1", constraint
    )
    assert set(re.findall(r"'(\w+)'::", definition)) == {str(word) for word in WORDS[constraint]}


async def test_the_butler_itself_sees_no_tenants_rows(
    database: Database, owner: asyncpg.Connection
) -> None:
    await owner.execute(
        "insert into facts (tenant_id, subject, predicate, content) values ('acme', 'a', 'b', 'c')"
    )
    count = parse("-- count --\n-- Facts.\nselect count(*) from facts")["count"]
    async with database.transaction("acme") as tx:
        assert await tx.fetch_value(count) == 1
    async with database.system_transaction() as tx:
        assert await tx.fetch_value(count) == 0
