"""PostgreSQL for one butler: a pool of connections that act for one tenant at a time.

Statements run as a role that owns nothing, inside a transaction that proves for which
tenant it acts (see `wall.py`); row-level security then hides everybody else's rows. What only reads
may be asked of a replica that is near (see `replicas.py`). Driver errors leave as errors of ours.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from asyncpg.pool import PoolConnectionProxy

from butlers.db import address
from butlers.db.connections import Bounds, ConnectionPool, Isolation
from butlers.db.faults import replica_errors, translated_errors
from butlers.db.primary_connector import connect
from butlers.db.queries import NamedQuery
from butlers.db.replicas import Replica, Replicas
from butlers.db.tenant_proof import ACT, READS_REPLICAS, TENANTS, Keys, fit_keys, is_pooled, unbind

# asyncpg's records are mappings from column to value; nothing else of theirs is used.
Row: TypeAlias = Mapping[str, Any]

# The butler itself: no tenant can have this name.
_SYSTEM = ""
_FEW = 200


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one database: as its owner, and as the role that serves requests."""

    owner_dsn: str
    runtime_dsn: str
    runtime_role: str | None = None


class Transaction:
    """Named statements inside one transaction of one tenant, who is the `:tenant_id` of each."""

    def __init__(
        self, connection: PoolConnectionProxy, tenant_id: str, actor: str = "", proof: str = ""
    ) -> None:
        self._connection = connection
        self.tenant_id = tenant_id
        self.actor = actor
        self._known = {"tenant_id": tenant_id, "actor": actor, "proof": proof}

    async def fetch(self, query: NamedQuery, /, **values: object) -> list[Row]:
        """Every row of the answer."""
        rows: list[Row] = await self._connection.fetch(*self._bound(query, values))
        return rows

    async def fetch_one(self, query: NamedQuery, /, **values: object) -> Row | None:
        """The first row of the answer, or None."""
        return cast(Row | None, await self._connection.fetchrow(*self._bound(query, values)))

    async def fetch_value(self, query: NamedQuery, /, **values: object) -> Any:
        """The first column of the first row, or None."""
        return await self._connection.fetchval(*self._bound(query, values))

    async def execute(self, query: NamedQuery, /, **values: object) -> int:
        """Run for its effect; how many rows it touched."""
        status = await self._connection.execute(*self._bound(query, values))
        return int(status.rsplit(" ", 1)[-1])

    def _bound(self, query: NamedQuery, values: dict[str, Any]) -> tuple[Any, ...]:
        """The statement and its arguments; whose rows it is about is nobody else's to say."""
        if "tenant_id" in values:
            raise TypeError(f"{query.name}: the transaction says which tenant it is for")
        known = {name: self._known[name] for name in query.parameters if name in self._known}
        return query.bound(**{**known, **values})

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """What happens inside is undone alone if it raises."""
        async with self._connection.transaction():
            yield

    async def stream(self, query: NamedQuery, /, **values: object) -> AsyncIterator[Row]:
        """Every row of the answer, a few at a time, however many there are."""
        async for row in self._connection.cursor(*self._bound(query, values), prefetch=_FEW):
            yield cast(Row, row)


class Database:
    """One butler's database, reached as the role that owns nothing."""

    def __init__(
        self, connections: ConnectionPool, keys: Keys, *, reads: bool = False, is_copy: bool = False
    ) -> None:
        """What only `reads` can change nothing; a copy is a replica."""
        self._connections = connections
        self._keys = keys
        self._reads = reads
        self.is_copy = is_copy
        self._replicas: Replicas[Database] | None = None

    @classmethod
    async def open(
        cls,
        access: Access,
        *,
        replicas: Sequence[Access] = (),
        max_lag_seconds: float = 1.0,
        **within: Any,
    ) -> "Database":
        """Connect, within these bounds; raises Unavailable when the server does not answer.

        Replicas are connected to when somebody first reads, and again when they come back.
        """
        with translated_errors():
            owner = await connect(access.owner_dsn)
            try:
                pooled = await is_pooled(owner)
                keys = await fit_keys(owner, pooled=pooled)
                replicas = replicas if await owner.fetchval(READS_REPLICAS) else ()
            finally:
                await owner.close()
        bounds = Bounds(**within)
        opened = partial(
            ConnectionPool.open, access.runtime_dsn, access.runtime_role, pooled=pooled
        )
        database = cls(await opened(bounds, keys), keys)
        if database._connections.pool.get_min_size() < bounds.pool_min:
            await database.ping()
        if replicas:
            # Apart from requests, which must not make it wait just when replicas are needed most.
            asked = cls(
                await opened(replace(bounds, pool_min=0, pool_max=1, share=None), keys), keys
            )
            alone = replace(bounds, share=None)
            open_each = partial(_open_replica, primary=access, keys=keys, bounds=alone)
            known = [
                Replica(address.without_login(one.owner_dsn), partial(open_each, one))
                for one in replicas
            ]
            database._replicas = Replicas(asked, known, max_lag_seconds)
        return database

    async def close(self) -> None:
        """Give every connection back; those still busy are cut after a moment."""
        if self._replicas is not None:
            await self._replicas.close()
        await self._connections.close()

    def reader(self, tenant_id: str, *, current: bool = False) -> "Database":
        """The same database to read from, which may be a replica that is near, unless `current`.

        A replica has whatever this process wrote for the tenant.
        """
        near = self._replicas.near(tenant_id) if self._replicas and not current else None
        return near or Database(self._connections, self._keys, reads=True)

    def replica_troubles(self) -> dict[str, str]:
        """What is known to be wrong with replicas, by where they are."""
        return self._replicas.troubles() if self._replicas else {}

    async def look_at_replicas(self) -> None:
        """Know of each replica whether it can be read from, and wait for that."""
        if self._replicas:
            await self._replicas.look()

    @asynccontextmanager
    async def transaction(
        self, tenant_id: str, actor: str = "", *, at_one_moment: bool = False, aside: bool = False
    ) -> AsyncIterator[Transaction]:
        """One transaction in which only this tenant's rows exist; events in it are the actor's.

        `at_one_moment`: all that is read is of one moment, whoever writes meanwhile. `aside`:
        replicas need not have what is written here before they are read from.
        """
        isolation: Isolation = "repeatable_read" if at_one_moment else None
        try:
            async with self._connections.begun(
                isolation,
                readonly=self._reads,
                first=lambda one: self._acting(one, tenant_id, actor).fetch_value(ACT),
            ) as connection:
                yield self._acting(connection, tenant_id, actor)
        finally:
            if self._replicas is not None and not aside:
                self._replicas.wrote(tenant_id)

    @asynccontextmanager
    async def system_transaction(self) -> AsyncIterator[Transaction]:
        """One transaction of the butler itself, in which no tenant's rows exist."""
        async with self._connections.begun(readonly=False) as connection:
            yield Transaction(connection, _SYSTEM)

    async def fetch(self, query: NamedQuery, /, **values: object) -> list[Row]:
        """One statement of the butler itself, to which no tenant's rows exist."""
        async with self._connections.one() as connection:
            rows: list[Row] = await connection.fetch(*query.bound(**values))
        return rows

    async def fetch_as(self, tenant_id: str, query: NamedQuery, /, **values: object) -> list[Row]:
        """One statement for a tenant in one round trip: it begins with `act_for`.

        Where proofs are unbound, whoever answers is known only within a transaction.
        """
        if not self._keys.unbound:
            async with self._connections.one() as connection:
                # A connection that was made just now may have said otherwise.
                if not self._keys.unbound:
                    return await self._acting(connection, tenant_id).fetch(query, **values)
        async with self.transaction(tenant_id, aside=True) as tx:
            return await tx.fetch(query.acted, **values)

    def _acting(
        self, connection: PoolConnectionProxy, tenant_id: str, actor: str = ""
    ) -> Transaction:
        """Statements for a tenant, and the proof that this connection may act for it."""
        proof = self._keys.proof(tenant_id, actor, connection.get_server_pid())
        return Transaction(connection, tenant_id, actor, proof)

    async def tenants(self) -> list[str]:
        """Every tenant that ever stored something here; for workers, never for a caller."""
        async with self.transaction(_SYSTEM) as tx:
            return [row["tenant"] for row in await tx.fetch(TENANTS)]

    async def ping(self) -> None:
        """Raise Unavailable unless the server answers."""
        async with self._connections.one(patient=False) as connection:
            await connection.fetchval("select 1")


async def _open_replica(
    access: Access, replica: Replica[Database], *, primary: Access, keys: Keys, bounds: Bounds
) -> Database:
    """A replica to read from; its keys are those of the primary, of which it is a copy."""
    with replica_errors(replica.lost):
        visitor = await connect(access.runtime_dsn)
        try:
            pooled = await is_pooled(visitor)
        finally:
            await visitor.close()
        if pooled and not keys.unbound:
            keys = await _unbound(primary, keys)
        faults = partial(replica_errors, replica.lost)
        connections = await ConnectionPool.open(
            access.runtime_dsn, access.runtime_role, bounds, keys, pooled=pooled, faults=faults
        )
    return Database(connections, keys, reads=True, is_copy=True)


async def _unbound(primary: Access, keys: Keys) -> Keys:
    owner = await connect(primary.owner_dsn)
    try:
        await unbind(owner)
    finally:
        await owner.close()
    return replace(keys, unbound=True)
