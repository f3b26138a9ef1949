"""Validity windows, and how a new fact closes or splits the windows of others under its key.

Windows of one key never overlap, so that every moment has one answer: what was stored later wins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Window:
    """From `valid_from` until before `valid_to`; None is open; empty for what never held."""

    valid_from: datetime | None = None
    valid_to: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it never held."""
        return self.valid_from is not None and self.valid_from == self.valid_to

    def is_over(self, at: datetime) -> bool:
        """Whether it has ended by then."""
        return self.valid_to is not None and self.valid_to <= at

    def begins_after(self, at: datetime) -> bool:
        """Whether it begins then or later."""
        return self.valid_from is not None and self.valid_from >= at

    def until(self, end: datetime) -> "Window":
        """Return the part before a moment."""
        end = _earliest(end, self.valid_to) or end
        return Window(self.valid_from, _latest(end, self.valid_from))

    def holds(self, at: datetime) -> bool:
        """Whether it contains a moment."""
        begun = self.valid_from is None or self.valid_from <= at
        return begun and (self.valid_to is None or at < self.valid_to)

    def meets(self, other: "Window") -> bool:
        """Whether it overlaps another."""
        begin = _latest(self.valid_from, other.valid_from)
        end = _earliest(self.valid_to, other.valid_to)
        return begin is None or end is None or begin < end

    def without(self, other: "Window") -> tuple["Window | None", "Window | None"]:
        """Return its parts before and after another."""
        begin, end = other.valid_from, other.valid_to
        before = begin is not None and (self.valid_from is None or self.valid_from < begin)
        after = end is not None and (self.valid_to is None or end < self.valid_to)
        return (
            Window(self.valid_from, begin) if before else None,
            Window(end, self.valid_to) if after else None,
        )

    @classmethod
    def heard(cls, told: Iterable[str | None]) -> "Window":
        """Read a window from an event."""
        return cls(*(datetime.fromisoformat(at) if at else None for at in told))

    def told(self) -> list[str | None]:
        """Return the window as an event stores it."""
        return [at.isoformat() if at else None for at in (self.valid_from, self.valid_to)]


OPEN = Window()


@dataclass(frozen=True, slots=True)
class ExistingFact:
    """A stored fact under the same key; `since` is the latest time from which it surely held."""

    id: UUID
    window: Window
    since: datetime
    is_active: bool = True
    says_same: bool = False
    trust: int = 0
    was: str = "active"

    @property
    def never(self) -> Window:
        """Return the empty window of a fact that never held."""
        at = self.window.valid_from or self.since
        return Window(at, at)


@dataclass(frozen=True, slots=True)
class WindowChange:
    """The new window of a fact, a second one if it is split, and whether it is superseded."""

    of: ExistingFact
    window: Window
    gives_way: bool
    copy: Window | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """The window of a new fact, its changes to others, and the facts it repeats and replaces.

    `is_first`: nothing was known about its subject before.
    """

    window: Window
    changes: tuple[WindowChange, ...] = ()
    same: UUID | None = None
    replaced: UUID | None = None
    is_first: bool = False


def place_fact(
    wanted: Window, standing: Sequence[ExistingFact], now: datetime, said_at: datetime | None = None
) -> Placement:
    """Place a fact that is stored now; without a window it holds from now on."""
    current = [fact for fact in standing if fact.is_active and fact.window.holds(now)]
    repeated = (fact for fact in current if fact.says_same and wanted.holds(now))
    same = next(repeated, None)
    window = _aim(wanted, same, standing, now, said_at)
    return place_exactly(window, standing, now, same)


def place_exactly(
    window: Window,
    standing: Sequence[ExistingFact],
    now: datetime,
    over: ExistingFact | None = None,
) -> Placement:
    """Place a fact with a known window; the fact that it corrects (`over`) never held."""
    met = [fact for fact in standing if fact is not over and fact.window.meets(window)]
    changes = [_cut(fact, window, now) for fact in met]
    if over is not None:
        changes.append(WindowChange(over, over.never, gives_way=True))
    same = over.id if over is not None and over.says_same else None
    gone = [change.of for change in changes if change.gives_way]
    gone.sort(key=lambda fact: (fact is over, fact.window.holds(now), fact.since))
    return Placement(window, tuple(changes), same, gone[-1].id if gone else None)


def room(window: Window, standing: Iterable[ExistingFact], now: datetime) -> Window | None:
    """Return the free part of a window: the one that holds now, or else the last."""
    parts = [window]
    for fact in standing:
        left = (p.without(fact.window) if p.meets(fact.window) else [p] for p in parts)
        parts = list(filter(None, chain.from_iterable(left)))
    current = [part for part in parts if part.holds(now)]
    return next(iter(current), parts[-1] if parts else None)


def _aim(
    wanted: Window,
    same: ExistingFact | None,
    standing: Sequence[ExistingFact],
    now: datetime,
    said_at: datetime | None,
) -> Window:
    """Return the window that is meant: without an end, it ends where the next fact begins."""
    begin, end = wanted.valid_from, wanted.valid_to
    if same is not None:
        return Window(begin or same.window.valid_from, end or same.window.valid_to)
    if begin is None:
        past = end is not None and end <= now
        ends = (fact.window.valid_to for fact in standing)
        last = max((at for at in ends if at and end and at < end), default=None)
        begin = last if past else _begin(standing, now, said_at)
    if end is None:
        after = max(begin or now, now)
        starts = (fact.window.valid_from for fact in standing if fact.is_active)
        end = min((at for at in starts if at is not None and at > after), default=None)
    return Window(begin, end)


def _begin(
    standing: Sequence[ExistingFact], now: datetime, said_at: datetime | None
) -> datetime | None:
    """Return the beginning of a fact stored without one; None if no fact was before."""
    known = [
        fact.window.valid_to if fact.window.valid_to and fact.window.is_over(now) else fact.since
        for fact in standing
        if fact.window.valid_from is None or fact.window.valid_from <= now
    ]
    if not known:
        return None
    return said_at if said_at is not None and max(known) <= said_at <= now else now


def _cut(fact: ExistingFact, window: Window, now: datetime) -> WindowChange:
    """Cut a window out of a fact's; the part that holds now keeps its row, or else the later."""
    before, after = fact.window.without(window)
    begin = window.valid_from
    held_before = fact.window.valid_from is not None or begin is None or fact.since < begin
    if before and after and not held_before:
        before = None
    kept, copy = (before, after) if before and before.holds(now) else (after, before)
    if kept is None:
        kept, copy = copy, None
    if kept is None:
        return WindowChange(fact, fact.never, gives_way=fact.is_active)
    gives_way = fact.is_active and fact.window.holds(now) and kept.is_over(now)
    return WindowChange(fact, kept, gives_way, copy)


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)
