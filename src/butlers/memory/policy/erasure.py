"""What is erased with a person, a session or a tenant, told from the rows that there are."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from butlers.kernel.mentions import Mentions
from butlers.kernel.text import one_line
from butlers.kernel.words import folded

MEMORIES = ("episode", "fact", "rule", "binned_episode")
_DELETED = (*MEMORIES, "entity", "rule_application", "proposal", "predicate")
_EXCERPT = 120
_SHORTEST_ID = 6
_SAYS = ("content", "canonical_name", "name", "reason", "key")


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """Whom or what to erase, and the ids, or how they begin, of what is to be kept all the same."""

    about: str = ""
    entity_id: UUID | None = None
    session: str = ""
    everything: bool = False
    keep: Sequence[str] = ()

    def keeps(self, id: str) -> bool:
        """Whether something is to be kept."""
        return any(len(one) >= _SHORTEST_ID and id.startswith(one) for one in self.keep)

    def is_of_session(self, row: Mapping[str, Any]) -> bool:
        """Whether a row came of the session that is erased."""
        if not self.session:
            return False
        told = (row.get("session_id"), (row.get("metadata") or {}).get("session"))
        key = f"session:{self.session}"
        return self.session in told or str(row.get("idempotency_key") or "").startswith(key)


@dataclass(frozen=True, slots=True)
class ErasedItem:
    """Something that is erased: what it is, why, and how it begins."""

    kind: str
    id: str
    why: str
    says: str
    sha256: str


@dataclass(slots=True)
class Selection:
    """Everything that is erased, and what is only reworded."""

    mentions: Mentions
    names: tuple[str, ...] = ()
    found: dict[tuple[str, str], ErasedItem] = field(default_factory=dict)
    reworded: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def ids(self, kind: str) -> list[str]:
        """The ids of one kind."""
        return [id for found, id in self.found if found == kind]

    def add(self, kind: str, id: str, why: str, row: Mapping[str, Any], written: str) -> None:
        """Erase a row."""
        said = next((str(row[name]) for name in _SAYS if row.get(name)), "")
        says = " ".join(str(row[name]) for name in ("subject", "predicate") if row.get(name))
        text = one_line(f"{says} {said}".strip())
        digest = hashlib.sha256(written.encode()).hexdigest()
        self.found[kind, id] = ErasedItem(kind, id, why, text[:_EXCERPT], digest)

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind."""
        kinds = [kind for kind, _ in self.found]
        reworded = [kind for kind, _ in self.reworded]
        told = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        told |= {f"{kind}_reworded": reworded.count(kind) for kind in dict.fromkeys(reworded)}
        return told | ({"event": len(self.events)} if self.events else {})


def names_of(
    wanted: ErasureRequest, entities: Iterable[Mapping[str, Any]]
) -> tuple[tuple[str, ...], set[str]]:
    """Every name of whoever is erased, and the entities that are that person."""
    names, ids = ({wanted.about} if wanted.about else set()), set[str]()
    for one in entities:
        called = [one["canonical_name"], *one["aliases"]]
        is_meant = str(wanted.entity_id) == one["id"]
        if is_meant or (wanted.about and folded(wanted.about) in map(folded, called)):
            names |= set(called)
            ids.add(one["id"])
    return tuple(sorted(names)), ids


def reason(
    wanted: ErasureRequest, kind: str, row: Mapping[str, Any], mentions: Mentions, persons: set[str]
) -> str:
    """Why a row is erased by itself; "" where it is not."""
    if wanted.everything:
        return "everything is"
    if row.get("id") in persons or row.get("entity_id") in persons:
        return "it is about them"
    if wanted.is_of_session(row if kind != "binned_episode" else row["episode"]):
        return "of the session"
    # What has the name only in its notes is worth keeping without it.
    told = {"entity": row.get("canonical_name"), "rule": row.get("content")}.get(kind, row)
    return "it names them" if kind in _DELETED and mentions.in_value(told) else ""


def drawn(
    rows: Mapping[tuple[str, str], Mapping[str, Any]],
    links: Iterable[tuple[str, str, str]],
    erased: set[str],
) -> Iterator[tuple[tuple[str, str], str]]:
    """What was drawn from what is erased, however many steps away, and from what."""
    sources: dict[str, list[tuple[tuple[str, str], str]]] = {}
    for kind, id, source in links:
        sources.setdefault(source, []).append(((kind, id), source))
    for key, row in rows.items():
        for source in (row.get("source_episode_id"), *(row.get("source_episode_ids") or ())):
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
    """A JSON value with every text that names somebody replaced by its hash."""
    if isinstance(value, str):
        digest = hashlib.sha256(value.encode()).hexdigest()
        return f"sha256:{digest}" if mentions.in_text(value) else value
    if isinstance(value, dict):
        return {
            without_names(key, mentions): without_names(one, mentions) for key, one in value.items()
        }
    return [without_names(one, mentions) for one in value] if isinstance(value, list) else value
