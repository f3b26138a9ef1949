"""Several daemons that serve one butler of an external server, behind a balancer."""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.host.home import Home
from interfaces.balancer import balanced, free_ports
from interfaces.daemons import Daemon, temporary_home

HOUSE = """
[database]
url = "{url}"

[server]
drain_seconds = 2.0
"""


@dataclass
class Fleet:
    """What serves one butler: homes, the daemons in them, and where the balancer listens."""

    name: str
    owner_dsn: str
    homes: list[Home]
    ports: list[int]
    daemons: list[Daemon]
    url: str = ""

    def start(self, number: int, home: Home, program: Sequence[str] = ()) -> Daemon:
        """A daemon on one of the balancer's ports; it is not awaited."""
        daemon = Daemon(home, "--port", self.ports[number], program=program)
        self.daemons.append(daemon)
        return daemon

    def memory(self, path: str, url: str = "") -> str:
        return f"{url or self.url}/api/butlers/{self.name}/memory{path}"

    def query(self, statement: str, *values: object) -> list[asyncpg.Record]:
        """What the database's owner is told."""

        async def fetch() -> Any:
            connection = await asyncpg.connect(self.owner_dsn)
            try:
                return await connection.fetch(statement, *values)
            finally:
                await connection.close()

        return list(asyncio.run(fetch()))

    def get(self, path: str, token: str, url: str = "") -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(trust_env=False, timeout=60) as client:
            return client.get(f"{url or self.url}{path}", headers=headers)


@contextmanager
def fleet(postgres: EmbeddedPostgres, directory: Path, butler: str, homes: int) -> Iterator[Fleet]:
    """Homes with one butler between them, and a balancer of three ports; nothing is up yet."""
    name = f"shared_{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        stack.callback(lambda: asyncio.run(_drop(postgres.dsn(), f"butler_{name}")))
        places = [stack.enter_context(temporary_home()) for _ in range(homes)]
        for home in places:
            home.create_butler(name)
            home.butler_file(name).write_text(butler)
            home.settings_file.write_text(HOUSE.format(url=postgres.dsn()))
        one = Fleet(name, postgres.dsn(f"butler_{name}"), places, free_ports(3), [])
        stack.callback(_stop, one.daemons)
        one.url = stack.enter_context(balanced(directory, one.ports))
        yield one


def _stop(daemons: list[Daemon]) -> None:
    for daemon in daemons:
        if daemon.process.poll() is None:
            daemon.process.kill()
    for daemon in daemons:
        daemon.process.wait(timeout=30)


async def _drop(dsn: str, database: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f'drop database if exists "{database}" with (force)')
        await connection.execute(f'drop role if exists "{database}_runtime"')
    finally:
        await connection.close()
