"""Export, import and erase rows of any table."""

from dataclasses import dataclass
from typing import Any

from butlers.db.queries import load
from butlers.db.statements import OnlyValue, Rows, Touched

_SQL = load(__file__)

columns_of = OnlyValue[list[str]](_SQL["columns_of"])
bring = OnlyValue[int](_SQL["bring"])
bring_events = OnlyValue[int](_SQL["bring_events"])
erase = OnlyValue[int](_SQL["erase"])
erase_predicates = Touched(_SQL["erase_predicates"])
erase_names = OnlyValue[int](_SQL["erase_names"])
erase_events = OnlyValue[int](_SQL["erase_events"])
reword_entity = Touched(_SQL["reword_entity"])
reword_rule = Touched(_SQL["reword_rule"])
reword_project = Touched(_SQL["reword_project"])
find_links = Rows(_SQL["find_links"])
known_keys = Rows(_SQL["known_keys"])


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of line in an export: its name, its table, and the first column of the key."""

    name: str
    table: str
    key: str
    rows: Rows


KINDS = (
    RowKind("project", "projects", "id", Rows(_SQL["read_projects"])),
    RowKind("entity", "entities", "id", Rows(_SQL["read_entities"])),
    RowKind("episode", "episodes", "id", Rows(_SQL["read_episodes"])),
    RowKind("fact", "facts", "id", Rows(_SQL["read_facts"])),
    RowKind("rule", "rules", "id", Rows(_SQL["read_rules"])),
    RowKind("link", "memory_links", "source_id", Rows(_SQL["read_memory_links"])),
    RowKind("rule_application", "rule_applications", "id", Rows(_SQL["read_rule_applications"])),
    RowKind("proposal", "memory_proposals", "id", Rows(_SQL["read_memory_proposals"])),
    RowKind("conflict", "memory_conflicts", "id", Rows(_SQL["read_memory_conflicts"])),
    RowKind("predicate", "memory_predicates", "predicate", Rows(_SQL["read_memory_predicates"])),
    RowKind("binned_episode", "binned_episodes", "episode_id", Rows(_SQL["read_binned_episodes"])),
    RowKind("event", "memory_events", "id", Rows(_SQL["read_memory_events"])),
)
"""What an export consists of, in order."""


def searchable(kind: RowKind, row: dict[str, Any]) -> str | None:
    """Return the text that a memory is found by; None for other rows."""
    if kind.name == "fact":
        return " ".join(str(row.get(name, "")) for name in ("subject", "predicate", "content"))
    return str(row.get("content", "")) if kind.name in ("episode", "rule") else None
