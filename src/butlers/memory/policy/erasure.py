"""Select what to erase with a person, a session or a tenant."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from butlers.kernel.mentions import Mentions
from butlers.kernel.text import folded, one_line
from butlers.memory.policy.entities import MERGED_INTO

MEMORIES = ("episode", "fact", "rule", "binned_episode")
_DELETED = (*MEMORIES, "entity", "rule_application", "proposal", "predicate")
_EXCERPT = 120
_SHORTEST_ID = 6
_SAYS = ("content", "canonical_name", "name", "reason", "key")


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """Whom or what to erase; `keep` are ids, or their beginnings, of what to keep."""

    about: str = ""
    entity_id: UUID | None = None
    session: str = ""
    everything: bool = False
    keep: Sequence[str] = ()

    def keeps(self, id: str) -> bool:
        """Whether to keep a row."""
        return any(len(kept) >= _SHORTEST_ID and id.startswith(kept) for kept in self.keep)

    def is_of_session(self, row: Mapping[str, Any]) -> bool:
        """Whether a row comes from the session to erase."""
        if not self.session:
            return False
        sessions = (row.get("session_id"), (row.get("metadata") or {}).get("session"))
        key = f"session:{self.session}"
        return self.session in sessions or str(row.get("idempotency_key") or "").startswith(key)


@dataclass(frozen=True, slots=True)
class ErasedItem:
    """A row to erase: its kind, the reason, and how its text begins."""

    kind: str
    id: str
    why: str
    says: str
    sha256: str


@dataclass(slots=True)
class Selection:
    """The rows to erase, and those to reword."""

    mentions: Mentions
    names: tuple[str, ...] = ()
    found: dict[tuple[str, str], ErasedItem] = field(default_factory=dict)
    reworded: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def ids(self, kind: str) -> list[str]:
        """Return the ids of one kind."""
        return [id for other, id in self.found if other == kind]

    def add(self, kind: str, id: str, why: str, row: Mapping[str, Any], written: str) -> None:
        """Add a row to erase."""
        content = next((str(row[name]) for name in _SAYS if row.get(name)), "")
        about = " ".join(str(row[name]) for name in ("subject", "predicate") if row.get(name))
        text = one_line(f"{about} {content}".strip())
        digest = hashlib.sha256(written.encode()).hexdigest()
        self.found[kind, id] = ErasedItem(kind, id, why, text[:_EXCERPT], digest)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of rows of each kind."""
        erased = Counter(kind for kind, _ in self.found)
        reworded = Counter(f"{kind}_reworded" for kind, _ in self.reworded)
        return {**erased, **reworded, **({"event": len(self.events)} if self.events else {})}


def names_of(
    wanted: ErasureRequest, entities: Iterable[Mapping[str, Any]]
) -> tuple[tuple[str, ...], set[str]]:
    """Return every name of the person to erase, and the ids of their entities."""
    names, ids = ({wanted.about} if wanted.about else set()), set[str]()
    for entity in entities:
        called = [entity["canonical_name"], *entity["aliases"]]
        is_meant = str(wanted.entity_id) == entity["id"]
        if is_meant or (wanted.about and folded(wanted.about) in map(folded, called)):
            names |= set(called)
            ids.add(entity["id"])
    return tuple(sorted(names)), ids


def called(about: str, entities: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the entities of this name or alias, without those merged into others."""
    return [
        entity
        for entity in entities
        if folded(about) in map(folded, (entity["canonical_name"], *entity["aliases"]))
        and MERGED_INTO not in entity["metadata"]
    ]


def reason(
    wanted: ErasureRequest, kind: str, row: Mapping[str, Any], mentions: Mentions, persons: set[str]
) -> str:
    """Return why a row is erased for itself; "" if it is not."""
    if wanted.everything:
        return "everything is"
    if row.get("id") in persons or row.get("entity_id") in persons:
        return "it is about them"
    if wanted.is_of_session(row if kind != "binned_episode" else row["episode"]):
        return "of the session"
    # An entity or rule that has the name only in its metadata is reworded instead.
    value = {"entity": row.get("canonical_name"), "rule": row.get("content")}.get(kind, row)
    return "it names them" if kind in _DELETED and mentions.in_value(value) else ""


def drawn(
    rows: Mapping[tuple[str, str], Mapping[str, Any]],
    links: Iterable[tuple[str, str, str]],
    erased: set[str],
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what was drawn from erased rows, in any number of steps, and its source."""
    sources: dict[str, list[tuple[tuple[str, str], str]]] = {}
    for kind, id, source in links:
        sources.setdefault(source, []).append(((kind, id), source))
    for key, row in rows.items():
        part = (row.get("metadata") or {}).get("part") if row.get("piece") else None
        for source in (part, row.get("source_episode_id"), *(row.get("source_episode_ids") or ())):
            if source:
                sources.setdefault(source, []).append((key, source))
    waiting, seen = sorted(erased), set(erased)
    while waiting:
        for key, source in sources.get(waiting.pop(), ()):
            if key[1] not in seen and key in rows:
                seen.add(key[1])
                waiting.append(key[1])
                yield key, source


def without_names(value: Any, mentions: Mentions) -> Any:
    """Replace every text of a JSON value that names somebody by its hash."""
    if isinstance(value, str):
        digest = hashlib.sha256(value.encode()).hexdigest()
        return f"sha256:{digest}" if mentions.in_text(value) else value
    if isinstance(value, dict):
        pairs = value.items()
        return {without_names(key, mentions): without_names(item, mentions) for key, item in pairs}
    return [without_names(item, mentions) for item in value] if isinstance(value, list) else value
