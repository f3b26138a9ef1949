"""Tools that look after the memory itself."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from butlers.llm import LanguageModel
from butlers.modules.memory.flows import consolidate, episode_cleanup
from butlers.modules.memory.policy.presentation import as_json
from butlers.modules.memory.tools.calling import Desk, RequestContext, traced


class UpkeepTools:
    """Running consolidation and cleanup by hand; both also run on a schedule."""

    def __init__(self, desk: Desk, model: Callable[[], LanguageModel | None]) -> None:
        self._desk = desk
        self._model = model

    async def memory_run_consolidation(
        self, request_context: RequestContext = None
    ) -> dict[str, Any]:
        """Turn waiting episodes into facts and rules now, instead of at the next scheduled time.

        Without a configured language model it only counts what waits, and changes nothing
        (dry_run is true). Returns counts per outcome and any errors.
        """
        lineage = self._desk.lineage(request_context)
        report = await consolidate.run_consolidation(self._desk.memory(), self._model(), lineage)
        return traced(as_json(report.as_dict()), lineage)

    async def memory_run_episode_cleanup(
        self, max_entries: int = 10000, request_context: RequestContext = None
    ) -> dict[str, Any]:
        """Delete expired episodes, then the oldest consolidated ones beyond max_entries.

        Episodes that still wait for consolidation are kept until they expire.
        Returns {expired_deleted, capacity_deleted, remaining}.
        """
        lineage = self._desk.lineage(request_context)
        report = await episode_cleanup.run_episode_cleanup(
            self._desk.memory(), lineage, max_entries
        )
        return traced(as_json(asdict(report)), lineage)
