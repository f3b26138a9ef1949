"""Finding, reading and summing up memories."""

from collections.abc import Sequence
from typing import Any

from butlers.doors.python.acting import Acting, Id
from butlers.memory.flows import context, history, lookup, recall, stats
from butlers.memory.flows.context import Context
from butlers.memory.flows.recall import Query, Recalled
from butlers.memory.model import MemoryType, SearchMode
from butlers.memory.policy.inputs import checked_word


class Reading(Acting):
    """Searching, recalling and explaining; defaults that are settings come from butler.toml."""

    __slots__ = ()

    async def search(  # noqa: PLR0913  one for each way to narrow a search
        self,
        query: str,
        *,
        types: Sequence[str] = (),
        scope: str | None = None,
        mode: str | None = None,
        limit: int = 10,
        min_confidence: float | None = None,
    ) -> list[dict[str, Any]]:
        """The best matches first, each with its `memory_type` and the scores of the mode.

        `mode` is hybrid (`rrf_score`), semantic (`similarity`) or keyword (`rank`).
        """
        settings = self.handle.settings
        chosen = checked_word("mode", mode or settings.retrieval.default_mode, SearchMode)
        kinds = tuple(checked_word("types", kind, MemoryType) for kind in types)
        threshold = settings.facts.retrieval_confidence_threshold
        asked = Query(query, kinds, scope, threshold if min_confidence is None else min_confidence)
        return await recall.search_memories(self.handle, asked, chosen, limit, self.lineage)

    async def recall(
        self, topic: str, *, scope: str | None = None, limit: int = 10
    ) -> list[Recalled]:
        """What is most worth recalling now, each with its score's parts; counted as used."""
        threshold = self.handle.settings.facts.retrieval_confidence_threshold
        asked = Query(topic, scope=scope, min_confidence=threshold)
        return await recall.recall(self.handle, asked, limit, self.lineage)

    async def context(self, prompt: str, *, token_budget: int | None = None) -> Context:
        """What to know before answering a prompt: its `text` never exceeds the budget."""
        return await context.build_context(
            self.handle, prompt, self.handle.butler, token_budget, self.lineage
        )

    async def get(self, memory_id: Id, memory_type: str | None = None) -> dict[str, Any] | None:
        """One memory whatever its state, counted as used; None where there is none."""
        ref = await self.find(memory_id, memory_type)
        if ref is None:
            return None
        return await recall.get_memory(self.handle, ref.type, ref.id, self.lineage)

    async def history(self, memory_id: Id) -> list[dict[str, Any]]:
        """Everything that happened to a memory or an entity, oldest first."""
        known = await lookup.find_known(self.handle, memory_id, None, self.lineage)
        if known is None:
            return []
        return await history.memory_history(self.handle, known.id, self.lineage)

    async def explain(self, memory_id: Id, memory_type: str | None = None) -> dict[str, Any] | None:
        """Where a memory comes from, what it replaced, who confirmed it and when it will fade."""
        ref = await self.find(memory_id, memory_type)
        if ref is None:
            return None
        return await history.explain_memory(self.handle, ref.type, ref.id, self.lineage)

    async def stats(self, scope: str | None = None) -> dict[str, Any]:
        """Counts of episodes, facts and rules by state."""
        return await stats.memory_stats(self.handle, scope, self.lineage)
