"""Four writers on one database; an id goes into a file once its row is acknowledged."""

import asyncio
import itertools
import os
import sys

import asyncpg


async def write(dsn: str, ids: "itertools.count[int]", acknowledged: int) -> None:
    connection = await asyncpg.connect(dsn)
    while True:
        row = next(ids)
        await connection.execute("insert into written (id) values ($1)", row)
        os.write(acknowledged, f"{row}\n".encode())


async def main(dsn: str, file: str) -> None:
    acknowledged = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ids = itertools.count()
    await asyncio.gather(*(write(dsn, ids, acknowledged) for _ in range(4)))


asyncio.run(main(*sys.argv[1:3]))
