"""The tables every butler has: the words of the code are theirs, and no tenant's rows show."""

import re

import asyncpg
import pytest

from butlers.db.postgres import Database
from butlers.db.queries import parse
from butlers.jobs import spending
from butlers.jobs.policy import Cause, RunOutcome
from butlers.sessions import log
from butlers.sessions.injections import Delivery, InjectionEvent

WORDS = {
    "job_runs_cause": Cause,
    "job_runs_outcome": RunOutcome,
    "language_model_spend_account": spending.BudgetAccount,
    "language_model_spend_outcome": spending.CompletionOutcome,
    "injections_event": InjectionEvent,
    "injections_outcome": Delivery,
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
