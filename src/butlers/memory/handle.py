"""The handle that every flow takes: database, embedder, settings, clock and ids."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.clock import Clock, ClockDoubt, undoubted, utc_now
from butlers.db.postgres import Database, Row, Transaction
from butlers.embedding import Embedder, get_embedding_engine
from butlers.errors import Conflict, Unavailable
from butlers.ids import NewId, new_id
from butlers.kernel.lru import LRUCache
from butlers.kernel.text import clean, prepared, preprocess_text
from butlers.memory.model import Event, EventSubject, Lineage, VersionState
from butlers.memory.settings import MemoryModuleConfig
from butlers.memory.store import embeddings, events, search
from butlers.memory.store.embeddings import ModelVersion
from butlers.memory.store.events import Transition
from butlers.memory.store.search import TenantProfile
from butlers.memory.uses import Uses
from butlers.memory.write_rate import WriteRate

_COUNTS, _COUNTS_LIVE_MS = 256, 30_000
# With more tenants than this, some profiles are loaded again: one more round trip.
_PROFILES, _PROFILES_LIVE_MS = 4_096, 300_000
# A home knows some hundred predicates; 1.5 kB each.
_WORD_VECTORS, _WORD_VECTORS_LIVE_MS = 2_048, 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector and the registered version of the model that made it."""

    vector: list[float]
    version_id: UUID

    def columns(self, text: str) -> dict[str, Any]:
        """Return the columns by which a text is searched: its vector and its words."""
        words = prepared(preprocess_text(text))
        version = {"embedding_version_id": self.version_id}
        return {"embedding": self.vector, **version, "searchable": words}


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The vectors of a query's texts, and the one version whose vectors they compare with."""

    vectors: list[list[float]]
    version_id: UUID


def installed_embedder(version: ModelVersion) -> Embedder | None:
    """Return the embedder of a version by its registered directory; None if it is gone."""
    engine = get_embedding_engine(version.directory)
    try:
        return engine if version.made_by(engine) else None
    except Unavailable:  # a file of the model is missing
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
    clock: Clock = utc_now
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
    write_rate: WriteRate = field(default_factory=WriteRate)
    """How fast each token stores."""
    predicate_vectors: LRUCache[list[float]] = field(
        default_factory=lambda: LRUCache(_WORD_VECTORS, _WORD_VECTORS_LIVE_MS)
    )
    """The vectors of predicates, by model and words; facts of one subject are compared by them."""
    embedded_subjects: LRUCache[bool] = field(
        default_factory=lambda: LRUCache(_PROFILES, _WORD_VECTORS_LIVE_MS)
    )
    """Subjects whose predicates are embedded, by tenant and name."""
    noted: Uses | None = None
    clock_doubt: ClockDoubt = undoubted

    def __post_init__(self) -> None:
        if self.noted is None or self.noted.database is not self.database:
            self.noted = Uses(self.database)

    @property
    def uses(self) -> Uses:
        """The uses that are not counted yet; shared by all handles made from one another."""
        assert self.noted is not None
        return self.noted

    def now(self) -> datetime:
        """Return the current time."""
        return self.clock()

    async def believe_clock(self) -> None:
        """Raise Conflict while the clock is in doubt."""
        doubt = await self.clock_doubt()
        if doubt is not None:
            raise Conflict(doubt)

    def reader(self, tenant_id: str, *, current: bool = False) -> "Memory":
        """Return this memory for reading, perhaps from a replica; uses count at the primary."""
        memory = replace(self, database=self.database.reader(tenant_id, current=current))
        memory.noted = self.noted
        return memory

    @property
    def original(self) -> "Memory":
        """This memory at the primary, where it can be written to."""
        return replace(self, database=self.uses.database)

    async def settled(self, tenant_id: str) -> None:
        """Wait until a tenant's uses are counted; a replica gets them later."""
        if not self.database.is_replica:
            await self.uses.settle(tenant_id)

    @asynccontextmanager
    async def transaction(
        self, lineage: Lineage, *, snapshot: bool = False
    ) -> AsyncIterator[Transaction]:
        """Open a transaction that sees only the caller's tenant, with its uses counted."""
        await self.settled(lineage.tenant_id)
        actor = clean(lineage.actor)
        async with self.database.transaction(lineage.tenant_id, actor, snapshot=snapshot) as tx:
            yield tx

    @asynccontextmanager
    async def begin(self, lineage: Lineage) -> AsyncIterator["UnitOfWork"]:
        """Open a transaction of the caller's tenant as a unit of work."""
        async with self.transaction(lineage) as tx:
            yield UnitOfWork(self, tx, lineage)

    async def embed(self, text: str, lineage: Lineage) -> Embedding:
        """Embed a text; call it while no connection is held."""
        return (await self.embed_all([text], lineage))[0]

    async def embed_all(self, texts: Sequence[str], lineage: Lineage) -> list[Embedding]:
        """Embed several texts with the model that the tenant uses."""
        if not texts:
            return []
        version, engine = self._in_use(await self.versions(lineage))
        vectors = await self.vectors(engine, texts)
        version_id = version.id if version else await self._register(engine, lineage)
        return [Embedding(vector, version_id) for vector in vectors]

    async def embed_question(
        self, texts: Sequence[str], standing: TenantProfile
    ) -> QueryVectors | None:
        """Embed a query's texts; None for a tenant that has nothing to compare them with."""
        version, engine = self._in_use(standing.versions)
        if version is None:
            return None
        if len(texts) > 1:
            return QueryVectors(await self.vectors(engine, texts), version.id)
        # A single text may have been embedded a moment ago, for another butler.
        vectors = [await engine.embed_async(texts[0])]
        self._check_length(vectors)
        return QueryVectors(vectors, version.id)

    async def vectors(self, engine: Embedder, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts with one model; refuse vectors of a length that the tables cannot hold."""
        vectors = await engine.embed_batch_async(list(texts))
        self._check_length(vectors)
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

    async def versions(self, lineage: Lineage) -> list[ModelVersion]:
        """Load the tenant's models, each time, since another process may move it."""
        async with self.transaction(lineage) as tx:
            return await embeddings.find_versions(tx)

    def engine_of(self, version: ModelVersion) -> Embedder | None:
        """Return the embedder of a version, or None if this process cannot load it."""
        configured = self.embedder()
        return configured if version.made_by(configured) else self.embedders(version)

    def _in_use(self, versions: Sequence[ModelVersion]) -> tuple[ModelVersion | None, Embedder]:
        """Return the current version and its embedder, or else the configured ones.

        A tenant is moved to another configured model by re-embedding, not by the setting alone.
        """
        for version in versions:
            if version.state is VersionState.CURRENT and (engine := self.engine_of(version)):
                return version, engine
        configured = self.embedder()
        made = (version for version in versions if version.made_by(configured))
        return next(made, None), configured

    def _check_length(self, vectors: Sequence[Sequence[float]]) -> None:
        if vectors and len(vectors[0]) != self.settings.embedding_dimensions:
            raise Unavailable(
                f"the embedding model makes {len(vectors[0])} dimensions; "
                f"modules.memory.embedding_dimensions says {self.settings.embedding_dimensions}"
            )

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

    def new_id(self) -> UUID:
        """Return an id for a new row."""
        return self.memory.new_id()

    async def record(self, event: Event, now: datetime | None = None) -> None:
        """Append an event to the audit stream, as of `now` or the current time."""
        await self.record_all(Transition(event.type, {event.subject_id: event.payload}), now)

    async def record_all(self, transition: Transition, now: datetime | None = None) -> int:
        """Append an event for each of several memories; return how many there were."""
        if transition.type.subject is EventSubject.ENTITY:  # the profile holds names
            self.memory.profiles.delete(self.lineage.tenant_id)
        new_id = self.memory.new_id
        return await events.append(self.tx, new_id, transition, self.lineage, now or self.now)
