"""PostgreSQL for one butler: transactions that each act for one tenant.

Statements run as a role that owns nothing, inside a transaction that proves for which tenant it
acts (see `tenant_proof.py`); row-level security then hides the rows of others. Reads may go to a
replica that is close enough (see `replicas.py`). Driver errors become errors of `butlers.errors`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from asyncpg.pool import PoolConnectionProxy

from butlers.db import address
from butlers.db.driver_errors import replica_errors, translated_errors
from butlers.db.pool import ConnectionPool, Isolation, PoolLimits, PoolTarget
from butlers.db.primary_connector import connect, connected
from butlers.db.queries import NamedQuery, load
from butlers.db.replicas import Replica, Replicas
from butlers.db.tenant_proof import ACT, READS_REPLICAS, TENANTS, Keys, fit_keys, is_pooled, unbind

_SQL = load(__file__)

# asyncpg's records, of which only the mapping from column to value is used.
Row: TypeAlias = Mapping[str, Any]

# The butler itself: no tenant can have this name.
_SYSTEM = ""
_BATCH_ROWS = 200


@dataclass(frozen=True, slots=True)
class Access:
    """The addresses of one database: for its owner, and for the role that serves requests."""

    owner_dsn: str
    runtime_dsn: str
    runtime_role: str | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Transaction:
    """Runs named statements for one tenant, who is the `:tenant_id` of each."""

    _connection: PoolConnectionProxy
    tenant_id: str
    actor: str = ""
    proof: str = ""

    async def fetch(self, query: NamedQuery, /, **values: object) -> list[Row]:
        """Return every row."""
        rows: list[Row] = await self._connection.fetch(*self._bound(query, values))
        return rows

    async def fetch_one(self, query: NamedQuery, /, **values: object) -> Row | None:
        """Return the first row, or None."""
        return cast(Row | None, await self._connection.fetchrow(*self._bound(query, values)))

    async def fetch_value(self, query: NamedQuery, /, **values: object) -> Any:
        """Return the first column of the first row, or None."""
        return await self._connection.fetchval(*self._bound(query, values))

    async def execute(self, query: NamedQuery, /, **values: object) -> int:
        """Run for its effect; return how many rows it touched."""
        status = await self._connection.execute(*self._bound(query, values))
        return int(status.rsplit(" ", 1)[-1])

    async def lock_names(self, subject: str, *names: str) -> None:
        """Lock names of the tenant, each of one subject, until the transaction ends."""
        whole = ["\x1f".join((f"butlers.{subject}", self.tenant_id, name)) for name in names]
        await self.fetch(_SQL["lock_names"], names=whole)

    def _bound(self, query: NamedQuery, values: dict[str, Any]) -> tuple[Any, ...]:
        """Return the statement and its arguments; a caller may not name another tenant."""
        if "tenant_id" in values:
            raise TypeError(f"{query.name}: leave out tenant_id; the transaction sets it")
        own = {"tenant_id": self.tenant_id, "actor": self.actor, "proof": self.proof}
        given = {**own, **values}
        if not values.keys() <= set(query.parameters) <= given.keys():
            raise TypeError(f"{query.name} takes {query.parameters}, got {tuple(values)}")
        return query.positional, *(given[name] for name in query.parameters)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Undo what happens in this block, and only that, if it raises."""
        async with self._connection.transaction():
            yield

    async def stream(self, query: NamedQuery, /, **values: object) -> AsyncIterator[Row]:
        """Yield every row, fetched in batches."""
        async for row in self._connection.cursor(*self._bound(query, values), prefetch=_BATCH_ROWS):
            yield cast(Row, row)


class Database:
    """One butler's database, reached as the role that owns nothing."""

    def __init__(
        self, pool: ConnectionPool, keys: Keys, *, readonly: bool = False, is_replica: bool = False
    ) -> None:
        self._pool = pool
        self._keys = keys
        self._readonly = readonly
        self.is_replica = is_replica
        self._replicas: Replicas[Database] | None = None
        self._reader = self if readonly else Database(pool, keys, readonly=True)

    @classmethod
    async def open(
        cls,
        access: Access,
        *,
        replicas: Sequence[Access] = (),
        max_lag_seconds: float = 1.0,
        **limits: Any,
    ) -> "Database":
        """Connect with these `PoolLimits`; raises Unavailable when the server does not answer.

        Replicas are connected to at the first read, and again when they come back.
        """
        with translated_errors():
            async with connected(access.owner_dsn) as owner:
                pooled = await is_pooled(owner)
                keys = await fit_keys(owner, pooled=pooled)
                replicas = replicas if await owner.fetchval(READS_REPLICAS) else ()
        pool_limits = PoolLimits(**limits)
        target = PoolTarget(access.runtime_dsn, access.runtime_role, keys, pooled)
        database = cls(await ConnectionPool.open(target, pool_limits), keys)
        if database._pool.pool.get_min_size() < pool_limits.pool_min:
            await database.ping()
        if replicas:
            own_limits = replace(pool_limits, quota=None)
            # A pool of its own: checks must not queue behind requests.
            of_checks = replace(own_limits, pool_min=0, pool_max=1)
            primary = cls(await ConnectionPool.open(target, of_checks), keys)
            open_replica = partial(_open_replica, primary=access, keys=keys, limits=own_limits)
            known = [
                Replica(address.without_login(one.owner_dsn), partial(open_replica, one))
                for one in replicas
            ]
            database._replicas = Replicas(primary, known, max_lag_seconds)
        return database

    async def close(self) -> None:
        """Close every connection; busy ones are cut after five seconds."""
        if self._replicas is not None:
            await self._replicas.close()
        await self._pool.close()

    def reader(self, tenant_id: str, *, current: bool = False) -> "Database":
        """Return this database for reading only; a replica if one is close enough.

        A replica has whatever this process wrote for the tenant. `current`: never a replica.
        """
        replica = self._replicas.choose(tenant_id) if self._replicas and not current else None
        return replica or self._reader

    def replica_problems(self) -> dict[str, str]:
        """Return why replicas are not read from, by their address."""
        return self._replicas.problems() if self._replicas else {}

    async def check_replicas(self) -> None:
        """Check now whether each replica can be read from."""
        if self._replicas:
            await self._replicas.check()

    @asynccontextmanager
    async def transaction(
        self, tenant_id: str, actor: str = "", *, snapshot: bool = False, replicas_wait: bool = True
    ) -> AsyncIterator[Transaction]:
        """Open a transaction that sees only this tenant's rows; its events are the actor's.

        `snapshot`: every statement sees the same moment. `replicas_wait`: the tenant is read from
        a replica only when it has what is written here.
        """

        async def act(connection: PoolConnectionProxy) -> None:
            proof = self._keys.proof(tenant_id, actor, connection.get_server_pid())
            await Transaction(connection, tenant_id, actor, proof).fetch(ACT)

        isolation: Isolation = "repeatable_read" if snapshot else None
        try:
            async with self._pool.transaction(
                isolation, readonly=self._readonly, first=act
            ) as connection:
                yield Transaction(connection, tenant_id, actor)
        finally:
            if self._replicas is not None and replicas_wait:
                self._replicas.note_write(tenant_id)

    @asynccontextmanager
    async def system_transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction of the butler itself, which sees no tenant's rows."""
        async with self._pool.transaction(readonly=False) as connection:
            yield Transaction(connection, _SYSTEM)

    async def fetch(self, query: NamedQuery, /, **values: object) -> list[Row]:
        """Run one statement of the butler itself, which sees no tenant's rows."""
        async with self._pool.connection() as connection:
            rows: list[Row] = await connection.fetch(*query.bound(**values))
        return rows

    async def fetch_as(self, tenant_id: str, query: NamedQuery, /, **values: object) -> list[Row]:
        """Run one statement for a tenant in one round trip: it begins with `act_for`.

        Behind a pooler it takes a transaction, since only that stays on one connection.
        """
        if not self._keys.unbound:
            async with self._pool.connection() as connection:
                # Opening a connection may have shown that proofs are unbound now.
                if not self._keys.unbound:
                    proof = self._keys.proof(tenant_id, "", connection.get_server_pid())
                    tx = Transaction(connection, tenant_id, proof=proof)
                    return await tx.fetch(query, **values)
        async with self.transaction(tenant_id, replicas_wait=False) as tx:
            return await tx.fetch(query.acted, **values)

    async def tenants(self) -> list[str]:
        """List every tenant that ever stored something; for workers, never for a caller."""
        async with self.transaction(_SYSTEM) as tx:
            return [row["tenant"] for row in await tx.fetch(TENANTS)]

    async def ping(self) -> None:
        """Raise Unavailable unless the server answers."""
        async with self._pool.connection(patient=False) as connection:
            await connection.fetchval("select 1")


async def _open_replica(
    access: Access, replica: Replica[Database], *, primary: Access, keys: Keys, limits: PoolLimits
) -> Database:
    """Connect to a replica, whose keys are those of the primary."""
    with replica_errors(replica.mark_lost):
        connection = await connect(access.runtime_dsn)
        try:
            pooled = await is_pooled(connection)
        finally:
            await connection.close()
        if pooled and not keys.unbound:
            async with connected(primary.owner_dsn) as owner:
                await unbind(owner)
            keys = replace(keys, unbound=True)
        faults = partial(replica_errors, replica.mark_lost)
        target = PoolTarget(access.runtime_dsn, access.runtime_role, keys, pooled, faults)
        pool = await ConnectionPool.open(target, limits)
    return Database(pool, keys, readonly=True, is_replica=True)
