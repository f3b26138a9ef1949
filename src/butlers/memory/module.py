"""The memory module as a butler loads it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import structlog
from pydantic import BaseModel

from butlers.auth.rights import Caller
from butlers.db.branch import Branch, newest_revision
from butlers.db.postgres import Database
from butlers.embedding import Embedder, get_embedding_engine
from butlers.errors import ButlersError, Unavailable
from butlers.memory.flows.lifecycle.episode_retention import keep_unread
from butlers.memory.handle import Memory
from butlers.memory.jobs import memory_jobs
from butlers.memory.model import Lineage
from butlers.memory.operations import OPERATIONS, OperationContext
from butlers.memory.settings import MemoryModuleConfig
from butlers.module import ButlerEnvironment, Health, Job, Module
from butlers.operation import Operation

_log = structlog.get_logger(__name__)


class MemoryModule(Module):
    """Episodes, facts and rules, in the butler's own database."""

    name: ClassVar[str] = "memory"
    dependencies: ClassVar[tuple[str, ...]] = ()
    settings_model: ClassVar[type[BaseModel]] = MemoryModuleConfig
    migrations: ClassVar[Branch | None] = Branch(
        "memory",
        "butlers:memory/migrations",
        head=newest_revision("butlers:memory/migrations"),
        schema="butlers:memory/schema",
        baseline="mem_034",
    )
    operations: ClassVar[Iterable[Operation]] = OPERATIONS

    def __init__(self, environment: ButlerEnvironment, config: BaseModel | None = None) -> None:
        super().__init__(environment, config)
        self._database: Database | None = None
        self._embedding_engine: Embedder | None = None
        self._memory: Memory | None = None

    async def on_startup(self, config: BaseModel | None, database: Database) -> None:
        """Take hold of settings and database; the model is loaded when a tool first needs it."""
        self._database = database
        if isinstance(config, MemoryModuleConfig):
            self.config = config
        self._memory = Memory(
            database=database,
            embedder=self._get_embedding_engine,
            butler=self.environment.butler,
            settings=self.config,
            clock=self.environment.clock,
            new_id=self.environment.new_id,
            clock_doubt=self.environment.clock_doubt,
        )
        await self._keep_unread(self.environment.tenant_id, at_once=True)

    async def on_shutdown(self) -> None:
        """Let go of database and model, once what was used is counted."""
        if self._memory is not None:
            await self._memory.uses.settle_all()
        self._database = None
        self._embedding_engine = None
        self._memory = None

    @property
    def memory(self) -> Memory:
        """The handle for the flows."""
        if self._memory is None:
            raise Unavailable(f"the memory of butler {self.environment.butler} is not started")
        return self._memory

    def operation_context(self, caller: Caller, request_id: str | None = None) -> OperationContext:
        """Where its operations are called on a caller's behalf."""
        return OperationContext.of(self.memory, caller, request_id, self.environment.language_model)

    def jobs(self) -> Sequence[Job]:
        """Consolidation, decay sweep and episode cleanup."""
        model = self.environment.language_model
        return memory_jobs(lambda: self.memory, model, self.config.schedule)

    async def warm_up(self) -> None:
        """Load the embedding model: an agent's first session should not start without memory.

        What nobody has read is kept for every tenant, however much it is.
        """
        for tenant_id in await self.memory.database.tenants():
            await self._keep_unread(tenant_id)
        await self._get_embedding_engine().embed_async(" ")

    async def health(self) -> Health:
        """Well when the database answers."""
        database = self.memory.database
        await database.ping()
        told = {"embedding_model": self.config.embedding_model}
        troubles = database.replica_problems()
        return Health(ok=True, details=told | ({"replicas": troubles} if troubles else {}))

    async def _keep_unread(self, tenant_id: str, *, at_once: bool = False) -> None:
        """Whatever expired unread while nobody was there is found again; reading needs no write."""
        try:
            await keep_unread(self.memory, Lineage(tenant_id, "start"), at_once=at_once)
        except ButlersError as error:
            _log.warning("unread episodes could not be kept", error=str(error))

    def _get_embedding_engine(self) -> Embedder:
        if self._embedding_engine is None:
            directory = self.config.embedding_model_directory
            self._embedding_engine = get_embedding_engine(Path(directory) if directory else None)
        return self._embedding_engine
