"""Turning episodes into facts and rules."""

from dataclasses import asdict, dataclass
from typing import Any

from butlers.llm import LanguageModel
from butlers.modules.memory.memory import Memory
from butlers.modules.memory.model import Lineage


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """What a run did."""

    dry_run: bool

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON can carry it."""
        return asdict(self)


async def run_consolidation(
    memory: Memory, model: LanguageModel | None, lineage: Lineage
) -> ConsolidationReport:
    """Consolidate the tenant's waiting episodes."""
    raise NotImplementedError
