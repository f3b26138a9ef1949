"""The columns of episodes, facts and rules, declared once.

A field of `NewEpisode`, `NewFact` or `NewRule` may be filled by a caller; `column()` says what else
uses it. `EPISODE`, `FACT` and `RULE` add columns that the product fills. Statements (`FRAGMENTS`),
restating, correcting and proposing derive from here. Add a column to schema, migration, and here.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
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
    """How long a memory stays true unless it is confirmed, the longest first."""

    PERMANENT = "permanent"
    STABLE = "stable"
    STANDARD = "standard"
    VOLATILE = "volatile"
    EPHEMERAL = "ephemeral"


class PieceKind(StrEnum):
    """What a piece of a session is."""

    SAID = "said"
    ANSWER = "answer"
    DECISION = "decision"
    FAILURE = "failure"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A memory by kind and id."""

    type: MemoryType
    id: UUID


Restate = Callable[[Any, Any], Any]
"""Merges the given value of a restated fact with the one before."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a memory's table, and what else uses it."""

    name: str
    value: str | None = None
    """The SQL of the stored value, `:name` by default; empty for the table's default."""
    shown: bool = True
    """Part of the whole memory that readers get, besides id and text."""
    copied: bool = True
    """Copied when a fact is stored a second time, for a second window."""
    is_stored: bool = True
    """False for input that is stored elsewhere, or not at all."""
    corrected: bool = True
    """Taken over by the correction of a fact."""
    of_source: bool = False
    """Not taken over by a correction that says something else."""
    proposed: bool = True
    """Part of a proposal."""
    restated: Restate | None = None
    """How a restated fact inherits it; None: it has the new value."""

    @property
    def sql(self) -> str:
        """The SQL of the stored value."""
        return f":{self.name}" if self.value is None else self.value


def column(default: Any = MISSING, *, factory: Any = MISSING, **goes: Any) -> Any:
    """Declare a field whose column is used otherwise than an ordinary one."""
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
    """Return metadata without the status of a fading memory."""
    return {name: value for name, value in metadata.items() if name != "status"}


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """An episode, or a `piece` of one; `doubt`: why it is quarantined if a program stores it."""

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
    piece: PieceKind | None = None
    doubt: str = column("", is_stored=False)

    @property
    def searchable_text(self) -> str:
        """The text that is embedded and indexed."""
        return self.content


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to store."""

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
        """The text that is embedded and indexed."""
        return f"{self.subject} {self.predicate} {self.content}"


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule to store."""

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
        """The text that is embedded and indexed."""
        return self.content


New = NewEpisode | NewFact | NewRule


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who said, stored and accepted a memory, how far it is trusted, why it is quarantined."""

    origin: Origin
    trust: Trust
    stored_by: str | None
    quarantined: str | None
    agent: str | None = None
    accepted_by: str | None = None


INPUT: dict[type[New], dict[str, Column]] = {
    record: {field.name: Column(field.name, **field.metadata) for field in fields(record)}
    for record in (NewEpisode, NewFact, NewRule)
}
"""The columns that a caller may fill, by the field's name."""

_SAME_FOR_ALL = (
    Column("id", shown=False),
    Column("tenant_id", shown=False),
    Column("embedding", shown=False),
    Column("embedding_version_id", shown=False),
    Column("reference_count", "", copied=False),
    Column("created_at", ":now"),
    Column("last_referenced_at", "", copied=False),
    *(Column(field.name) for field in fields(Provenance)),
)


def _record(record: type[New], *own: Column) -> tuple[Column, ...]:
    """Return every column of a kind, those that a caller fills first."""
    columns = {name: column for name, column in INPUT[record].items() if column.is_stored}
    for column in _SAME_FOR_ALL:
        columns.setdefault(column.name, column)
    return tuple((columns | {column.name: column for column in own}).values())


EPISODE = _record(
    NewEpisode,
    Column("search_vector", "text_search_vector(:searchable)", shown=False),
    Column("expires_at"),
    Column("consolidated", ":piece::text is not null"),
    Column(
        "consolidation_status", "case when :piece is null then 'pending' else 'consolidated' end"
    ),
    Column("consolidation_attempts", ""),
    Column("last_consolidation_error", ""),
    Column("next_consolidation_retry_at", ""),
    Column("consolidation_batch", "", shown=False),
    Column("dead_letter_reason", ""),
    Column("past_by", ""),
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
    *(Column(f"last_{done}_at", "") for done in ("applied", "evaluated")),
    Column("last_confirmed_at", ":now"),
)

_TEXT = ("subject", "predicate", "content")
_NOT_BINNED = ("tenant_id", "embedding", "embedding_version_id", "search_vector", "expires_at")
"""Columns that an episode gets anew when it is restored from the bin."""
_OLDER = {"origin": "coalesce(e.origin, 'agent')", "trust": "coalesce(e.trust, 4)"}
"""Columns that episodes binned long ago lack."""
_COPY = {"id": ":copy_id", "created_at": ":now"}
_COPY |= {name: f":{name}" for name in ("valid_from", "valid_to")}
"""Columns that the copy of a fact for another window has of its own."""


def _fragments() -> dict[str, str]:
    """Return the lists of columns that statements use as `{name}`."""
    lists: dict[str, list[str]] = {}
    for kind, record in (("episode", EPISODE), ("fact", FACT), ("rule", RULE)):
        stored = [column for column in record if column.sql]
        lists[f"new_{kind}"] = [column.name for column in stored]
        lists[f"new_{kind}_values"] = [column.sql for column in stored]
        skipped = (*_TEXT, "butler", "session_id") if kind == "episode" else _TEXT
        shown = [column.name for column in record if column.shown and column.name not in skipped]
        lists[f"{kind}_columns"] = shown
        lists[f"m_{kind}_columns"] = [f"m.{name}" for name in shown]
    copied = [column.name for column in FACT if column.sql and column.copied]
    lists |= {"copied": copied, "copy": [_COPY.get(name, name) for name in copied]}
    binned = [column.name for column in EPISODE if column.name not in _NOT_BINNED]
    lists |= {"binned": binned, "from_bin": [_OLDER.get(name, f"e.{name}") for name in binned]}
    return {f"{{{name}}}": ", ".join(parts) for name, parts in lists.items()}


FRAGMENTS = _fragments()
