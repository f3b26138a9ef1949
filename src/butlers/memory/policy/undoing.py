"""What is left of confirmations and marks once some of them are taken back."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.memory.model import Maturity, RuleOutcome
from butlers.memory.policy import maturity
from butlers.memory.policy.entities import MERGED_INTO
from butlers.memory.policy.maturity import Author, Mark
from butlers.memory.settings import RulesConfig

Row = Mapping[str, Any]
_COUNTED = ("applied_count", "success_count", "harmful_count", "effectiveness_score")


@dataclass(frozen=True, slots=True)
class Sureness:
    """When a memory was confirmed last, and how sure it was at first, where that is not kept."""

    confirmed_at: datetime | None
    confidence: float | None


def unconfirmed(story: Sequence[Row], undone: Collection[UUID]) -> Sureness:
    """How sure a memory is without some of its confirmations."""
    kept = [event for event in story if event["id"] not in undone]
    if kept:
        return Sureness(_instant(kept[-1]["payload"]["last_confirmed_at"]["to"]), None)
    first = story[0]["payload"]
    was = first.get("confidence", {}).get("from")
    return Sureness(_instant(first["last_confirmed_at"]["from"]), was)


def unchanged(entity: Row, change: Row) -> dict[str, Any] | None:
    """What an entity was before a change; None where somebody has changed it since."""
    was, became = change["from"], dict(change["to"])
    notes = became.pop("metadata", {})
    stands = {**entity, "aliases": list(entity["aliases"])}
    if any(stands[name] != value for name, value in became.items()):
        return None
    if any(entity["metadata"].get(key) != value for key, value in notes.items()):
        return None
    before = {name: was[name] for name in became}
    if notes:
        others = {key: one for key, one in entity["metadata"].items() if key not in notes}
        before["metadata"] = {**others, **was["metadata"]}
    return before


def parted(source: Row, target: Row, moved: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two entities as they would be had they not been merged, and what was told since kept."""
    own = {key: one for key, one in source["metadata"].items() if key != MERGED_INTO}
    came = {key for key in moved["metadata"] if target["metadata"].get(key) == own.get(key)}
    others = {key: one for key, one in target["metadata"].items() if key not in came}
    names = [name for name in target["aliases"] if name not in moved["aliases"]]
    return {**source, "metadata": own}, {**target, "metadata": others, "aliases": names}


def unmarked(rule: Row, marks: Sequence[Row], settings: RulesConfig) -> dict[str, Any]:
    """The columns of a rule that stands by these marks alone."""
    replayed = [Mark.of(row) for row in marks]
    state = maturity.replayed(replayed, rule["created_at"], Author.of(rule), settings)
    dropped = {"needs_inversion", "harmful_reasons"}
    if state.maturity is not Maturity.ANTI_PATTERN:
        dropped.add("original_content")
    metadata = {key: value for key, value in rule["metadata"].items() if key not in dropped}
    reasons = [row["reason"] for row in marks if row["outcome"] == RuleOutcome.HARMFUL]
    if kept := [reason for reason in reasons if reason]:
        metadata["harmful_reasons"] = kept[-maturity.KEPT_REASONS :]
    counts = {name: getattr(state, name) for name in _COUNTED}
    last_at = replayed[-1].at if replayed else None
    return {**counts, "maturity": state.maturity, "metadata": metadata, "last_at": last_at}


def words_of(rule: Row, columns: Mapping[str, Any]) -> str | None:
    """What a warning says without the marks that are gone, or the rule it was; None as before."""
    said: str | None = rule["metadata"].get("original_content")
    if rule["maturity"] != Maturity.ANTI_PATTERN or said is None:
        return None
    if columns["maturity"] is Maturity.ANTI_PATTERN:
        said = maturity.warning(said, columns["metadata"].get("harmful_reasons", ()))
    return said if said != rule["content"] else None


def _instant(told: str | None) -> datetime | None:
    return datetime.fromisoformat(told) if told else None
