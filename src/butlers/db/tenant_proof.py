"""Whom a transaction acts for is proven to the database, not merely said.

The process knows keys that the role serving requests cannot read. With them it signs the tenant,
who asked, and the connection it says so on; the policies of every table check that. A statement
that names another tenant finds nothing, and a signature is of no use on another connection.

Behind a pooler that hands out connections for a transaction each, nobody knows beforehand which it
will be. The keys are then unbound, which only the owner can say: a signature serves every one.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

import asyncpg

from butlers.db.queries import load
from butlers.errors import Unavailable

_SQL = load(__file__)

ACT = _SQL["act"]
TENANTS = _SQL["tenants"]
NEW_KEYS = _SQL["new_keys"].text
IS_THERE = _SQL["is_there"].text
READS_REPLICAS = _SQL["reads_replicas"].text
IS_UNBOUND = _SQL["is_unbound"].text
_STEPS = ("keys", "new_keys", "tenant_proof", "proven_tenant", "act_for")
STEPS = tuple(_SQL[name].text for name in _STEPS)


@dataclass(slots=True, repr=False)
class Keys:
    """What proofs are made with."""

    inner_key: bytes
    outer_key: bytes
    unbound: bool = False

    def proof(self, tenant_id: str, actor: str, backend: int) -> str:
        """That the connection to this backend may act for the tenant, on the actor's behalf."""
        said = sha256(tenant_id.encode()).digest() + sha256(actor.encode()).digest()
        bound_to = (0 if self.unbound else backend).to_bytes(4, "big")
        inner = sha256(self.inner_key + said + bound_to).digest()
        return sha256(self.outer_key + inner).hexdigest()

    def password(self) -> str:
        """What the butler's own login signs in with, where a server asks for it."""
        return sha256(self.outer_key + b"login").hexdigest()


async def read_keys(owner: asyncpg.Connection) -> Keys:
    """The keys of a database, by its owner."""
    try:
        row = await owner.fetchrow(_SQL["read_keys"].text)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
        row = None
    if row is None:
        raise Unavailable("the database is older than this version; `butlers up` migrates it")
    return Keys(**row)


async def fit_keys(owner: asyncpg.Connection, *, pooled: bool) -> Keys:
    """The keys, unbound from now on if the owner found that a pooler stands in between."""
    keys = await read_keys(owner)
    if keys.unbound or not pooled:
        return keys
    await unbind(owner)
    return replace(keys, unbound=True)


async def unbind(owner: asyncpg.Connection) -> None:
    """From here on a proof serves every connection."""
    await owner.execute(_SQL["unbind"].text)


async def is_pooled(connection: asyncpg.Connection) -> bool:
    """Whether somebody else answers than the server said at the start of the connection."""
    backend = await connection.fetchval("select pg_backend_pid()")
    return bool(backend != connection.get_server_pid())
