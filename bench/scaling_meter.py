"""What work costs a daemon and its server: processor time, write-ahead log, pages of the graph.

Processor time is what the kernel counted for each process and thread, never how long something
took, so that others on the machine disturb it little.
"""

import asyncio
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

# A backend that is idle tells what it has read after ten seconds.
_TOLD_SECONDS = 11
GRAPH = "index_vectors_nearest"
_NOTHING_BYTES = 1_024
# A table or an index in which nothing is.
_EMPTY_BYTES = 16_384
_TICKS = os.sysconf("SC_CLK_TCK")
_LOGGED = """
select coalesce(sum(record_size), 0)::float8 as records,
  coalesce(sum(fpi_size), 0)::float8 as images
from pg_get_wal_stats($1::pg_lsn, $2::pg_lsn)
"""
_READ = """
select coalesce(sum(idx_blks_hit + idx_blks_read), 0)::float8
from pg_statio_user_indexes where indexrelname = $1
"""

_RELATIONS = """
select coalesce(own.relname || ' out of line', c.relname) as name, pg_relation_size(c.oid) as bytes
from pg_class c left join pg_class own on own.reltoastrelid = c.oid
where coalesce(own.relnamespace, c.relnamespace) = 'public'::regnamespace
  and c.relkind in ('r', 'i', 't') and pg_relation_size(c.oid) > 0
order by bytes desc, name
"""


@dataclass
class Spent:
    """What some work cost: milliseconds of processor time, bytes of log, pages."""

    loop_ms: float = 0.0
    threads_ms: float = 0.0
    server_ms: float = 0.0
    log_bytes: float = 0.0
    image_bytes: float = 0.0
    graph_pages: float = 0.0

    def per(self, count: int) -> dict[str, float]:
        """The same for one of so many."""
        return {name: float(f"{value / count:.4g}") for name, value in vars(self).items()}


@dataclass
class Meter:
    """Reads what a daemon and the server behind a connection have spent.

    Without a daemon's number it is this process that is measured, its threads with its loop.
    """

    owner: asyncpg.Connection
    daemon: int | None = None
    _postmaster: int = field(init=False)

    def __post_init__(self) -> None:
        self._postmaster = int(_stat(Path(f"/proc/{self.owner.get_server_pid()}"))[1])

    @asynccontextmanager
    async def over(self, *, pages: bool = False) -> AsyncIterator[Spent]:
        """What is done within this block, right after a checkpoint; pages take longer to know."""
        await self.owner.execute("create extension if not exists pg_walinspect")
        await self.owner.execute("checkpoint")
        spent, before = Spent(), await self._graph_pages() if pages else 0.0
        began = await self._log_end()
        loop, threads, server = *self._own_ms(), self.server_ms()
        yield spent
        spent.server_ms = self.server_ms() - server
        spent.loop_ms, spent.threads_ms = (
            now - then for now, then in zip(self._own_ms(), (loop, threads), strict=True)
        )
        spent.log_bytes, spent.image_bytes = await self._logged(began, await self._log_end())
        spent.graph_pages = await self._graph_pages() - before if pages else 0.0

    def server_ms(self) -> float:
        """Of all processes of the server, those that have ended included."""
        return sum(_ms(one, of_children=one.name == str(self._postmaster)) for one in self._all())

    def _all(self) -> list[Path]:
        own = Path(f"/proc/{self._postmaster}")
        return [
            own,
            *(one for one in own.parent.glob("[0-9]*") if _parent(one) == self._postmaster),
        ]

    def _own_ms(self) -> tuple[float, float]:
        """Of the thread that runs the event loop; of all others, which embed and do little else."""
        if self.daemon is None:
            used = resource.getrusage(resource.RUSAGE_SELF)
            return (used.ru_utime + used.ru_stime) * 1000, 0.0
        main = _ms(Path(f"/proc/{self.daemon}/task/{self.daemon}"))
        return main, _ms(Path(f"/proc/{self.daemon}")) - main

    async def _logged(self, began: int, ended: int) -> tuple[float, float]:
        """Bytes of the records themselves, and of the images of pages that come with them."""
        if ended - began < _NOTHING_BYTES:  # too little to be read as records
            return float(ended - began), 0.0
        row = await self.owner.fetchrow(_LOGGED, began, ended)
        return row["records"], row["images"]

    async def _log_end(self) -> int:
        return int(await self.owner.fetchval("select pg_current_wal_flush_lsn()"))

    async def _graph_pages(self) -> float:
        await asyncio.sleep(_TOLD_SECONDS)
        return float(await self.owner.fetchval(_READ, GRAPH))


def memory_mb(process: int) -> float:
    """What a process keeps in memory for itself, its share of what it has with others included."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines()
    return next(int(one.split()[1]) / 1024 for one in lines if one.startswith("Pss:"))


def _stat(process: Path) -> list[str]:
    """The fields after the name, which may hold blanks and brackets."""
    return (process / "stat").read_text("utf-8").rpartition(") ")[2].split()


def _parent(process: Path) -> int:
    try:
        return int(_stat(process)[1])
    except OSError:  # it has ended
        return 0


def _ms(process: Path, *, of_children: bool = False) -> float:
    try:
        fields = _stat(process)
    except OSError:  # it has ended; its parent has what it spent
        return 0.0
    return sum(int(one) for one in fields[11 : 15 if of_children else 13]) * 1000 / _TICKS


async def relation_bytes(owner: asyncpg.Connection) -> dict[str, int]:
    """How many bytes each table, its part out of line, and each index have, the largest first."""
    found = {row["name"]: row["bytes"] for row in await owner.fetch(_RELATIONS)}
    told = {name: size for name, size in found.items() if size > _EMPTY_BYTES}
    return told | {"empty ones": sum(found.values()) - sum(told.values())}
