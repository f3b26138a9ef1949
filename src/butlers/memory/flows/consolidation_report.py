"""What a consolidation did."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What happened to the episodes of one butler."""

    butler: str
    episodes: int = 0
    facts_created: int = 0
    facts_updated: int = 0
    rules_created: int = 0
    confirmations_made: int = 0
    consolidated: int = 0
    failed: int = 0
    dead_lettered: int = 0
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """What a run did for one tenant; a dry run counts what a run would take and does nothing."""

    episodes_processed: int = 0
    butlers_processed: int = 0
    groups: dict[str, int] = field(default_factory=dict)
    facts_created: int = 0
    facts_updated: int = 0
    rules_created: int = 0
    confirmations_made: int = 0
    episodes_consolidated: int = 0
    episodes_failed: int = 0
    episodes_dead_lettered: int = 0
    errors: list[str] = field(default_factory=list)
    dry_run: bool = False

    @classmethod
    def of_dry_run(cls, claimable: Mapping[str, int]) -> "ConsolidationReport":
        """What a run would take."""
        groups = dict(claimable)
        return cls(sum(groups.values()), len(groups), groups, dry_run=True)

    @classmethod
    def of_groups(cls, reports: Sequence[GroupReport]) -> "ConsolidationReport":
        """The sum of what happened to each butler's episodes."""
        groups = {report.butler: report.episodes for report in reports if report.episodes}
        return cls(
            episodes_processed=sum(groups.values()),
            butlers_processed=len(groups),
            groups=groups,
            facts_created=sum(report.facts_created for report in reports),
            facts_updated=sum(report.facts_updated for report in reports),
            rules_created=sum(report.rules_created for report in reports),
            confirmations_made=sum(report.confirmations_made for report in reports),
            episodes_consolidated=sum(report.consolidated for report in reports),
            episodes_failed=sum(report.failed for report in reports),
            episodes_dead_lettered=sum(report.dead_lettered for report in reports),
            errors=[error for report in reports for error in report.errors],
        )

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON can carry it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TenantReport:
    """What a run did for one of several tenants."""

    tenant_id: str
    report: ConsolidationReport
