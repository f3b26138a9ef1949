"""Four writers over an embedded server; a row goes into a file once it is acknowledged."""

import asyncio
import itertools
import os
import sys
from pathlib import Path

import asyncpg

from butlers.db.embedded.shared_server import EmbeddedPostgres


async def write(dsn: str, ids: "itertools.count[int]", acknowledged: int) -> None:
    connection = await asyncpg.connect(dsn)
    while True:
        row = next(ids)
        await connection.execute("insert into written (id) values ($1)", row)
        os.write(acknowledged, f"{row}\n".encode())


async def main(dsn: str, acknowledged: int) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("create table written (id bigint primary key)")
    await connection.close()
    ids = itertools.count()
    await asyncio.gather(*(write(dsn, ids, acknowledged) for _ in range(4)))


with EmbeddedPostgres(Path(sys.argv[1])) as server:
    file = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(main(server.dsn(), file))
