"""Citus: distribute the tenants of a butler's database over the nodes of a cluster.

The core loads `EXTENSION` by `butlers.extension` and knows nothing else of this package.
"""

from collections.abc import Sequence

from butlers.extension import DatabaseCommand, Extension


class ClusterExtension:
    """What the core calls; every method imports what it needs, so that commands start quickly."""

    node_failures: tuple[str, ...] = (
        "failure on connection marked as essential",
        "could not commit transaction for shard",
    )

    def commands(self) -> Sequence[DatabaseCommand]:
        """Return the commands that distribute a database and move its tenants."""
        from butlers_cluster import cli

        return cli.COMMANDS

    async def after_migration(self, maintenance_dsn: str, dsn: str, database: str) -> None:
        """Distribute a new database of a cluster, and what a migration added to an old one."""
        from butlers_cluster.distribution import ensure_distributed

        await ensure_distributed(maintenance_dsn, dsn, database)


EXTENSION: Extension = ClusterExtension()
