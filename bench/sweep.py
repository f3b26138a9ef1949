"""How fast the decay sweep is: 10,000 facts in one run, against the bare UPDATE statements.

    python -m bench sweep [facts]

Two tenants have the same facts: a third is sure, a third due to fade, a third due to expire. One
gets the two statements anybody would write, the other the sweep, which also checks tenants and
tells every transition in the audit stream. A second sweep must write nothing.
"""

import asyncio
import sys
import time
from datetime import UTC, datetime

import asyncpg

from bench.lab import laboratory
from butlers.memory.flows.lifecycle.decay_sweep import SweepReport, run_decay_sweep
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage

FACTS = 10_000
MOST = 3.0
NOW = datetime(2026, 7, 1, tzinfo=UTC)
BARE, SWEPT = "bare", "swept"

VERSIONS = """
    insert into embedding_versions (id, tenant_id, model, version, dimensions, created_at)
    values (gen_random_uuid(), $1, 'random', '1', 384, $2)
"""
# Standard facts lose their confidence in some 375 days; the ages are a third each side of fading.
FILL = """
    insert into facts (tenant_id, subject, predicate, content, embedding, embedding_version_id,
      search_vector, created_at, last_confirmed_at)
    select $1, 'subject ' || n, 'is', text, vector, v.id, to_tsvector('english', text), at, at
    from generate_series(1, $3) n
    cross join embedding_versions v
    cross join lateral (
      select (array_agg(sin(n * 7919 + place * place)))::vector(384) as vector
      from generate_series(1, 384) place
    ) made
    cross join lateral (
      select repeat('what is known about subject ' || n || '. ', 6) as text,
        $2::timestamptz - (array[50, 300, 500])[1 + n % 3] * interval '1 day' as at
    ) written
    where v.tenant_id = $1
"""
EXPIRE = """
    update facts set validity = 'expired'
    where tenant_id = $1 and validity = 'active' and decay_rate > 0
      and confidence * exp(-decay_rate * extract(epoch from $2 - last_confirmed_at) / 86400) < 0.05
"""
FADE = """
    update facts set metadata = metadata || '{"status": "fading"}'
    where tenant_id = $1 and validity = 'active' and decay_rate > 0
      and confidence * exp(-decay_rate * extract(epoch from $2 - last_confirmed_at) / 86400) < 0.2
"""
WRITTEN = """
    select (select count(*) from memory_events), md5(string_agg(ctid::text || xmin::text, ','
      order by id)) from facts where tenant_id = $1
"""


def main(options: list[str]) -> int:
    """Measure with as many facts as asked for."""
    return asyncio.run(measure(int(options[0]) if options else FACTS))


async def measure(facts: int) -> int:
    """Print one line per way; fail where the sweep is too slow or writes twice."""
    async with laboratory() as (memory, access):
        memory.now = lambda: NOW
        owner = await asyncpg.connect(access.owner_dsn)
        try:
            return await _measure(memory, owner, facts)
        finally:
            await owner.close()


async def _measure(memory: Memory, owner: asyncpg.Connection, facts: int) -> int:
    for tenant in (BARE, SWEPT):
        await owner.execute(VERSIONS, tenant, NOW)
        await owner.execute(FILL, tenant, NOW, facts, timeout=1_200)
    await owner.execute("vacuum analyze facts")
    bare = await _bare(owner)
    first, report = await _sweep(memory)
    written = await owner.fetchrow(WRITTEN, SWEPT)
    second, again = await _sweep(memory)
    print(
        f"{facts} facts: bare UPDATEs {bare:.2f} s, sweep {first:.2f} s, ratio {first / bare:.2f}"
    )
    print(f"a second sweep: {second:.3f} s; {again.facts_checked} checked, nothing written")
    assert report.facts_fading + report.facts_expired == facts - facts // 3
    assert await owner.fetchrow(WRITTEN, SWEPT) == written, "a second sweep wrote something"
    assert first <= MOST * bare, f"the sweep took more than {MOST:g} times the bare statements"
    return 0


async def _bare(owner: asyncpg.Connection) -> float:
    start = time.perf_counter()
    await owner.execute(EXPIRE, BARE, NOW)
    await owner.execute(FADE, BARE, NOW)
    return time.perf_counter() - start


async def _sweep(memory: Memory) -> tuple[float, SweepReport]:
    start = time.perf_counter()
    report = await run_decay_sweep(memory, Lineage(SWEPT, "bench"))
    return time.perf_counter() - start, report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
