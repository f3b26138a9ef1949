"""Prove the tenant of a transaction to PostgreSQL with a signed token.

Row-level security then does not rest on a settable variable. The process knows keys that the role
serving requests cannot read. It signs the tenant, the actor and the connection; the policies of
every table check the signature. A statement that names another tenant sees no rows, and a
signature is of no use on another connection.

Behind a pooler in transaction mode the connection is not known beforehand. The keys are then
unbound, which only the owner can set: a signature holds on every connection.
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
    """The keys that proofs are made with."""

    inner_key: bytes
    outer_key: bytes
    unbound: bool = False

    def proof(self, tenant_id: str, actor: str, backend: int) -> str:
        """Sign that the connection to this backend may act for the tenant and the actor."""
        subject = sha256(tenant_id.encode()).digest() + sha256(actor.encode()).digest()
        bound_to = (0 if self.unbound else backend).to_bytes(4, "big")
        inner = sha256(self.inner_key + subject + bound_to).digest()
        return sha256(self.outer_key + inner).hexdigest()

    def password(self) -> str:
        """Return the password of the butler's own login, for servers that ask for one."""
        return sha256(self.outer_key + b"login").hexdigest()


async def read_keys(owner: asyncpg.Connection) -> Keys:
    """Read the keys of a database, as its owner; Unavailable where it is not migrated."""
    try:
        row = await owner.fetchrow(_SQL["read_keys"].text)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
        row = None
    if row is None:
        raise Unavailable("the database is older than this version; `butlers up` migrates it")
    return Keys(**row)


async def fit_keys(owner: asyncpg.Connection, *, pooled: bool) -> Keys:
    """Read the keys, and unbind them for good where a pooler is in between."""
    keys = await read_keys(owner)
    if pooled and not keys.unbound:
        await unbind(owner)
    return replace(keys, unbound=keys.unbound or pooled)


async def unbind(owner: asyncpg.Connection) -> None:
    """Let proofs hold on every connection from now on."""
    await owner.execute(_SQL["unbind"].text)


async def is_pooled(connection: asyncpg.Connection) -> bool:
    """Return whether statements run in another backend than the one connected to."""
    backend = await connection.fetchval("select pg_backend_pid()")
    return bool(backend != connection.get_server_pid())
