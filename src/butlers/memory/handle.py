"""The handle that every flow takes: database, embedder, settings, clock and ids."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from butlers.clock import Clock, ClockDoubt, undoubted, utc_now
from butlers.db.postgres import Database, Row, Transaction
from butlers.db.statements import Rows
from butlers.embedding import Embedder, get_embedding_engine
from butlers.errors import Conflict, Unavailable
from butlers.ids import NewId, new_id
from butlers.kernel.lru import LRUCache
from butlers.kernel.text import clean, prepared, preprocess_text
from butlers.memory.model import Event, EventSubject, Lineage, VersionState
from butlers.memory.policy.repeats import parts_of
from butlers.memory.settings import MemoryModuleConfig
from butlers.memory.store import embeddings, events, search
from butlers.memory.store.embeddings import ModelVersion, model_of
from butlers.memory.store.events import Transition
from butlers.memory.store.search import TenantProfile
from butlers.memory.uses import Uses
from butlers.worker_process import read_apart

_COUNTS, _COUNTS_LIVE_MS = 256, 30_000
_WRITES_LIVE_MS = 600_000
# With more tenants than this, some profiles are loaded again: one more round trip.
_PROFILES, _PROFILES_LIVE_MS = 4_096, 300_000
# A home knows some hundred predicates; 1.5 kB each.
_WORD_VECTORS, _WORD_VECTORS_LIVE_MS = 2_048, 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Embedding:
    """A text's vector, the registered version of the model that made it, and its words."""

    vector: list[float]
    version_id: UUID
    text: str = ""
    words: str = ""
    parts: tuple[tuple[str, list[float]], ...] = ()
    """What of it less trusted memories may say, if there are any: the whole, then sentences."""

    def columns(self, text: str) -> dict[str, Any]:
        """Return the columns by which a text, mostly this one, is searched: vector and words."""
        words = self.words if text == self.text else searchable([text])[0]
        version = {"embedding_version_id": self.version_id}
        return {"embedding": self.vector, **version, "searchable": words}


def searchable(texts: Sequence[str]) -> list[str]:
    """Spell the words of texts for the index."""
    return [prepared(preprocess_text(text)) for text in texts]


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The vectors of a query's texts, and the one version whose vectors they compare with."""

    vectors: list[list[float]]
    version_id: UUID


def _spelt(text: str) -> int:
    """Return how much of a text takes long to spell: ASCII stays as it is."""
    return len(text) // 50 if text.isascii() else len(text)


def installed_embedder(version: ModelVersion) -> Embedder | None:
    """Return the embedder of a version by its registered directory; None if it is gone."""
    with suppress(Unavailable):  # a file of the model is missing
        engine = get_embedding_engine(version.directory)
        return engine if model_of(engine) == model_of(version) else None
    return None


@dataclass(frozen=True, slots=True)
class Counted:
    """All counts of a tenant at a time, and the newest events then."""

    row: Row
    at: datetime
    events: tuple[UUID, ...]


@dataclass(slots=True)
class Memory:
    """One butler's memory, with what its process caches; flows take it first."""

    database: Database
    embedder: Callable[[], Embedder]
    butler: str
    settings: MemoryModuleConfig = field(default_factory=MemoryModuleConfig)
    now: Clock = utc_now
    new_id: NewId = new_id
    embedders: Callable[[ModelVersion], Embedder | None] = installed_embedder
    counts: LRUCache[Counted] = field(default_factory=lambda: LRUCache(_COUNTS, _COUNTS_LIVE_MS))
    """The latest counts of each tenant."""
    profiles: LRUCache[TenantProfile] = field(
        default_factory=lambda: LRUCache(_PROFILES, _PROFILES_LIVE_MS)
    )
    """The latest profile of each tenant; every search reports whether it is outdated."""
    batch_sizes: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many episodes at once a model answers before its timeout, by tenant and butler."""
    recent_writes: LRUCache[deque[datetime]] = field(
        default_factory=lambda: LRUCache(_PROFILES, _WRITES_LIVE_MS)
    )
    """When each token stored something within the last minute, in this process."""
    predicate_vectors: LRUCache[list[float]] = field(
        default_factory=lambda: LRUCache(_WORD_VECTORS, _WORD_VECTORS_LIVE_MS)
    )
    """The vectors of predicates, by model and words; facts of one subject are compared by them."""
    embedded_subjects: LRUCache[bool] = field(
        default_factory=lambda: LRUCache(_PROFILES, _WORD_VECTORS_LIVE_MS)
    )
    """Subjects whose predicates are embedded, by tenant and name."""
    uses: Uses = field(default=cast(Uses, None))
    """Uses not counted yet, at the primary; handles made from one another share them."""
    clock_doubt: ClockDoubt = undoubted
    find_given: Rows | None = None  # which sessions were given some memories

    def __post_init__(self) -> None:
        if getattr(self.uses, "database", None) is not self.database:
            self.uses = Uses(self.database)

    async def believe_clock(self) -> None:
        """Raise Conflict while the clock is in doubt."""
        doubt = await self.clock_doubt()
        if doubt is not None:
            raise Conflict(doubt)

    def reader(self, tenant_id: str, *, current: bool = False) -> "Memory":
        """Return this memory for reading, perhaps from a replica; uses count at the primary."""
        memory = copy(self)
        memory.database = self.database.reader(tenant_id, current=current)
        return memory

    @property
    def original(self) -> "Memory":
        """This memory at the primary, where it can be written to."""
        return replace(self, database=self.uses.database)

    async def settled(self, tenant_id: str) -> None:
        """Wait until a tenant's uses are counted; a replica gets them later."""
        if tenant_id in self.uses.writers and not self.database.is_replica:
            await self.uses.settle(tenant_id)

    @asynccontextmanager
    async def transaction(
        self, lineage: Lineage, *, snapshot: bool = False
    ) -> AsyncIterator[Transaction]:
        """Open a transaction that sees only the caller's tenant, with its uses counted."""
        async with self.begin(lineage, snapshot=snapshot) as work:
            yield work.tx

    @asynccontextmanager
    async def begin(
        self, lineage: Lineage, *, snapshot: bool = False
    ) -> AsyncIterator["UnitOfWork"]:
        """Open a transaction of the caller's tenant, with its uses counted, as a unit of work."""
        await self.settled(lineage.tenant_id)
        actor = clean(lineage.actor)
        async with self.database.transaction(lineage.tenant_id, actor, snapshot=snapshot) as tx:
            yield UnitOfWork(self, tx, lineage)

    async def embed(self, texts: Sequence[str], lineage: Lineage) -> list[Embedding]:
        """Embed texts with the model that the tenant uses; call it while no connection is held."""
        if not texts:
            return []
        async with self.begin(lineage) as work:  # each time: another process may move the tenant
            versions = await embeddings.find_versions(work.tx)
        version, engine = self._in_use(versions)
        is_compared = any(one.has_less_trusted for one in versions)
        parts = [parts_of(text) if is_compared else [] for text in texts]
        every = list(dict.fromkeys(chain(texts, *parts)))
        made = dict(zip(every, await self.vectors(engine, every), strict=True))
        version_id = version.id if version else await self._register(engine, lineage)
        words = await read_apart(sum(map(_spelt, texts)), searchable, list(texts))
        return [
            Embedding(made[text], version_id, text, of, tuple((one, made[one]) for one in some))
            for text, of, some in zip(texts, words, parts, strict=True)
        ]

    async def embed_question(
        self, texts: Sequence[str], standing: TenantProfile
    ) -> QueryVectors | None:
        """Embed a query's texts; None for a tenant that has nothing to compare them with."""
        version, engine = self._in_use(standing.versions)
        if version is None:
            return None
        return QueryVectors(await self.vectors(engine, texts, is_query=True), version.id)

    async def vectors(
        self, engine: Embedder, texts: Sequence[str], *, is_query: bool = False
    ) -> list[list[float]]:
        """Embed texts with one model; refuse vectors of a length that the tables cannot hold."""
        if is_query and len(texts) == 1:  # perhaps embedded a moment ago, for another butler
            vectors = [await engine.embed_async(texts[0])]
        else:
            vectors = await engine.embed_batch_async(list(texts))
        if vectors and len(vectors[0]) != self.settings.embedding_dimensions:
            raise Unavailable(
                f"the embedding model makes {len(vectors[0])} dimensions; "
                f"modules.memory.embedding_dimensions says {self.settings.embedding_dimensions}"
            )
        return vectors

    async def word_vectors(self, words: Sequence[str]) -> list[list[float]]:
        """Embed predicates with the configured model, each once."""
        engine, cache = self.embedder(), self.predicate_vectors
        known = {word: cache.get(f"{engine.version} {word}") for word in words}
        missing = [word for word, vector in known.items() if vector is None]
        if missing:
            for word, made in zip(missing, await self.vectors(engine, missing), strict=True):
                known[word] = made
                cache.set(f"{engine.version} {word}", made)
        return [vector for word in words if (vector := known[word]) is not None]

    async def standing(self, lineage: Lineage, *, anew: bool = False) -> TenantProfile:
        """Return the tenant's profile, cached; `anew` loads one that proved outdated."""
        profile = None if anew else self.profiles.get(lineage.tenant_id)
        if profile is None:
            profile = await search.load_tenant_profile(self.database, lineage.tenant_id)
            self.profiles.set(lineage.tenant_id, profile)
        return profile

    def engine_of(self, version: ModelVersion) -> Embedder | None:
        """Return the embedder of a version, or None if this process cannot load it."""
        configured = self.embedder()
        is_own = model_of(version) == model_of(configured)
        return configured if is_own else self.embedders(version)

    def _in_use(self, versions: Sequence[ModelVersion]) -> tuple[ModelVersion | None, Embedder]:
        """Return the current version and its embedder, or else the configured ones.

        A tenant is moved to another configured model by re-embedding, not by the setting alone.
        """
        for version in versions:
            if version.state is VersionState.CURRENT and (engine := self.engine_of(version)):
                return version, engine
        configured = self.embedder()
        own = (version for version in versions if model_of(version) == model_of(configured))
        return next(own, None), configured

    async def _register(self, engine: Embedder, lineage: Lineage) -> UUID:
        path, id = self.settings.embedding_model_directory, self.new_id()
        # Another process may have started elsewhere: only the whole path means the same to it.
        directory = str(Path(path).expanduser().resolve()) if path else ""
        async with self.transaction(lineage) as tx:
            return await embeddings.register_version(tx, id, engine, directory, self.now())


@dataclass(frozen=True, slots=True)
class UnitOfWork:
    """A transaction with what a flow needs in it: `async with memory.begin(lineage) as work`.

    Functions that run inside a transaction take it first; statements take `work.tx`. A flow that
    needs more extends it by fields of its own.
    """

    memory: Memory
    tx: Transaction
    lineage: Lineage

    @property
    def now(self) -> datetime:
        """The current time; read it after waiting for locks, once for what shall have one time."""
        return self.memory.now()

    @property
    def settings(self) -> MemoryModuleConfig:
        """The settings of the memory module."""
        return self.memory.settings

    async def record(self, event: Event | Transition, now: datetime | None = None) -> int:
        """Append an event to the audit stream, or one for each of several; return how many.

        They are of `now` or the current time. The actor must be the transaction's, or TypeError.
        """
        if clean(self.lineage.actor) != self.tx.actor:
            raise TypeError(f"{event.type}: the actor must be that of the transaction")
        if isinstance(event, Event):
            event = Transition(event.type, {event.subject_id: event.payload})
        if not event.payloads:
            return 0
        if event.type.subject is EventSubject.ENTITY:  # the profile holds names
            self.memory.profiles.delete(self.lineage.tenant_id)
        memory_ids, request = sorted(event.payloads), self.lineage.request_id
        kind = {"event_type": event.type, "memory_type": event.type.subject}
        rows = {"memory_ids": memory_ids, "payloads": [event.payloads[id] for id in memory_ids]}
        rows["ids"] = [self.memory.new_id() for _ in memory_ids]
        of = {"request_id": request and clean(request), "now": now or self.now}
        return await events.append(self.tx, **kind, **rows, **of)
