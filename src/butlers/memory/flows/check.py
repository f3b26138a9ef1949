"""Check a store: rows, links, vectors and search index against the audit log and each other."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from butlers.db.index_pages import check_pages, sequences
from butlers.db.postgres import Row, Transaction
from butlers.kernel.word_tables import load_tables
from butlers.memory.flows.history import verify_events
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, VersionState
from butlers.memory.store import check, check_index, check_records, embeddings

BATCH, MOST_FINDINGS, SAMPLED = 1_000, 50, 50
"""Rows of a statement; findings of one that are named; memories of a kind to embed again."""
NIGHTLY, SOME = 5_000, 1_000
"""How many rows of each part are checked by the nightly job, and where a person waits."""
_FARTHEST = 0.001
"""How far the vector of a text may be from the one it gets now."""
_WORDS = load_tables(__file__)
_BATCHES = check_records.batches | check.batches | check_index.batches
_REPAIRS = check_records.repairs | check_index.repairs
_NUMBERED = {"events": "memory_events", "indexed": "index_memories"}


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that is not as it must be, in a sentence, and what to do about it."""

    tenant: str
    what: str
    message: str
    remedy: str

    @classmethod
    def of(cls, tenant: str, fault: str, what: str, found: object, wanted: object = "") -> Self:
        """Put a finding into words."""
        kind = next(kind for kind, faults in _WORDS.items() if fault in faults)
        message = _WORDS[kind][fault].format(what=what, expected=wanted, found=found)
        return cls(tenant, what, message, _WORDS["remedies"][kind].format(what=what))


@dataclass(slots=True)
class StoreCheck:
    """A check of what every tenant has stored, in batches of a transaction each.

    `limit`: only some rows of each part. `owner_dsn`: sequences too, and without a limit the pages
    of indexes. `deep` embeds a sample again. `repair` makes the search index anew where it is
    wrong; nothing else ever changes.
    """

    memory: Memory
    owner_dsn: str = ""
    limit: int | None = None
    deep: bool = False
    repair: bool = False
    on_progress: Callable[[int], None] = lambda rows: None
    checked: int = 0
    faulty: int = 0
    repaired: int = 0
    findings: list[Discrepancy] = field(default_factory=list)
    unchecked: str = ""
    """Why the pages of the indexes were not checked."""
    ends: dict[str, int] = field(default_factory=dict)
    """The last number in each table that a sequence numbers."""

    @property
    def lines(self) -> list[str]:
        """Say each finding with what to do about it."""
        return [f"{one.tenant or 'database'}: {one.message}: {one.remedy}" for one in self.findings]

    async def run(self) -> Self:
        """Check every tenant; after a repair, check again and return that."""
        for tenant in await self.memory.database.tenants():
            await self.check_tenant(Lineage(tenant, "check"))
        if self.owner_dsn:
            await self._check_server()
        if not self.repaired:
            return self
        again = replace(self, repair=False, checked=0, faulty=0, repaired=0, findings=[])
        return replace(await again.run(), repaired=self.repaired)

    async def _check_server(self) -> None:
        """Check what only the owner of the database may see."""
        last = await sequences(self.owner_dsn)
        for table in [table for table, end in self.ends.items() if end > last[table]]:
            self.add("", "sequence", table, last[table], self.ends[table])
        if self.limit is None:
            damaged, self.unchecked = await check_pages(self.owner_dsn)
            for index, why in damaged.items():
                self.add("", "page", index, why)

    async def check_tenant(self, lineage: Lineage) -> None:
        """Check what one tenant has stored."""
        async with self.memory.transaction(lineage) as tx:
            ends = {table: last or 0 for table, last in (await check_index.get_ends(tx)).items()}
        self.ends = {table: max(last, self.ends.get(table, 0)) for table, last in ends.items()}
        chain = await verify_events(self.memory, lineage, newest=self.limit)
        for one in chain["faults"]:
            self.add(lineage.tenant_id, "chain", one["event_id"] or one["number"], one["fault"])
        await self._walk_all(lineage)
        if self.deep:
            await self._embed_again(lineage)

    async def _walk_all(self, lineage: Lineage) -> None:
        """Check every part; the many words of the index only if their number is not right."""
        before, parts = self.faulty, [part for part in _BATCHES if part != "words"]
        words = sum([await self._walk(part, lineage) for part in parts])
        async with self.memory.transaction(lineage) as tx:
            surplus = self.limit is None and await check_index.count_words(tx) != words
        if surplus or self.faulty > before:
            await self._walk("words", lineage)

    async def _walk(self, part: str, lineage: Lineage) -> int:
        """Check a part of the store, with a limit from anywhere on and then from its beginning.

        Return how many words its memories have.
        """
        words, left = 0, float(self.limit or math.inf)
        for start in [""] if self.limit is None else [self._anywhere(part, self.limit), ""]:
            after: str | None = start
            while after is not None and left > 0:
                row = await self._step(part, lineage, after, int(min(left, BATCH)))
                words, left, after = words + row["words"], left - row["checked"], row["last"]
        return words

    def _anywhere(self, part: str, limit: int) -> str:
        """Return a key to start at: any memory, but the newest events and rows of the index."""
        if part in _NUMBERED:
            return f"{max(0, self.ends[_NUMBERED[part]] - limit):019}"
        return f"{'fact ' if part == 'links' else ''}{self.memory.new_id()}"

    async def _step(self, part: str, lineage: Lineage, after: str, size: int) -> Row:
        async with self.memory.transaction(lineage) as tx:
            row = await _BATCHES[part](tx, after=after, limit=size, most=MOST_FINDINGS)
            for repair in _REPAIRS.get(part, ()) if self.repair and row["ids"] else ():
                self.repaired += await repair(tx, ids=row["ids"])
        for one in row["findings"]:
            what = f"{_WORDS['names'].get(part, '')} {one['id']}".replace("\x1f", " ").strip()
            self.add(lineage.tenant_id, one["fault"], what, one["found"], one["expected"])
        self.faulty += row["faulty"] - len(row["findings"])
        self.checked += row["checked"]
        self.on_progress(self.checked)
        return row

    def add(self, tenant: str, *finding: object) -> None:
        """Add a finding: the fault, what has it, what was found and what was expected."""
        self.findings.append(Discrepancy.of(tenant, *map(str, finding)))
        self.faulty += 1

    async def _embed_again(self, lineage: Lineage) -> None:
        """Embed a sample of memories again and compare the vectors."""
        async with self.memory.transaction(lineage) as tx:
            versions, rows = await embeddings.find_versions(tx), await self._sample(tx)
        for version in [one for one in versions if one.state is VersionState.CURRENT]:
            if engine := self.memory.engine_of(version):
                made = await self.memory.vectors(engine, [text for _, text, _ in rows])
                for (what, _, vector), again in zip(rows, made, strict=True):
                    if _distance(vector, again) > _FARTHEST:
                        self.add(lineage.tenant_id, "vector_differs", what, "", version.name)

    async def _sample(self, tx: Transaction) -> list[tuple[str, str, list[float]]]:
        word = str(self.memory.new_id())
        return [
            (f"{kind} {row['id']}", row["text"], row["vector"])
            for kind in MemoryType
            for row in await embeddings.sample_vectors(tx, kind, word, SAMPLED)
        ]


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return 1 - math.fsum(map(operator.mul, one, other)) / (math.hypot(*one) * math.hypot(*other))
