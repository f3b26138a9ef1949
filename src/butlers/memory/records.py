"""The columns of episodes, facts and rules, declared once.

A field of `NewEpisode`, `NewFact` or `NewRule` is a column that a caller may fill; `column()` says
where else it goes. What the product fills itself stands in `EPISODE`, `FACT` and `RULE`. Inserting,
copying and reading (`FRAGMENTS`, mentioned in `store/*.sql` and `schema/*.sql`), a fact said again,
a correction and a proposal derive from here; an export takes every column that PostgreSQL does not
make itself. A new column is added in the schema, in a revision, and here.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.memory.trust import Origin, Trust


class MemoryType(StrEnum):
    """The three kinds of memory."""

    EPISODE = "episode"
    FACT = "fact"
    RULE = "rule"


class Permanence(StrEnum):
    """How long something stays true unless it is confirmed again, the longest first."""

    PERMANENT = "permanent"
    STABLE = "stable"
    STANDARD = "standard"
    VOLATILE = "volatile"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A memory by kind and id."""

    type: MemoryType
    id: UUID


Restate = Callable[[Any, Any], Any]
"""From the value given and the one before: the value of a fact that is said again."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a memory's table, and where it goes beside the table."""

    name: str
    value: str | None = None
    """The SQL that storing writes, `:name` by default; empty where the table's default does."""
    shown: bool = True
    """Told to whoever reads the whole memory, beside its id and its text."""
    copied: bool = True
    """Taken over where a fact that held twice is stored a second time."""
    is_stored: bool = True
    """False for what a caller says that is kept elsewhere, or not at all."""
    corrected: bool = True
    """Taken over by the correction of a fact."""
    of_source: bool = False
    """Tells of who said it: not taken over by a correction that says something else."""
    proposed: bool = True
    """Kept by a proposal, for whoever accepts it."""
    restated: Restate | None = None
    """How a fact said again inherits it; None: it has what was said now."""

    @property
    def sql(self) -> str:
        """What storing writes into it."""
        return f":{self.name}" if self.value is None else self.value


def column(default: Any = MISSING, *, factory: Any = MISSING, **goes: Any) -> Any:
    """A field of a record that goes elsewhere than an ordinary column does."""
    return field(default=default, default_factory=factory, metadata=goes)


def _longer(given: Permanence, before: str) -> Permanence:
    return min(given, Permanence(before), key=list(Permanence).index)


def _either(given: Any, before: Any) -> Any:
    return given or before


def _both(given: tuple[str, ...], before: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *given)))


def _joined(given: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {**without_status(before), **given}


def without_status(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without what the product notes there of a memory that fades."""
    return {name: value for name, value in metadata.items() if name != "status"}


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """An episode to be stored; `doubt` says why it would wait, if a program says it."""

    content: str
    butler: str
    session_id: UUID | None = None
    importance: float = 5.0
    metadata: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = column(None, shown=False)
    place: int | None = None
    author: str | None = None
    said_at: datetime | None = None
    origin: Origin | None = None
    doubt: str = column("", is_stored=False)

    @property
    def searchable_text(self) -> str:
        """What is embedded and indexed."""
        return self.content


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to be stored."""

    subject: str
    predicate: str
    content: str
    importance: float = column(5.0, restated=max)
    permanence: Permanence = column(Permanence.STANDARD, restated=_longer)
    scope: str = "global"
    tags: tuple[str, ...] = column((), restated=_both)
    entity_id: UUID | None = None
    source_butler: str | None = None
    source_episode_id: UUID | None = column(None, of_source=True, proposed=False, restated=_either)
    metadata: dict[str, Any] = column(factory=dict, restated=_joined)
    idempotency_key: str | None = column(
        None, shown=False, copied=False, corrected=False, proposed=False
    )
    session_id: UUID | None = column(None, of_source=True)
    place: int | None = column(None, of_source=True)
    author: str | None = column(None, of_source=True)
    said_at: datetime | None = column(None, of_source=True)
    confidence: float = column(1.0, proposed=False, restated=max)
    origin: Origin | None = column(None, corrected=False, proposed=False)
    doubt: str = column("", is_stored=False, proposed=False)
    depends_on: tuple[MemoryRef, ...] = column((), is_stored=False)
    valid_from: datetime | None = None
    valid_to: datetime | None = None

    @property
    def searchable_text(self) -> str:
        """What is embedded and indexed."""
        return f"{self.subject} {self.predicate} {self.content}"


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule to be stored."""

    content: str
    scope: str = "global"
    tags: tuple[str, ...] = ()
    source_butler: str | None = None
    source_episode_id: UUID | None = column(None, proposed=False)
    metadata: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = column(None, shown=False, proposed=False)
    origin: Origin | None = column(None, proposed=False)
    doubt: str = column("", is_stored=False, proposed=False)
    depends_on: tuple[MemoryRef, ...] = column((), is_stored=False)
    said_at: datetime | None = None

    @property
    def searchable_text(self) -> str:
        """What is embedded and indexed."""
        return self.content


New = NewEpisode | NewFact | NewRule


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who said a memory, how far that is trusted, who stored it, and why it is held, if it is."""

    origin: Origin
    trust: Trust
    stored_by: str | None
    quarantined: str | None


INPUT: dict[type[New], dict[str, Column]] = {
    record: {one.name: Column(one.name, **one.metadata) for one in fields(record)}
    for record in (NewEpisode, NewFact, NewRule)
}
"""What a caller may say of each kind of memory, by the field's name."""

_SAME_FOR_ALL = (
    Column("id", shown=False),
    Column("tenant_id", shown=False),
    Column("embedding", shown=False),
    Column("embedding_version_id", shown=False),
    Column("reference_count", "", copied=False),
    Column("created_at", ":now"),
    Column("last_referenced_at", "", copied=False),
    *(Column(one.name) for one in fields(Provenance)),
)


def _record(record: type[New], *own: Column) -> tuple[Column, ...]:
    """Every column of a kind, those that a caller fills first."""
    known = {name: one for name, one in INPUT[record].items() if one.is_stored}
    known |= {one.name: one for one in _SAME_FOR_ALL if one.name not in known}
    return tuple({**known, **{one.name: one for one in own}}.values())


EPISODE = _record(
    NewEpisode,
    Column("search_vector", "text_search_vector(:searchable)", shown=False),
    Column("expires_at"),
    Column("consolidated", ""),
    Column("consolidation_status", ""),
    Column("consolidation_attempts", ""),
    Column("last_consolidation_error", ""),
    Column("next_consolidation_retry_at", ""),
    Column("consolidation_batch", "", shown=False),
    Column("dead_letter_reason", ""),
)
FACT = _record(
    NewFact,
    Column("search_vector", "to_tsvector('english', :searchable)", shown=False),
    Column("decay_rate"),
    Column("supersedes_id", copied=False),
    Column("validity", "case when :quarantined::text is null then 'active' else 'quarantined' end"),
    Column("last_confirmed_at", ":confirmed_at"),
)
RULE = _record(
    NewRule,
    Column("search_vector", "to_tsvector('english', :searchable)", shown=False),
    Column("maturity", "'candidate'"),
    Column("confidence"),
    Column("confidence_floor", ""),
    Column("decay_rate"),
    Column("permanence", ""),
    Column("effectiveness_score", ""),
    Column("applied_count", ""),
    Column("success_count", ""),
    Column("harmful_count", ""),
    Column("last_applied_at", ""),
    Column("last_evaluated_at", ""),
    Column("last_confirmed_at", ":now"),
)

_TEXT = ("subject", "predicate", "content")
_MADE_ANEW = ("tenant_id", "embedding", "embedding_version_id", "search_vector", "expires_at")
"""What an episode that comes out of the bin has of its own."""
_OLDER = {"origin": "coalesce(e.origin, 'agent')", "trust": "coalesce(e.trust, 4)"}
"""What episodes that went into the bin long ago do not say."""
_ANOTHER = {"id": ":copy_id", "created_at": ":now"} | {
    name: f":{name}" for name in ("valid_from", "valid_to")
}
"""What the copy of a fact for another window has of its own."""


def _fragments() -> dict[str, str]:
    """The lists of columns that statements mention, by `{name}`."""
    lists: dict[str, list[str]] = {}
    for kind, record in (("episode", EPISODE), ("fact", FACT), ("rule", RULE)):
        stored = [one for one in record if one.sql]
        lists[f"new_{kind}"] = [one.name for one in stored]
        lists[f"new_{kind}_values"] = [one.sql for one in stored]
        skipped = (*_TEXT, "butler", "session_id") if kind == "episode" else _TEXT
        shown = [one.name for one in record if one.shown and one.name not in skipped]
        lists[f"{kind}_columns"] = shown
        lists[f"m_{kind}_columns"] = [f"m.{name}" for name in shown]
    copied = [one.name for one in FACT if one.sql and one.copied]
    lists |= {"copied": copied, "copy": [_ANOTHER.get(name, name) for name in copied]}
    kept = [one.name for one in EPISODE if one.name not in _MADE_ANEW]
    lists |= {"binned": kept, "from_bin": [_OLDER.get(name, f"e.{name}") for name in kept]}
    return {f"{{{name}}}": ", ".join(parts) for name, parts in lists.items()}


FRAGMENTS = _fragments()


def stored_values(new: New) -> dict[str, Any]:
    """What a caller says of a memory, by the columns it goes into."""
    return {name: value for name, value in asdict(new).items() if INPUT[type(new)][name].is_stored}
