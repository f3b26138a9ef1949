"""The tables every butler has: the words of the code are theirs, and no tenant's rows show."""

import re

import asyncpg
import pytest

from butlers.db.embedded.server import EmbeddedPostgres
from butlers.db.migrate import migrate
from butlers.db.postgres import Database
from butlers.db.queries import parse
from butlers.host.registry import CORE
from butlers.jobs import spending
from butlers.jobs.policy import Cause, RunOutcome
from butlers.sessions import log
from db.databases import catalog, connected, fresh_database

WORDS = {
    "job_runs_cause": Cause,
    "job_runs_outcome": RunOutcome,
    "language_model_spend_account": spending.BudgetAccount,
    "language_model_spend_outcome": spending.CompletionOutcome,
    "session_log_kind": log.SessionKind,
    "session_log_outcome": log.SessionOutcome,
}


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


# What a wall raised before keys could be unbound consists of, as far as it differs.
OLDER_WALL = """
create or replace function tenant_proof(tenant text, actor text) returns text
language sql stable parallel restricted set search_path = pg_catalog, pg_temp
return (
  select encode(sha256(k.outer_key || sha256(
    k.inner_key || sha256(convert_to(tenant, 'UTF8')) || sha256(convert_to(actor, 'UTF8'))
      || int4send(pg_backend_pid())
  )), 'hex')
  from public.tenant_key k
);
create or replace function proven_tenant() returns text
language plpgsql stable parallel restricted security definer
set search_path = pg_catalog, pg_temp as $$ begin return null; end $$;
alter table tenant_key drop column unbound;
"""


@pytest.mark.contract("L1", "P8")
async def test_an_older_wall_becomes_the_one_that_is_raised_now(
    postgres: EmbeddedPostgres, template: str
) -> None:
    found = []
    for before in ("select 1", OLDER_WALL):
        async with fresh_database(postgres) as name, connected(postgres.dsn(name)) as owner:
            await migrate(postgres.dsn(name), [CORE], ["core_005"])
            keys = await owner.fetch("select inner_key, outer_key from tenant_key")
            await owner.execute(before)
            await migrate(postgres.dsn(name), [CORE])
            assert await owner.fetch("select inner_key, outer_key from tenant_key") == keys
            assert await owner.fetchval("select unbound from tenant_key") is False
            schema = await catalog(owner)
            columns = schema.pop("columns")
            # A column that was dropped to be added again counts in its number.
            found.append((schema, [(*column[:2], *column[3:]) for column in columns]))
    assert found[0] == found[1]
