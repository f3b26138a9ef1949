"""The handle every flow is given: database, embedder, settings, clock and ids in one place."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from uuid import UUID

from butlers.clock import Clock, ClockDoubt, undoubted, utc_now
from butlers.db.postgres import Database, Row, Transaction
from butlers.embedding import Embedder, get_embedding_engine
from butlers.errors import Conflict, Unavailable
from butlers.ids import NewId, new_id
from butlers.kernel.lru import LRUCache
from butlers.kernel.text import clean
from butlers.memory.model import Event, EventSubject, Lineage, VersionState
from butlers.memory.settings import MemoryModuleConfig
from butlers.memory.store import embeddings, events, search
from butlers.memory.store.embeddings import ModelVersion
from butlers.memory.store.events import Transition
from butlers.memory.store.search import TenantProfile
from butlers.memory.uses import Uses
from butlers.memory.write_rate import WriteRate

_COUNTS, _COUNTS_LIVE_MS = 256, 30_000
# Whoever serves more tenants than this in turn asks for each anew, a round trip more.
_STANDINGS, _STANDINGS_LIVE_MS = 4_096, 300_000
# A home knows some hundred predicates; 1.5 kB each.
_WORD_VECTORS, _WORD_VECTORS_LIVE_MS = 2_048, 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector and the registered version of the model that made it."""

    vector: list[float]
    version_id: UUID


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The vectors of a query's texts, and the one version whose vectors they compare with."""

    vectors: list[list[float]]
    version_id: UUID


def installed_embedder(version: ModelVersion) -> Embedder | None:
    """The embedder of a version by the directory it was registered with; None if it is gone."""
    engine = get_embedding_engine(version.directory)
    try:
        return engine if version.made_by(engine) else None
    except Unavailable:  # a file of the model is missing
        return None


@dataclass(frozen=True, slots=True)
class Counted:
    """All counts of a tenant at an instant, and the newest events there were then."""

    row: Row
    at: datetime
    events: tuple[UUID, ...]


@dataclass(slots=True)
class Memory:
    """One butler's memory; flows are functions that take it first."""

    database: Database
    embedder: Callable[[], Embedder]
    butler: str
    settings: MemoryModuleConfig = field(default_factory=MemoryModuleConfig)
    clock: Clock = utc_now
    new_id: NewId = new_id
    embedders: Callable[[ModelVersion], Embedder | None] = installed_embedder
    counts: LRUCache[Counted] = field(default_factory=lambda: LRUCache(_COUNTS, _COUNTS_LIVE_MS))
    """What was counted last for a tenant; for the flow that counts."""
    standings: LRUCache[TenantProfile] = field(
        default_factory=lambda: LRUCache(_STANDINGS, _STANDINGS_LIVE_MS)
    )
    """What was known last of a tenant; every search says whether it still is so."""
    in_time: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many episodes at once a model may manage in time, by tenant and butler."""
    pace: WriteRate = field(default_factory=WriteRate)
    """How fast each token stores."""
    words: LRUCache[list[float]] = field(
        default_factory=lambda: LRUCache(_WORD_VECTORS, _WORD_VECTORS_LIVE_MS)
    )
    """The vectors of predicates, by model and words; facts of one subject are compared by them."""
    met: LRUCache[bool] = field(default_factory=lambda: LRUCache(_STANDINGS, _WORD_VECTORS_LIVE_MS))
    """Subjects whose predicates are among them, by tenant and name."""
    noted: Uses | None = None
    clock_doubt: ClockDoubt = undoubted

    def __post_init__(self) -> None:
        if self.noted is None or self.noted.database is not self.database:
            self.noted = Uses(self.database)

    @property
    def uses(self) -> Uses:
        """What was told and is not yet counted; the same for all handles made from one another."""
        assert self.noted is not None
        return self.noted

    def now(self) -> datetime:
        """This instant."""
        return self.clock()

    async def believe_clock(self) -> None:
        """Raise Conflict where nothing may be done on the clock's word alone."""
        doubt = await self.clock_doubt()
        if doubt is not None:
            raise Conflict(doubt)

    def reader(self, tenant_id: str, *, current: bool = False) -> "Memory":
        """The same memory to read from, which may be a copy that lags a little.

        What it tells is counted at the original.
        """
        memory = replace(self, database=self.database.reader(tenant_id, current=current))
        memory.noted = self.noted
        return memory

    @property
    def original(self) -> "Memory":
        """The same memory where it can be written to, for whoever was given it to read."""
        return replace(self, database=self.uses.database)

    async def settled(self, tenant_id: str) -> None:
        """What was told and can be seen here is counted; a copy has that only later."""
        if not self.database.is_replica:
            await self.uses.settle(tenant_id)

    @asynccontextmanager
    async def transaction(
        self, lineage: Lineage, *, snapshot: bool = False
    ) -> AsyncIterator[Transaction]:
        """One transaction in which only the caller's tenant exists, what it used counted."""
        await self.settled(lineage.tenant_id)
        actor = clean(lineage.actor)
        async with self.database.transaction(lineage.tenant_id, actor, snapshot=snapshot) as tx:
            yield tx

    @asynccontextmanager
    async def begin(self, lineage: Lineage) -> AsyncIterator["UnitOfWork"]:
        """Open a transaction of the caller's tenant, with all that a flow needs in it."""
        async with self.transaction(lineage) as tx:
            yield UnitOfWork(self, tx, lineage)

    async def embed(self, text: str, lineage: Lineage) -> Embedding:
        """The vector of a text, made while no connection is held."""
        return (await self.embed_all([text], lineage))[0]

    async def embed_all(self, texts: Sequence[str], lineage: Lineage) -> list[Embedding]:
        """The vectors of several texts, by the model that the tenant uses."""
        if not texts:
            return []
        version, engine = self._in_use(await self.versions(lineage))
        vectors = await self.vectors(engine, texts)
        version_id = version.id if version else await self._registered(engine, lineage)
        return [Embedding(vector, version_id) for vector in vectors]

    async def embed_question(
        self, texts: Sequence[str], standing: TenantProfile
    ) -> QueryVectors | None:
        """A query's vectors; None for a tenant that has nothing to compare them with."""
        version, engine = self._in_use(standing.versions)
        if version is None:
            return None
        if len(texts) > 1:
            return QueryVectors(await self.vectors(engine, texts), version.id)
        # By itself it may have been embedded a moment ago, as for the butler asked before this one.
        vectors = [await engine.embed_async(texts[0])]
        self._check_length(vectors)
        return QueryVectors(vectors, version.id)

    async def vectors(self, engine: Embedder, texts: Sequence[str]) -> list[list[float]]:
        """Bare vectors by one model, of the length that the tables hold."""
        vectors = await engine.embed_batch_async(list(texts))
        self._check_length(vectors)
        return vectors

    async def word_vectors(self, words: Sequence[str]) -> list[list[float]]:
        """The vectors of a few words each, by the configured model; made once."""
        engine = self.embedder()
        known = {one: self.words.get(f"{engine.version} {one}") for one in words}
        missing = [one for one, vector in known.items() if vector is None]
        if missing:
            for one, made in zip(missing, await self.vectors(engine, missing), strict=True):
                known[one] = made
                self.words.set(f"{engine.version} {one}", made)
        return [vector for one in words if (vector := known[one]) is not None]

    async def standing(self, lineage: Lineage, *, anew: bool = False) -> TenantProfile:
        """What is remembered of the tenant; whoever finds it outdated has it asked `anew`."""
        known = None if anew else self.standings.get(lineage.tenant_id)
        if known is None:
            known = await search.load_tenant_profile(self.database, lineage.tenant_id)
            self.standings.set(lineage.tenant_id, known)
        return known

    async def versions(self, lineage: Lineage) -> list[ModelVersion]:
        """The models the tenant knows; asked anew each time, since another process may move it."""
        async with self.transaction(lineage) as tx:
            return await embeddings.find_versions(tx)

    def engine_of(self, version: ModelVersion) -> Embedder | None:
        """The embedder of a version, or None where this process cannot have it."""
        configured = self.embedder()
        return configured if version.made_by(configured) else self.embedders(version)

    def _in_use(self, versions: Sequence[ModelVersion]) -> tuple[ModelVersion | None, Embedder]:
        """The current version and its embedder; where that cannot be had, the configured ones.

        A tenant is moved to another configured model by re-embedding, not by the setting alone.
        """
        for version in versions:
            if version.state is VersionState.CURRENT:
                engine = self.engine_of(version)
                if engine is not None:
                    return version, engine
        configured = self.embedder()
        return next((one for one in versions if one.made_by(configured)), None), configured

    def _check_length(self, vectors: Sequence[Sequence[float]]) -> None:
        if vectors and len(vectors[0]) != self.settings.embedding_dimensions:
            raise Unavailable(
                f"the embedding model makes {len(vectors[0])} dimensions; "
                f"modules.memory.embedding_dimensions says {self.settings.embedding_dimensions}"
            )

    async def _registered(self, engine: Embedder, lineage: Lineage) -> UUID:
        place = self.settings.embedding_model_directory
        # Another process may have started elsewhere: only the whole path means the same to it.
        directory = str(Path(place).expanduser().resolve()) if place else ""
        async with self.transaction(lineage) as tx:
            return await embeddings.register_version(
                tx, self.new_id(), engine, directory, self.now()
            )


@dataclass(frozen=True, slots=True)
class UnitOfWork:
    """What a flow needs while its transaction lasts: `async with memory.begin(lineage) as work`.

    Functions that run inside somebody's transaction take it first; statements take `work.tx`.
    A flow that needs more while it lasts extends it by fields of its own.
    """

    memory: Memory
    tx: Transaction
    lineage: Lineage

    @property
    def now(self) -> datetime:
        """This instant; read it after waiting for locks, and once for what shall bear one time."""
        return self.memory.now()

    @property
    def settings(self) -> MemoryModuleConfig:
        """The settings of the memory module."""
        return self.memory.settings

    def new_id(self) -> UUID:
        """An id for a new row."""
        return self.memory.new_id()

    async def record(self, event: Event, now: datetime | None = None) -> None:
        """Append an event to the audit stream, as of `now` or this instant."""
        await self.record_all(Transition(event.type, {event.subject_id: event.payload}), now)

    async def record_all(self, transition: Transition, now: datetime | None = None) -> int:
        """Append an event for each of several memories; how many there were."""
        if transition.type.subject is EventSubject.ENTITY:
            # Somebody may have another name now.
            self.memory.standings.delete(self.lineage.tenant_id)
        new_id = self.memory.new_id
        return await events.append(self.tx, new_id, transition, self.lineage, now or self.now)
