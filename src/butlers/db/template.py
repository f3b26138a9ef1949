"""Create the databases of butlers as copies of a migrated template, which is many times quicker.

The only butler of a server gets no template.
"""

from collections.abc import Callable, Sequence

import asyncpg
import structlog

from butlers import __version__
from butlers.db.branch import Branch
from butlers.db.login import close_to_strangers
from butlers.db.migrate import migrate, newest
from butlers.db.primary_connector import connected
from butlers.db.provision import ensure_role, equip
from butlers.errors import ButlersError

TEMPLATE = "butlers_template"
_ONE_AT_A_TIME = "select pg_advisory_lock(hashtextextended('butlers.template', 0))"
_NEXT = "select pg_advisory_unlock(hashtextextended('butlers.template', 0))"
_IS_THERE = "select exists (select from pg_database where datname = $1)"
_HAS_OTHERS = r"select exists (select from pg_database where datname like 'butler\_%')"
_MADE_FOR = """
    select shobj_description(oid, 'pg_database') from pg_database where datname = $1
"""

log = structlog.get_logger(__name__)


async def copy_template(
    dsn_of: Callable[[str], str],
    database: str,
    branches: Sequence[Branch],
    targets: Sequence[str],
    *,
    is_one_of_many: bool = False,
) -> None:
    """Create a missing database as a copy of the template, if it is not the only one.

    Does nothing where no template can be made, or not every branch is wanted. A copy has no keys.
    """
    if len(targets) < len(branches):
        return
    async with connected(dsn_of("postgres")) as connection:
        if await connection.fetchval(_IS_THERE, database):
            return
        if not (is_one_of_many or await connection.fetchval(_HAS_OTHERS)):
            return
        await connection.execute(_ONE_AT_A_TIME)
        try:
            await _make(connection, dsn_of, branches, targets)
            await connection.execute(_NEXT)
            # Copies of files are written to the disk together, those through the log one by one.
            copied = f'create database "{database}" template {TEMPLATE} strategy file_copy'
            await connection.execute(copied)
        except asyncpg.DuplicateDatabaseError:
            pass  # another process was quicker
        except (ButlersError, asyncpg.PostgresError) as error:
            log.warning("no template for databases", error=str(error))


async def _make(
    connection: asyncpg.Connection,
    dsn_of: Callable[[str], str],
    branches: Sequence[Branch],
    targets: Sequence[str],
) -> None:
    """Make the template for these targets, unless this version has made it."""
    made_for = " ".join([__version__, *sorted(newest(branches, targets))])
    if await connection.fetchval(_MADE_FOR, TEMPLATE) == made_for:
        return
    await ensure_role(connection, sign_in=True)
    await connection.execute(f"drop database if exists {TEMPLATE} with (force)")
    await connection.execute(f"create database {TEMPLATE} encoding 'UTF8' template template0")
    await equip(dsn_of("postgres"), TEMPLATE, sign_in=True)
    await migrate(dsn_of(TEMPLATE), branches, targets)
    async with connected(dsn_of(TEMPLATE)) as template:
        await template.execute("delete from tenant_key")
    # Nobody can connect from here on: a copy waits for no client.
    await close_to_strangers(connection, TEMPLATE)
    await connection.execute(f"alter database {TEMPLATE} allow_connections false")
    await connection.execute(f"comment on database {TEMPLATE} is '{made_for}'")
