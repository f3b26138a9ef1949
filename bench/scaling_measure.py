"""What the scaling model is made from, measured on fresh homes.

One tenant's facts grow from size to size. At each, a real `butlers up` is asked over HTTP: what a
recall and a store cost it and the server, and what lies on the disk. Then what episodes and jobs
cost (`scaling_chores`). A second home has many small tenants, whom the model is not made from.
"""

import asyncio
import os
import platform
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from bench.bounds import up
from bench.scaling_chores import measured_chores
from bench.scaling_meter import Meter, memory_mb, relation_bytes
from bench.speed_load import Store, Vectors, alone, copy_tenants, crowd, indexes_made_later, load
from bench.speed_texts import fact, question
from butlers import __version__
from butlers.auth.token_store import TokenStore
from butlers.embedding import get_embedding_engine
from butlers.host.database import POOL_MAX, DatabaseServer
from butlers.host.home import Home
from butlers.interfaces.daemon import started_butlers
from butlers.logs import configure
from butlers.memory.handle import Memory
from butlers.settings.files import load_house

BUTLER = "general"
ASKED, STORED, WARM_UP, AT_ONCE = 300, 200, 60, 32
_FIRST_NEW = 2_000_000
Figures = dict[str, Any]


def measured(sizes: Sequence[int], tenants: int, keep: Path | None, *, chores: bool) -> Figures:
    """Everything asked for, from stores that are gone afterwards."""
    configure("error")
    vectors = Vectors(get_embedding_engine(), max(sizes), keep)
    found: Figures = {"about": _about(), "sizes": {}}
    with _fresh_home() as home:
        for before, size in zip((0, *sizes), sizes, strict=False):
            found["sizes"][str(size)] = asyncio.run(_at_size(home, vectors, before, size))
            print(f"measured {size:,} facts", flush=True)
        if chores:
            found["chores"] = asyncio.run(_after_all(home, vectors, max(sizes)))
    if tenants:
        with _fresh_home() as home:
            found["crowd"] = asyncio.run(_of_crowd(home, vectors, crowd(tenants)))
    return found


def _about() -> Figures:
    return {
        "version": __version__,
        "on": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "load": round(os.getloadavg()[0], 1),
    }


@contextmanager
def _fresh_home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="butlers-bench-") as place:
        home = Home(Path(place) / "home")
        home.create_butler(BUTLER)
        home.root.parent.chmod(0o755)
        yield home


@asynccontextmanager
async def _opened(home: Home) -> AsyncIterator[tuple[Memory, asyncpg.Connection]]:
    """The butler's memory in this process, and its database as the owner has it."""
    house = load_house(home.settings_file, home.butler_files())
    async with started_butlers(home, house) as there, _as_owner(home) as owner:
        yield there[BUTLER].memory, owner


@asynccontextmanager
async def _as_owner(home: Home) -> AsyncIterator[asyncpg.Connection]:
    owner = await asyncpg.connect(DatabaseServer(home).running_url(BUTLER))
    try:
        yield owner
    finally:
        await owner.close()


async def _at_size(home: Home, vectors: Vectors, before: int, size: int) -> Figures:
    (tenant,) = alone(size).asked
    async with _opened(home) as (memory, owner):
        made = await _loaded(memory, owner, vectors, {tenant: range(before, size)})
        relations = await relation_bytes(owner)
    asked = await _asked(home, alone(size))
    return {"relations": relations, "index_seconds": made, **asked}


async def _loaded(
    memory: Memory, owner: asyncpg.Connection, vectors: Vectors, tenants: dict[str, range]
) -> float:
    """Seconds of processor time that making the slow indexes anew took."""
    meter = Meter(owner)
    async with indexes_made_later(owner):
        for tenant, numbers in tenants.items():
            for notes in vectors.notes(numbers):
                await load(memory, tenant, notes)
        before = meter.server_ms()
    return round((meter.server_ms() - before) / 1000, 2)


async def _of_crowd(home: Home, vectors: Vectors, store: Store) -> Figures:
    async with _opened(home) as (memory, owner):
        async with indexes_made_later(owner):
            for tenant, numbers in store.tenants.items():
                for notes in vectors.notes(numbers):
                    await load(memory, tenant, notes)
            await copy_tenants(owner, store)
        relations = await relation_bytes(owner)
    asked = await _asked(home, store)
    each = len(store.facts_of(store.asked[0]))
    return {"tenants": len(store.asked), "each": each, "relations": relations, **asked}


async def _after_all(home: Home, vectors: Vectors, facts: int) -> Figures:
    async with _opened(home) as (memory, owner):
        return await measured_chores(memory, owner, vectors, alone(facts).asked[0])


class Asker:
    """A store's tenants at a daemon, over HTTP, each with a token."""

    def __init__(self, url: str, home: Home, store: Store) -> None:
        tokens, self._store = TokenStore(home.tokens_file), store
        self._url = f"{url}/api/butlers/{BUTLER}/memory"
        self._headers = {
            tenant: {"Authorization": f"Bearer {tokens.create(BUTLER, tenant)[1]}"}
            for tenant in store.asked
        }
        self._http = httpx2.AsyncClient(trust_env=False, timeout=120)

    def tenant(self, number: int) -> str:
        """Whose turn it is."""
        return self._store.asked[number * 7 % len(self._store.asked)]

    async def recall(self, number: int) -> None:
        """A question that was not asked before."""
        facts = self._store.facts_of(self.tenant(number))
        topic = question(f"{self._store.name} {number}", facts[number * 37 % len(facts)])
        await self._post("recall", number, {"topic": topic, "limit": 10}, 200)

    async def store(self, number: int) -> None:
        """A fact of which nobody has heard."""
        new = fact(_FIRST_NEW + len(self._store.facts_of(self.tenant(number))) * 10 + number)
        body = {"subject": new.subject, "predicate": new.predicate, "content": new.content}
        await self._post("facts", number, body, 201)

    async def at_once(self, count: int) -> None:
        """So many ask at the same moment, a few times over."""
        for turn in range(1, 4):
            some = range(turn * 100_000, turn * 100_000 + count)
            await asyncio.gather(*(self.recall(number) for number in some))

    async def _post(self, to: str, number: int, body: Figures, status: int) -> None:
        headers = self._headers[self.tenant(number)]
        answer = await self._http.post(f"{self._url}/{to}", json=body, headers=headers)
        assert answer.status_code in (status, 200), answer.text


async def _asked(home: Home, store: Store) -> Figures:
    """What a recall, a store and being there cost a daemon and its server."""
    with up(home) as found:
        async with _as_owner(home) as owner:
            asker, meter = Asker(found.url, home, store), Meter(owner, found.pid)
            idle = await _connections(owner)
            for number in range(-WARM_UP, 0):
                await asker.recall(number)
            async with meter.over() as recalls:
                for number in range(ASKED):
                    await asker.recall(number)
            async with meter.over(pages=True) as stores:
                for number in range(STORED):
                    await asker.store(number)
            await asker.at_once(AT_ONCE)
            return {
                "recall": recalls.per(ASKED),
                "store": stores.per(STORED),
                "connections": {
                    "idle": idle,
                    "busy": await _connections(owner),
                    "most": POOL_MAX,
                },
                "daemon_mb": round(memory_mb(found.pid)),
            }


async def _connections(owner: asyncpg.Connection) -> int:
    """All that are there but this one."""
    return int(
        await owner.fetchval(
            "select count(*) - 1 from pg_stat_activity where backend_type = 'client backend'"
        )
    )
