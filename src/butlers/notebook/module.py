"""The notebook module of a butler."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from butlers.auth.rights import Caller
from butlers.db.postgres import Database
from butlers.errors import Unavailable
from butlers.module import ButlerEnvironment, Health, Job, Module
from butlers.notebook.manager import FILE, MemoryManager, open_manager
from butlers.notebook.operations import OPERATIONS, NotebookContext
from butlers.notebook.settings import NotebookModuleConfig
from butlers.notebook.store import file_stats
from butlers.notebook.summarize import OLDER_THAN_DAYS, summarize_everybody
from butlers.operation import Operation

SUMMARIZE_CRON = "30 4 * * *"


class NotebookModule(Module):
    """Keyed notes in an SQLite file of the butler's directory, used on a thread of its own."""

    name: ClassVar[str] = "notebook"
    settings_model: ClassVar[type[BaseModel]] = NotebookModuleConfig
    operations: ClassVar[Iterable[Operation]] = OPERATIONS

    def __init__(self, environment: ButlerEnvironment, config: BaseModel | None = None) -> None:
        super().__init__(environment, config)
        self._worker: ThreadPoolExecutor | None = None
        self._manager: MemoryManager | None = None

    async def on_startup(self, config: BaseModel | None, database: Database) -> None:
        """Open or create the file; the butler's database is not used."""
        self._worker = ThreadPoolExecutor(1, f"notebook-{self.environment.butler}")
        await asyncio.get_running_loop().run_in_executor(self._worker, self._open)

    async def on_shutdown(self) -> None:
        """Close the file after the work that is queued."""
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(worker, self._close)
            finally:
                worker.shutdown(wait=False)

    @property
    def manager(self) -> MemoryManager:
        """The notebook."""
        if self._manager is None:
            raise Unavailable(f"the notebook of butler {self.environment.butler} is not started")
        return self._manager

    def operation_context(self, caller: Caller, request_id: str | None = None) -> NotebookContext:
        """Make the context for a caller's agent; by default the butler itself."""
        agent = caller.agent or self.environment.butler
        file = (self.environment.directory or Path()) / FILE
        return NotebookContext(self.manager, caller.tenant_id, agent, file)

    def jobs(self) -> Sequence[Job]:
        """The nightly summary of old notes."""
        return [Job("summarize", SUMMARIZE_CRON, self.summarize)]

    async def summarize(self) -> dict[str, Any]:
        """Summarize the old notes of every agent of every tenant."""
        return await summarize_everybody(self.manager.db, OLDER_THAN_DAYS)

    async def health(self) -> Health:
        """Report healthy if the file can be read."""
        db = self.manager.db
        return Health(ok=True, details=await db.apart(file_stats, db))

    def _open(self) -> None:
        directory = self.environment.directory
        if directory is None:
            raise Unavailable("the notebook has no directory for its file; serve it from a home")
        self._manager = open_manager(
            directory,
            clock=self.environment.clock,
            new_id=self.environment.new_id,
            model=self.environment.language_model,
            worker=self._worker,
        )

    def _close(self) -> None:
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.db.close()
