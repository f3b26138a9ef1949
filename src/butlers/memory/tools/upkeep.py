"""Tools that look after the memory itself."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from butlers.errors import InvalidInput
from butlers.llm import LanguageModel
from butlers.memory.flows import consolidate, episode_cleanup
from butlers.memory.tools.calling import Desk
from butlers.memory.tools.parameters import RequestContext
from butlers.memory.tools.results import Consolidation, EpisodeCleanup

MAX_ENTRIES = 1_000_000_000

Entries = Annotated[
    int, Field(description="How many episodes may stay; only consolidated ones make room.")
]


class UpkeepTools:
    """Running consolidation and cleanup by hand; both also run on a schedule."""

    def __init__(self, desk: Desk, model: Callable[[], LanguageModel | None]) -> None:
        self._desk = desk
        self._model = model

    async def memory_run_consolidation(
        self, request_context: RequestContext = None
    ) -> Consolidation:
        """Turn waiting episodes into facts and rules now, instead of at the next scheduled time.

        Without a configured language model it only counts what waits, and changes nothing
        (dry_run is true). Returns counts per outcome, and errors in words.
        """
        lineage = self._desk.lineage(request_context)
        report = await consolidate.run_consolidation(self._desk.memory(), self._model(), lineage)
        return Consolidation.model_validate(report.as_dict())

    async def memory_run_episode_cleanup(
        self, max_entries: Entries = 10000, request_context: RequestContext = None
    ) -> EpisodeCleanup:
        """Delete expired episodes, then the oldest consolidated ones beyond max_entries.

        Episodes that still wait for consolidation are kept until they expire.
        Returns {expired_deleted, capacity_deleted, remaining}.
        """
        lineage = self._desk.lineage(request_context)
        if not 0 <= max_entries <= MAX_ENTRIES:
            raise InvalidInput(f"max_entries: found {max_entries}; valid is 0 to {MAX_ENTRIES}")
        report = await episode_cleanup.run_episode_cleanup(
            self._desk.memory(), lineage, max_entries
        )
        return EpisodeCleanup.model_validate(asdict(report))
