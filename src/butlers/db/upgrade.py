"""Apply migrations with Alembic; imported only when there is something to apply.

Alembic's `op` and `context` are process-wide: a lock keeps other threads out, and a lock in the
database other processes.
"""

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import structlog
from alembic import command, op
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import text
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from butlers.db import tenant_proof
from butlers.db.branch import Branch
from butlers.db.driver_errors import translated_errors
from butlers.db.primary_connector import connect
from butlers.db.queries import load
from butlers.errors import Unavailable

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

log = structlog.get_logger(__name__)
_one_at_a_time = threading.Lock()
_LOCK = text("select pg_advisory_xact_lock(hashtextextended('butlers.migrate', 0))")
_TABLES = text(
    "select string_agg(quote_ident(relname), ', ' order by relname) from pg_class "
    "where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') "
    "and pg_has_role(relowner, 'usage')"
)
# Everybody queues behind us while we wait for a table: give up before that is a deadlock.
_SHORT_TIMEOUT = text("set local statement_timeout = '500ms'")
_NO_TIMEOUT = text("set local statement_timeout = 0")
_PAUSE_SECONDS, _PATIENCE_SECONDS = 0.5, 600.0
# Sections of a schema that may run again: functions, views, and who may call functions.
_REPLACEABLE = re.compile("create or replace|execute on function")


def head_revision(branches: Sequence[Branch], label: str) -> str:
    """Return the newest revision of one branch in the code."""
    script = ScriptDirectory.from_config(_config(branches)).get_revision(f"{label}@head")
    return str(script.revision) if script else ""


def upgrade(dsn: str, branches: Sequence[Branch], targets: Sequence[str]) -> None:
    """Migrate one database to the targets; blocks, so call it in a thread."""
    with _one_at_a_time, _explained():
        asyncio.run(_retried(dsn, branches, targets))


def run_sections(revision_file: str) -> None:
    """Run the `.sql` file beside a revision, section by section; a section is a script."""
    for section in load(revision_file).values():
        _run(op.get_bind(), section.text)


def _run(connection: "Connection", script: str) -> None:
    """Run several statements at once, which only the driver itself can."""
    adapted = connection.connection.dbapi_connection
    assert isinstance(adapted, AdaptedConnection)
    adapted.run_async(lambda driver: driver.execute(script))


async def _retried(dsn: str, branches: Sequence[Branch], targets: Sequence[str]) -> None:
    """Migrate; while others use the tables, pause and try again."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return await _under_lock(dsn, branches, targets)
        except (DBAPIError, asyncpg.PostgresError) as error:
            is_late = time.monotonic() > deadline
            if is_late or not isinstance(_driver_message(error), asyncpg.QueryCanceledError):
                raise
            log.info("tables are in use; the migration waits")
            await asyncio.sleep(_PAUSE_SECONDS)


async def _under_lock(dsn: str, branches: Sequence[Branch], targets: Sequence[str]) -> None:
    async with _connected(dsn) as connection:
        await connection.execute(_LOCK)
        await _lock_tables(connection)
        await _ensure_tenant_proof(connection)
        await connection.run_sync(_upgrade, branches, targets)
        await connection.commit()


async def _lock_tables(connection: AsyncConnection) -> None:
    """Lock every table for this transaction, all at once and first, so that nothing deadlocks."""
    if tables := (await connection.execute(_TABLES)).scalar():
        await connection.execute(_SHORT_TIMEOUT)
        await connection.execute(text(f"lock table {tables} in access exclusive mode"))
        await connection.execute(_NO_TIMEOUT)


async def _ensure_tenant_proof(connection: AsyncConnection) -> None:
    """Create what the policies of every branch call, if it is missing."""
    raw = (await connection.get_raw_connection()).driver_connection
    assert raw is not None
    if not await raw.fetchval(tenant_proof.IS_THERE):
        for step in tenant_proof.STEPS:
            await raw.execute(step)


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[AsyncConnection]:
    """Connect through SQLAlchemy for this block."""
    engine = create_async_engine(
        "postgresql+asyncpg://",
        poolclass=NullPool,
        connect_args={
            # SQLAlchemy cannot read `sslmode` and other parts of a DSN.
            "async_creator_fn": partial(connect, dsn),
            # Behind a pooler, another client would find a named statement.
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": str,
        },
    )
    with translated_errors():
        connection = await engine.connect()
    try:
        yield connection
    finally:
        await connection.close()
        await engine.dispose()


@contextmanager
def _explained() -> Iterator[None]:
    """Translate what stops a migration to Unavailable with what to do."""
    try:
        yield
    except CommandError as error:
        raise Unavailable(
            f"the database was written by a newer or another installation ({error}); "
            "install the version of butlers that wrote it"
        ) from error
    except (DBAPIError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise Unavailable(
            "the database could not be brought up to date and is unchanged: "
            f"{str(_driver_message(error)).splitlines()[0]}"
        ) from error


def _driver_message(error: Exception) -> BaseException:
    """Return the driver's error, also where SQLAlchemy wrapped it."""
    passed_on = error.orig.__cause__ if isinstance(error, DBAPIError) and error.orig else error
    return passed_on or error


def _config(branches: Sequence[Branch]) -> Config:
    config = Config()
    config.set_main_option("script_location", "butlers:db/alembic")
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(b.location for b in branches))
    return config


def _upgrade(connection: "Connection", branches: Sequence[Branch], targets: Sequence[str]) -> None:
    config = _config(branches)
    config.attributes["connection"] = connection
    with_schema = {f"{branch.label}@head": branch for branch in branches if branch.schema}
    for target in targets:
        if target in with_schema:
            _reach_head(connection, config, with_schema[target])
        else:
            command.upgrade(config, target)


def _reach_head(connection: "Connection", config: Config, branch: Branch) -> None:
    """Create the schema of a branch, or apply its missing revisions and replace its functions.

    A revision changes tables and data only; functions and views always come from the schema.
    """
    target = f"{branch.label}@head"
    scripts = ScriptDirectory.from_config(config)
    before = MigrationContext.configure(connection).get_current_heads()
    found = [script for revision in before if (script := scripts.get_revision(revision))]
    if not any(branch.label in script.branch_labels for script in found):
        _run_schema(connection, branch, only_replaceable=False)
        command.stamp(config, target)
        return
    command.upgrade(config, target)
    if MigrationContext.configure(connection).get_current_heads() != before:
        _run_schema(connection, branch, only_replaceable=True)


def _run_schema(connection: "Connection", branch: Branch, *, only_replaceable: bool) -> None:
    package, _, path = branch.schema.rpartition(":")
    directory = Path(str(files(package).joinpath(path))) if package else Path(path)
    for file in sorted(directory.glob("*.sql")):
        sections = [section.text for section in load(str(file)).values()]
        if only_replaceable:
            sections = [text for text in sections if _REPLACEABLE.search(text)]
        if sections:
            _run(connection, ";\n".join(sections))
