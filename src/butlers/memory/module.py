"""The memory module as a butler loads it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

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
        """Open the memory; the embedding model is loaded when it is first needed."""
        self._database = database
        if isinstance(config, MemoryModuleConfig):
            self.config = config
        self._memory = Memory(
            database=database,
            embedder=self._get_embedding_engine,
            butler=self.environment.butler,
            settings=self.config,
            now=self.environment.clock,
            new_id=self.environment.new_id,
            clock_doubt=self.environment.clock_doubt,
            find_given=self.environment.find_given,
        )
        await self._keep_unread(self.environment.tenant_id, at_once=True)

    async def on_shutdown(self) -> None:
        """Close the memory, once its uses are counted."""
        if self._memory is not None:
            await self._memory.uses.settle_all()
        self._database = self._embedding_engine = self._memory = None

    @property
    def memory(self) -> Memory:
        """The handle that flows take."""
        if self._memory is None:
            raise Unavailable(f"the memory of butler {self.environment.butler} is not started")
        return self._memory

    def operation_context(self, caller: Caller, request_id: str | None = None) -> OperationContext:
        """Return the context in which operations run for a caller."""
        model, aside = self.environment.language_model, self.environment.sessions_aside
        context = OperationContext.of(self.memory, caller, request_id, model)
        return replace(context, sessions_aside=aside)

    def jobs(self) -> Sequence[Job]:
        """Return consolidation, decay sweep and episode cleanup."""
        model = self.environment.language_model
        return memory_jobs(lambda: self.memory, model, self.config.schedule)

    async def warm_up(self) -> None:
        """Keep every tenant's unread episodes, and load the embedding model."""
        for tenant_id in await self.memory.database.tenants():
            await self._keep_unread(tenant_id)
        await self._get_embedding_engine().embed_async(" ")

    async def health(self) -> Health:
        """Report health: ok when the database answers."""
        database = self.memory.database
        await database.ping()
        details: dict[str, Any] = {"embedding_model": self.config.embedding_model}
        if problems := database.replica_problems():
            details["replicas"] = problems
        return Health(ok=True, details=details)

    async def _keep_unread(self, tenant_id: str, *, at_once: bool = False) -> None:
        """Restore episodes that expired unread while the process was down; log a failure."""
        try:
            await keep_unread(self.memory, Lineage(tenant_id, "start"), at_once=at_once)
        except ButlersError as error:
            _log.warning("unread episodes could not be kept", error=str(error))

    def _get_embedding_engine(self) -> Embedder:
        if self._embedding_engine is None:
            directory = self.config.embedding_model_directory
            self._embedding_engine = get_embedding_engine(Path(directory) if directory else None)
        return self._embedding_engine
