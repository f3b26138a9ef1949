"""Plan an undo: read everything that came through a source, before any of it is undone."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import InvalidInput
from butlers.memory.flows.fact_windows import find_existing, moved_window, window_of
from butlers.memory.flows.session_parts import session_key
from butlers.memory.flows.undo_copies import Copies, find_copies
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import Event, EventType, MemoryRef, MemoryType, Validity
from butlers.memory.policy.validity import Window, room
from butlers.memory.store import facts, undo
from butlers.memory.store.facts import FactKey

SHOWN = 100
"""The number of memories that a report names."""

_EXCERPT = 120


@dataclass(frozen=True, slots=True)
class UndoSource:
    """Where something came from: a token, a session, an episode, a time, or several of these.

    `also` is what a person chose of what may say the same.
    """

    token: str | None = None
    session: str | None = None
    episode_id: UUID | None = None
    since: datetime | None = None
    also: tuple[MemoryRef, ...] = ()

    def __post_init__(self) -> None:
        named = (self.token, self.session, self.since)
        if self.episode_id is None and not any(named):
            raise InvalidInput("name a token, a session, an episode or a time")
        if self.episode_id is not None and any(named):
            raise InvalidInput("episode: give it without token, session and since")

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statements."""
        return {
            "actor": self.token and (self.token if ":" in self.token else f"token:{self.token}"),
            "session_key": self.session and session_key(self.session),
            "episode_id": self.episode_id,
            "since": self.since,
        }

    @property
    def session_id(self) -> UUID | None:
        """The session id that its memories have, if it is a UUID."""
        try:
            return UUID(self.session) if self.session else None
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class UndoContext(UnitOfWork):
    """A unit of work whose events are marked `undo`."""

    async def record_undo(self, kind: EventType, id: UUID, payload: dict[str, Any]) -> None:
        """Record an event, marked `undo`."""
        await self.record(Event(kind, id, {**payload, "undo": True}))

    async def revive(self, row: Row) -> bool:
        """Give a superseded fact its window back, as far as it is free; return whether it is."""
        key = FactKey(row["scope"], row["predicate"], row["subject"], row["entity_id"])
        before, others = window_of(row), await find_existing(self.tx, key, row["id"])
        window = room(_window_before(row), others, self.now)
        if window is None or (window == before and row["validity"] != Validity.SUPERSEDED):
            return False
        again = row["validity"] == Validity.SUPERSEDED and not window.is_over(self.now)
        validity = Validity.ACTIVE if again else row["validity"]
        await facts.set_window(self.tx, id=row["id"], validity=validity, **asdict(window))
        payload = moved_window(before, window) if window != before else {}
        if again:
            payload |= {"from": "superseded", "to": row["was"] or "active"}
        kind = EventType.FACT_RESTORED if again else EventType.FACT_BOUNDED
        await self.record_undo(kind, row["id"], payload)
        return again or validity == Validity.ACTIVE


@dataclass(slots=True)
class UndoReport:
    """What an undo did, or would do; `entities_left` are changes to entities that stay.

    `copies` counts the memories that repeat others; `copies_left` are a person's, and stay;
    `copies_possible` may say the same as their `original`, and stay unless they are chosen.
    """

    applied: bool
    episodes: int = 0
    facts: int = 0
    rules: int = 0
    facts_restored: int = 0
    forgotten_restored: int = 0
    confirmations: int = 0
    marks: int = 0
    links: int = 0
    proposals: int = 0
    entities: int = 0
    entities_left: int = 0
    copies: int = 0
    copies_left: list[dict[str, Any]] = field(default_factory=list)
    copies_possible: list[dict[str, Any]] = field(default_factory=list)
    memories: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """Everything that came through a source, read before anything changes."""

    copies: Copies
    replaced: list[Row]
    confirmations: list[Row]
    marks: list[Row]
    forgotten: list[Row]
    proposals: list[Row]
    links: int
    entities: list[Row]

    @property
    def ids(self) -> list[UUID]:
        """The ids of everything that came through the source, forgotten before or not."""
        return [row["id"] for row in self.copies.taken]

    def report(self, *, applied: bool) -> UndoReport:
        """Report the plan as an undo's result.

        Unlinking a fact is no change of an entity; a helpful mark is no confirmation; a merge that
        did not record what it moved stays.
        """
        present, copies = self.copies.present, self.copies.certain
        kinds = [row["kind"] for row in present]
        changes = [row for row in self.entities if row["event_type"] != EventType.FACT_ANCHORED]
        merges = [row for row in changes if row["event_type"] == EventType.ENTITY_MERGE]
        left = sum(not row["payload"].get("moved") for row in merges)
        events = [row["event_type"] for row in self.confirmations]
        return UndoReport(
            applied,
            episodes=kinds.count(MemoryType.EPISODE),
            facts=kinds.count(MemoryType.FACT),
            rules=kinds.count(MemoryType.RULE),
            facts_restored=len(self.replaced),
            forgotten_restored=len(self.forgotten),
            confirmations=len(events) - events.count(EventType.RULE_MARKED_HELPFUL),
            marks=len(self.marks),
            links=self.links,
            proposals=len(self.proposals),
            entities=len(changes) - left,
            entities_left=left,
            copies=sum(row["id"] in copies for row in present),
            copies_left=[_named(row) for row in [*self.copies.kept.values()][:SHOWN]],
            copies_possible=[
                _named(row) | {"original": row["original"][:_EXCERPT]}
                for row in self.copies.listed()[:SHOWN]
            ],
            memories=[_named(row) | {"is_copy": row["id"] in copies} for row in present[:SHOWN]],
        )


async def plan(memory: Memory, tx: Transaction, source: UndoSource) -> UndoPlan:
    """Read everything that came through a source."""
    values = source.values()
    known = {**values, "session_id": source.session_id or UUID(int=0)}
    chosen = {ref.id: {"kind": ref.type} for ref in source.also}
    copies = await find_copies(memory, tx, known, chosen)
    known |= copies.columns()
    ids = [row["id"] for row in copies.taken]
    return UndoPlan(
        copies,
        await undo.find_replaced(tx, ids=ids, **values),
        await undo.find_confirmations(tx, **known),
        await undo.find_marks(tx, **known),
        await undo.find_forgotten(tx, **known),
        await undo.find_proposals(tx, ids=ids, **values),
        await undo.count_links(tx, ids=ids, **values),
        await undo.find_entity_changes(tx, **values),
    )


def _window_before(row: Row) -> Window:
    """The window of a fact before it was closed; open-ended where no event recorded it."""
    recorded = row.get("was_window")
    if recorded is not None:
        return Window.heard(recorded)
    return Window(None if window_of(row).is_empty else row["valid_from"], None)


def _named(row: Row) -> dict[str, Any]:
    excerpt = (row["content"] or "")[:_EXCERPT]
    named = {"memory_type": row["kind"], "id": row["id"], "content": excerpt}
    return named | {"state": row["state"]}
