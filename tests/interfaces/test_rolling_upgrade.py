"""From one version to the next while clients go on: daemons are replaced one after the other."""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.memory.module import MemoryModule
from interfaces.balancer import needs_haproxy
from interfaces.daemons import butlers, operating, until
from interfaces.several import Fleet, fleet

pytestmark = [needs_haproxy, pytest.mark.slow]
CLIENTS = 8

# Adds, and takes nothing away that the version before it uses; for three seconds nobody can read.
REVISION = '''
"""A revision of a version to come."""

from alembic import op

revision = "mem_next"
down_revision = "{head}"


def upgrade() -> None:
    op.execute("alter table facts add column next_version text")
    op.execute("select pg_sleep(3)")
    op.execute("alter table episodes add column next_version text")
    op.execute("alter table entities add column next_version text")
    op.execute("alter table rules add column next_version text")
'''
NEXT_VERSION = """
import runpy, sys
from butlers.db.branch import Branch
from butlers.memory.module import MemoryModule

known = MemoryModule.migrations
MemoryModule.migrations = Branch(known.label, known.location + chr(10) + sys.argv[1], "mem_next")
sys.argv = ["butlers", *sys.argv[2:]]
runpy.run_module("butlers", run_name="__main__", alter_sys=True)
"""


@dataclass
class Clients:
    """What clients met while daemons came and went."""

    served: Fleet
    token: str
    answers: int = 0
    failed: list[str] = field(default_factory=list)
    slowest: float = 0.0
    is_over: bool = False

    async def go_on(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx2.AsyncClient(trust_env=False, headers=headers, timeout=90) as http:
            await asyncio.gather(*(self._client(http, number) for number in range(CLIENTS)))

    async def _client(self, http: httpx2.AsyncClient, number: int) -> None:
        turn = 0
        while not self.is_over:
            turn += 1
            fact = {"subject": f"shelf {number}", "predicate": "holds", "content": f"jar {turn}"}
            await self._ask(http, "/facts", fact)
            await self._ask(http, "/recall", {"topic": f"what does shelf {number} hold"})
            await self._ask(http, "/episodes", {"content": f"Shelf {number} got jar {turn}."})
            await asyncio.sleep(0.1)

    async def _ask(self, http: httpx2.AsyncClient, path: str, body: dict[str, str]) -> None:
        began = time.monotonic()
        try:
            answer = await http.post(self.served.memory(path), json=body)
        except httpx2.HTTPError as error:
            self.failed.append(f"{path}: {error!r}")
            return
        self.answers += 1
        self.slowest = max(self.slowest, time.monotonic() - began)
        if not answer.is_success:
            self.failed.append(f"{path}: {answer.status_code} {answer.text}")


@pytest.fixture
def next_version(tmp_path: Path) -> tuple[str, ...]:
    """The program of a version that has one more revision."""
    assert MemoryModule.migrations is not None
    revision = REVISION.format(head=MemoryModule.migrations.head)
    (tmp_path / "mem_next.py").write_text(revision)
    return sys.executable, "-c", NEXT_VERSION, str(tmp_path)


@pytest.fixture
def served(postgres: EmbeddedPostgres, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(postgres, tmp_path, "", homes=2) as one:
        for number, home in enumerate(one.homes):
            one.start(number, home).ready()
        yield one


async def test_nobody_is_refused_while_daemons_are_replaced_one_after_the_other(
    served: Fleet, next_version: tuple[str, ...]
) -> None:
    new = ("token", "new", "--butler", served.name, "--home", served.homes[0].root)
    allowed = operating(served.homes[0], served.name)
    token = (await asyncio.to_thread(butlers, *new, env=allowed)).stdout.splitlines()[-1]
    await asyncio.to_thread(_is_served, served, token)
    clients = Clients(served, token)
    going_on = asyncio.create_task(clients.go_on())
    try:
        await asyncio.to_thread(_replace_all, served, token, next_version)
    finally:
        clients.is_over = True
        await going_on
    assert clients.failed == []
    assert clients.answers > 100
    found = "select 1 from information_schema.columns where column_name = 'next_version'"
    assert len(await asyncio.to_thread(served.query, found)) >= 4
    assert clients.slowest > 2, "the migration is meant to keep somebody waiting"


def _replace_all(served: Fleet, token: str, program: tuple[str, ...]) -> None:
    time.sleep(1)
    for number, home in enumerate(served.homes):
        old, other = served.daemons[number], served.daemons[1]
        assert old.stop(signal.SIGTERM) == 0
        served.start(number, home, program).ready(120)
        until(lambda: _is_served(served, token))
        if number == 0:  # the old one goes on with the new schema
            path = f"/api/butlers/{served.name}/memory/facts"
            assert served.get(path, token, other.url).status_code == 200
        time.sleep(2)


def _is_served(served: Fleet, token: str) -> bool:
    path = f"/api/butlers/{served.name}/memory/facts"
    return served.get(path, token).status_code == 200
