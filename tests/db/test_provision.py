"""Servers that are fit and servers that are not, and what the person is told to do."""

import asyncio
import subprocess
import sys
import uuid
from contextlib import asynccontextmanager

import pytest

from butlers.db import login
from butlers.db import provision as provisioning
from butlers.db.login import RUNTIME_ROLE, login_of
from butlers.db.provision import external_access, provision
from butlers.errors import Unavailable
from db.databases import connected, fresh_database, fresh_role
from db.embedded_servers import ENVIRONMENT


@asynccontextmanager
async def new_name(postgres):
    """A database name nobody has used; what was made under it is dropped."""
    name = f"made_{uuid.uuid4().hex[:12]}"
    yield name
    async with connected(postgres.dsn()) as connection:
        await connection.execute(f'drop database if exists "{name}" with (force)')
        await connection.execute(f'drop role if exists "{login_of(name)}"')


@asynccontextmanager
async def new_role(postgres, monkeypatch):
    """A name for the runtime role under which there is none yet."""
    role = f"runtime_{uuid.uuid4().hex[:12]}"
    monkeypatch.setattr(provisioning, "RUNTIME_ROLE", role)
    monkeypatch.setattr(login, "RUNTIME_ROLE", role)
    yield role
    async with connected(postgres.dsn()) as connection:
        await connection.execute(f"drop role if exists {role}")


async def refusal(dsn, database, *, sign_in=False):
    """The one line a refused person reads."""
    with pytest.raises(Unavailable) as refused:
        await provision(dsn, database, sign_in=sign_in)
    message = str(refused.value)
    assert message.startswith("database.url: ")
    assert "\n" not in message
    return message


async def test_role_database_and_vectors_are_there_afterwards(postgres, template):
    async with new_name(postgres) as name:
        await provision(postgres.dsn(), name, sign_in=True)
        await provision(postgres.dsn(), name, sign_in=True)
        async with connected(postgres.dsn(name)) as connection:
            assert await connection.fetchval("select '[1]'::vector <=> '[1]'::vector") == 0
            assert await connection.fetchval("show server_encoding") == "UTF8"


async def test_a_server_too_old_is_named_with_the_remedy(postgres, monkeypatch):
    monkeypatch.setattr(provisioning, "_OLDEST_SERVER", 99)
    message = await refusal(postgres.dsn(), "never_made")
    assert "PostgreSQL 18" in message and "upgrade it to 99" in message


async def test_pgvector_too_old_is_named_with_the_remedy(postgres, monkeypatch):
    monkeypatch.setattr(provisioning, "_OLDEST_PGVECTOR", "9.9")
    message = await refusal(postgres.dsn(), "never_made")
    assert "has pgvector 0.8" in message and "pgvector to 9.9 or newer" in message
    async with connected(postgres.dsn()) as connection:
        assert not await connection.fetchval(
            "select true from pg_database where datname = 'never_made'"
        )


async def test_pgvector_missing_is_named_with_the_package(postgres):
    """What a login can see of the available extensions is taken away: it is as if none were."""
    async with fresh_database(postgres) as maintenance:
        async with connected(postgres.dsn(maintenance)) as connection:
            await connection.execute("create schema bare")
            await connection.execute(
                "create view bare.pg_available_extensions as "
                "select * from pg_catalog.pg_available_extensions where name <> 'vector'"
            )
            await connection.execute(
                f"alter database {maintenance} set search_path = bare, pg_catalog, public"
            )
        message = await refusal(postgres.dsn(maintenance), "never_made")
    assert "lacks pgvector" in message and "postgresql-18-pgvector (0.8 or newer)" in message


async def test_an_old_extension_in_the_database_is_named_with_the_remedy(postgres, template):
    async with fresh_database(postgres, template) as name:
        async with connected(postgres.dsn(name)) as connection:
            await connection.execute(
                "update pg_extension set extversion = '0.7.4' where extname = 'vector'"
            )
        message = await refusal(postgres.dsn(), name)
    assert f"{name} still uses pgvector 0.7.4" in message
    assert "ALTER EXTENSION vector UPDATE;" in message


async def test_a_login_that_may_not_use_the_role_is_told_the_sql(postgres, template):
    async with fresh_role(postgres) as powerless:
        message = await refusal(postgres.dsn(user=powerless), "never_made")
        remedy = message.split("run: ")[1]
        assert remedy == f"CREATE ROLE {RUNTIME_ROLE}; GRANT {RUNTIME_ROLE} TO {powerless};"
        async with connected(postgres.dsn()) as superuser:
            await superuser.execute(remedy.split("; ")[1])
        assert "may not create the database" in await refusal(
            postgres.dsn(user=powerless), "never_made"
        )


async def test_a_login_that_may_not_create_the_role_is_told_the_sql(postgres, monkeypatch):
    async with (
        fresh_role(postgres, "createdb") as powerless,
        new_role(postgres, monkeypatch) as role,
    ):
        message = await refusal(postgres.dsn(user=powerless), "never_made")
    assert message.endswith(f"run: CREATE ROLE {role}; GRANT {role} TO {powerless};")


async def test_a_login_that_creates_the_role_may_step_down_to_it(postgres, monkeypatch):
    async with (
        fresh_role(postgres, "createrole") as able,
        new_role(postgres, monkeypatch) as role,
    ):
        message = await refusal(postgres.dsn(user=able), "never_made")
        assert "may not create the database" in message
        async with connected(postgres.dsn(user=able)) as connection:
            await connection.execute(f"set role {role}")
            assert await connection.fetchval("select current_user") == role


async def test_a_login_that_may_not_create_databases_is_told_the_sql(postgres, template):
    async with fresh_role(postgres) as powerless, new_name(postgres) as name:
        async with connected(postgres.dsn()) as superuser:
            await superuser.execute(f"grant {RUNTIME_ROLE} to {powerless}")
            message = await refusal(postgres.dsn(user=powerless), name)
            await superuser.execute(message.split("run: ")[1])
        message = await refusal(postgres.dsn(user=powerless), name)
        assert f"in the database {name}" in message
        async with connected(postgres.dsn(name)) as superuser:
            await superuser.execute(message.split("run: ")[1])
        await provision(postgres.dsn(user=powerless), name, sign_in=False)
        async with connected(postgres.dsn()) as superuser:
            await superuser.execute(f'drop database "{name}" with (force)')


async def test_a_server_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(Unavailable, match="does not answer"):
        await provision(f"postgresql://x@/x?host={tmp_path}", "any", sign_in=True)


@pytest.mark.parametrize("sign_in", [True, False])
async def test_many_at_once_in_one_process(postgres, monkeypatch, sign_in):
    async with new_role(postgres, monkeypatch) as role, new_name(postgres) as name:
        dsn = postgres.dsn()
        await asyncio.gather(*(provision(dsn, name, sign_in=sign_in) for _ in range(6)))
        async with connected(postgres.dsn(name)) as connection:
            assert await connection.fetchval("select count(*) from pg_extension") == 2
            logins = await connection.fetch(
                "select rolname from pg_roles where rolcanlogin and pg_has_role(oid, $1, 'member') "
                "and not rolsuper",
                role,
            )
            assert [row["rolname"] for row in logins] == [login_of(name)] * sign_in


_PROVISION = """
import asyncio, sys
from butlers.db.provision import provision
asyncio.run(provision(sys.argv[1], sys.argv[2], sign_in=True))
"""


async def test_two_processes_at_once(postgres):
    async with new_name(postgres) as name:
        command = [sys.executable, "-c", _PROVISION, postgres.dsn(), name]
        processes = [
            subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE) for _ in range(2)
        ]
        outcomes = [(process.communicate()[1], process.returncode) for process in processes]
        assert outcomes == [(b"", 0), (b"", 0)]
        async with connected(postgres.dsn(name)) as connection:
            assert await connection.fetchval("select count(*) from pg_extension") == 2


def test_an_external_server_is_entered_once_and_stepped_down_from():
    access = external_access("postgresql://me:p%40ss@db:5432/postgres?sslmode=require", "butler_x")
    assert access.owner_dsn == "postgresql://me:p%40ss@db:5432/butler_x?sslmode=require"
    assert (access.runtime_dsn, access.runtime_role) == (access.owner_dsn, RUNTIME_ROLE)
