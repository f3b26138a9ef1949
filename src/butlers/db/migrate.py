"""Migrations: one chain of revisions per module, applied to each butler's database."""

import asyncio
from collections.abc import Sequence

from butlers.db.branch import Branch
from butlers.db.driver_errors import translated_errors
from butlers.db.primary_connector import connected
from butlers.errors import Unavailable

# What to do with a database older than the oldest revision in the code.
WAY_OUT = (
    "this version no longer upgrades it. Run `butlers export FILE` with the version that made it, "
    "then `butlers import FILE` with this version in a new home or on a new database"
)


async def migrate(
    dsn: str, branches: Sequence[Branch], targets: Sequence[str] | None = None
) -> bool:
    """Migrate one database to the newest revision of the target branches, in one transaction.

    Return whether it had an older one.

    `branches` are all that are known, disabled modules included; `targets` (default: the head of
    each) says which are applied. Unavailable, and no change, where that fails or the database is
    older than a baseline. Runs on a thread of its own.
    """
    wanted = targets if targets is not None else [f"{b.label}@head" for b in branches]
    current = await current_revisions(dsn)
    if newest(branches, wanted) <= set(current):
        return False
    if too_old := retired_revisions(branches, current):
        raise Unavailable(f"the database is at revision {', '.join(too_old)}: {WAY_OUT}")
    # Most starts find nothing to do, and Alembic takes longer to import than all else together.
    from butlers.db.upgrade import upgrade  # noqa: PLC0415

    await asyncio.to_thread(upgrade, dsn, branches, wanted)
    return bool(current)


async def current_revisions(dsn: str) -> tuple[str, ...]:
    """Return the revisions of a database, one per branch that was ever applied."""
    with translated_errors():
        async with connected(dsn) as connection:
            if await connection.fetchval("select to_regclass('alembic_version')") is None:
                return ()
            rows = await connection.fetch("select version_num from alembic_version order by 1")
    return tuple(row["version_num"] for row in rows)


def newest(branches: Sequence[Branch], targets: Sequence[str]) -> set[str]:
    """Return the revisions that the targets end at; an unknown target never matches."""
    heads = {f"{branch.label}@head": branch.head for branch in branches}
    return {heads.get(target) or f"unknown: {target}" for target in targets}


def retired_revisions(branches: Sequence[Branch], revisions: Sequence[str]) -> list[str]:
    """Return the revisions of a database that are older than the oldest in the code."""
    return [r for r in revisions if any(branch.is_retired(r) for branch in branches)]
