"""Report what a consolidation did."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.memory.flows.consolidation.lease import Claimed, GivenBack
from butlers.memory.model import MemoryRef


class ActionEffect(StrEnum):
    """The effect of an action, by the field of the report that counts it."""

    FACT_CREATED = "facts_created"
    FACT_UPDATED = "facts_updated"
    RULE_CREATED = "rules_created"
    CONFIRMED = "confirmations_made"
    PROPOSED = "proposals_made"
    UNCHANGED = "unchanged"


@dataclass(slots=True)
class Applied:
    """What a plan's actions have done so far, and what failed."""

    effects: Counter[ActionEffect] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    created: list[MemoryRef] = field(default_factory=list)
    cited: set[UUID] = field(default_factory=set)
    consolidated: int = 0
    back: GivenBack = GivenBack(0, 0)


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """What a run did for one tenant or butler; a dry run counts what it would read."""

    episodes_processed: int = 0
    butlers_processed: int = 0
    groups: dict[str, int] = field(default_factory=dict)
    facts_created: int = 0
    facts_updated: int = 0
    rules_created: int = 0
    confirmations_made: int = 0
    proposals_made: int = 0
    episodes_consolidated: int = 0
    episodes_failed: int = 0
    episodes_dead_lettered: int = 0
    errors: list[str] = field(default_factory=list)
    dry_run: bool = False

    @classmethod
    def of_dry_run(cls, waiting: Mapping[str, int]) -> "ConsolidationReport":
        """Report what a run would read."""
        return cls(sum(waiting.values()), len(waiting), dict(waiting), dry_run=True)

    @classmethod
    def of_batch(cls, claimed: Claimed, applied: Applied) -> "ConsolidationReport":
        """Report what was done with the claimed episodes of one butler."""
        episodes = len(claimed.episodes)
        effects: dict[str, Any] = {effect.value: n for effect, n in applied.effects.items()}
        effects.pop(ActionEffect.UNCHANGED, None)
        return cls(
            episodes,
            1,
            {claimed.butler: episodes},
            episodes_consolidated=applied.consolidated,
            episodes_failed=applied.back.failed,
            episodes_dead_lettered=claimed.abandoned.dead_lettered + applied.back.dead_lettered,
            errors=[f"{claimed.butler}: {error}" for error in applied.errors],
            **effects,
        )

    @classmethod
    def of_groups(cls, reports: Sequence["ConsolidationReport"]) -> "ConsolidationReport":
        """Add up the reports of batches."""
        counts = [one.name for one in fields(cls) if one.type is int]
        sums = {name: sum(getattr(report, name) for report in reports) for name in counts}
        groups: Counter[str] = Counter()
        for report in reports:
            groups.update(report.groups)
        errors = [error for report in reports for error in report.errors]
        sums["butlers_processed"] = len(groups)
        return cls(groups=dict(sorted(groups.items())), errors=errors, **sums)

    @property
    def has_moved(self) -> bool:
        """Whether any episode changed its status."""
        moved = self.episodes_consolidated + self.episodes_failed + self.episodes_dead_lettered
        return moved > 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)
