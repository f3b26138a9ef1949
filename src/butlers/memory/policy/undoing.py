"""Compute what memories and entities are after some of their changes are undone."""

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


@dataclass(frozen=True, slots=True)
class Sureness:
    """The time of the last confirmation, and the confidence to set if no confirmation is left.

    `revoked` are the people whose confirmations are all undone.
    """

    confirmed_at: datetime | None
    confidence: float | None
    revoked: tuple[str, ...] = ()


def unconfirmed(story: Sequence[Row], undone: Collection[UUID]) -> Sureness:
    """Return a memory's confirmation without the undone ones; `story` is its confirmations."""
    kept = [event for event in story if event["id"] not in undone]
    still = {event["payload"].get("accepted_by") for event in kept} | {None}
    revoked = tuple({event["payload"].get("accepted_by") for event in story} - still)
    if kept:
        return Sureness(_instant(kept[-1]["payload"]["last_confirmed_at"]["to"]), None, revoked)
    first = story[0]["payload"]
    confidence = first.get("confidence", {}).get("from")
    return Sureness(_instant(first["last_confirmed_at"]["from"]), confidence, revoked)


def unchanged(entity: Row, change: Row) -> dict[str, Any] | None:
    """Return an entity's columns before a change; None if it was changed again since."""
    was, became = change["from"], dict(change["to"])
    keys, metadata = became.pop("metadata", {}), entity["metadata"]
    now = {**entity, "aliases": list(entity["aliases"])}
    if any(now[name] != value for name, value in became.items()):
        return None
    if any(metadata.get(key) != value for key, value in keys.items()):
        return None
    before = {name: was[name] for name in became}
    if keys:
        others = {key: value for key, value in metadata.items() if key not in keys}
        before["metadata"] = {**others, **was["metadata"]}
    return before


def parted(source: Row, target: Row, moved: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both entities without the names and metadata that a merge moved."""
    own = {key: value for key, value in source["metadata"].items() if key != MERGED_INTO}
    came = {key for key in moved["metadata"] if target["metadata"].get(key) == own.get(key)}
    others = {key: value for key, value in target["metadata"].items() if key not in came}
    names = [name for name in target["aliases"] if name not in moved["aliases"]]
    return {**source, "metadata": own}, {**target, "metadata": others, "aliases": names}


def unmarked(rule: Row, marks: Sequence[Row], settings: RulesConfig) -> dict[str, Any]:
    """Return the columns of a rule after these marks alone."""
    replayed = [Mark.of(row) for row in marks]
    state = maturity.replayed(replayed, rule["created_at"], Author.of(rule), settings)
    dropped = {"needs_inversion", "harmful_reasons"}
    if state.maturity is not Maturity.ANTI_PATTERN:
        dropped.add("original_content")
    if not state.reported_harmful:
        dropped.add(maturity.REPORTED)
    metadata = {key: value for key, value in rule["metadata"].items() if key not in dropped}
    harmful = (row["reason"] for row in marks if row["outcome"] == RuleOutcome.HARMFUL)
    if reasons := list(filter(None, harmful)):
        metadata["harmful_reasons"] = reasons[-maturity.KEPT_REASONS :]
    counts = {name: getattr(state, name) for name in maturity.COUNTED}
    last_at = replayed[-1].at if replayed else None
    return {**counts, "maturity": state.maturity, "metadata": metadata, "last_at": last_at}


def words_of(rule: Row, columns: Mapping[str, Any]) -> str | None:
    """Return the new text of a warning after marks are undone; None if it stays the same."""
    content: str | None = rule["metadata"].get("original_content")
    if rule["maturity"] != Maturity.ANTI_PATTERN or content is None:
        return None
    if columns["maturity"] is Maturity.ANTI_PATTERN:
        content = maturity.warning(content, columns["metadata"].get("harmful_reasons", ()))
    return content if content != rule["content"] else None


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
