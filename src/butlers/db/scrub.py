"""What was deleted leaves the files of a database: tables are written anew without it."""

import asyncpg

from butlers.db.provision import connected

_TABLES = """
select quote_ident(relname) from pg_class
where relkind = 'r' and relnamespace = 'public'::regnamespace
  and pg_has_role(relowner, 'USAGE')
order by relname
"""
# Values that are frequent stand there too; only a superuser may have it written anew.
_STATISTICS = "pg_catalog.pg_statistic"


async def scrub(owner_dsn: str) -> list[str]:
    """Write every table anew; what could not be. Others wait while their table's turn lasts."""
    left: list[str] = []
    async with connected(owner_dsn) as connection:
        for row in await connection.fetch(_TABLES):
            await connection.execute(f"vacuum (full, analyze) {row[0]}")
        try:
            await connection.execute(f"vacuum (full) {_STATISTICS}")
            await connection.execute("checkpoint")
        except asyncpg.InsufficientPrivilegeError:
            left.append(_STATISTICS)
    return left
