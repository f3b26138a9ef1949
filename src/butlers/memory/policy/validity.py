"""When a fact holds: its window, and what becomes of others when one more is told of their key.

What was told later wins where windows overlap. What is told of a time (believed, replaced or
faded) never overlaps under one key, so that a question of any moment has one answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Window:
    """From the one, until before the other; None is open. One that is empty never held."""

    valid_from: datetime | None = None
    valid_to: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is known of when."""
        return self.valid_from is None and self.valid_to is None

    @property
    def is_empty(self) -> bool:
        """Whether it never held."""
        return self.valid_from is not None and self.valid_from == self.valid_to

    def is_over(self, at: datetime) -> bool:
        """Whether it has ended by then."""
        return self.valid_to is not None and self.valid_to <= at

    def begins_after(self, at: datetime) -> bool:
        """Whether nothing of it lies before then."""
        return self.valid_from is not None and self.valid_from >= at

    def until(self, end: datetime) -> "Window":
        """As much of it as lies before a moment."""
        end = _earliest(end, self.valid_to) or end
        return Window(self.valid_from, _latest(end, self.valid_from))

    def holds(self, at: datetime) -> bool:
        """Whether a moment lies within it."""
        begun = self.valid_from is None or self.valid_from <= at
        return begun and (self.valid_to is None or at < self.valid_to)

    def meets(self, other: "Window") -> bool:
        """Whether there is a moment within both."""
        begin = _latest(self.valid_from, other.valid_from)
        end = _earliest(self.valid_to, other.valid_to)
        return begin is None or end is None or begin < end

    def without(self, other: "Window") -> tuple["Window | None", "Window | None"]:
        """What is left of it before another, and after."""
        begin, end = other.valid_from, other.valid_to
        before = begin is not None and (self.valid_from is None or self.valid_from < begin)
        after = end is not None and (self.valid_to is None or end < self.valid_to)
        return (
            Window(self.valid_from, begin) if before else None,
            Window(end, self.valid_to) if after else None,
        )

    @classmethod
    def heard(cls, told: Iterable[str | None]) -> "Window":
        """As an event kept it."""
        return cls(*(datetime.fromisoformat(at) if at else None for at in told))

    def told(self) -> list[str | None]:
        """As an event keeps it."""
        return [at.isoformat() if at else None for at in (self.valid_from, self.valid_to)]


OPEN = Window()


@dataclass(frozen=True, slots=True)
class ExistingFact:
    """A fact under the key that holds at some time; `since` when at the latest it held."""

    id: UUID
    window: Window
    since: datetime
    is_active: bool = True
    says_same: bool = False
    trust: int = 0
    was: str = "active"

    @property
    def never(self) -> Window:
        """The window it has if it never held."""
        at = self.window.valid_from or self.since
        return Window(at, at)


@dataclass(frozen=True, slots=True)
class WindowChange:
    """What becomes of a fact: another window, perhaps in two parts, and whether it gives way."""

    of: ExistingFact
    window: Window
    gives_way: bool
    copy: Window | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """The window of a fact, what it changes, which that held says the same, and which gives way."""

    window: Window
    changes: tuple[WindowChange, ...] = ()
    same: UUID | None = None
    replaced: UUID | None = None


def place_fact(
    wanted: Window, standing: Sequence[ExistingFact], now: datetime, said_at: datetime | None = None
) -> Placement:
    """Where a fact goes that is told now: without a window, from now on."""
    same = _same(wanted, standing, now)
    window = _aim(wanted, same, standing, now, said_at)
    return place_exactly(window, standing, now, same)


def place_exactly(
    window: Window,
    standing: Sequence[ExistingFact],
    now: datetime,
    over: ExistingFact | None = None,
) -> Placement:
    """Where a fact goes whose window is known; what it says instead of another, that never held."""
    met = [one for one in standing if one is not over and one.window.meets(window)]
    changes = [_cut(one, window, now) for one in met]
    if over is not None:
        changes.append(WindowChange(over, over.never, gives_way=True))
    same = over.id if over is not None and over.says_same else None
    gone = [one.of for one in changes if one.gives_way]
    gone.sort(key=lambda one: (one is over, one.window.holds(now), one.since))
    return Placement(window, tuple(changes), same, gone[-1].id if gone else None)


def room(window: Window, standing: Iterable[ExistingFact], now: datetime) -> Window | None:
    """What is free of a window: the part that holds now, or else the last."""
    parts = [window]
    for one in standing:
        parts = [left for part in parts for left in _left(part, one.window)]
    current = [part for part in parts if part.holds(now)]
    return next(iter(current), parts[-1] if parts else None)


def _left(part: Window, other: Window) -> list[Window]:
    return [one for one in part.without(other) if one] if part.meets(other) else [part]


def _same(wanted: Window, standing: Sequence[ExistingFact], now: datetime) -> ExistingFact | None:
    """The fact that holds now and says what is told to hold now."""
    found = (one for one in standing if one.is_active and one.says_same and one.window.holds(now))
    return next(found, None) if wanted.holds(now) else None


def _aim(
    wanted: Window,
    same: ExistingFact | None,
    standing: Sequence[ExistingFact],
    now: datetime,
    said_at: datetime | None,
) -> Window:
    """The window that is meant: an end that is not told does not reach into what is known."""
    begin, end = wanted.valid_from, wanted.valid_to
    if same is not None:
        return Window(begin or same.window.valid_from, end or same.window.valid_to)
    if begin is None:
        past = end is not None and end <= now
        begin = _ended(standing, end) if past else _begin(standing, now, said_at)
    if end is None:
        after = max(begin or now, now)
        starts = (one.window.valid_from for one in standing if one.is_active)
        end = min((at for at in starts if at is not None and at > after), default=None)
    return Window(begin, end)


def _begin(
    standing: Sequence[ExistingFact], now: datetime, said_at: datetime | None
) -> datetime | None:
    """Since when something holds that is told without a time; unknown if nothing was before."""
    known = [
        one.window.valid_to if one.window.valid_to and one.window.valid_to <= now else one.since
        for one in standing
        if one.window.valid_from is None or one.window.valid_from <= now
    ]
    if not known:
        return None
    return said_at if said_at is not None and max(known) <= said_at <= now else now


def _ended(standing: Sequence[ExistingFact], end: datetime | None) -> datetime | None:
    """The last end before another."""
    ends = (one.window.valid_to for one in standing)
    return max((at for at in ends if at and end and at < end), default=None)


def _cut(one: ExistingFact, window: Window, now: datetime) -> WindowChange:
    """What is left of a fact beside a window: what holds now keeps its row, or else the later."""
    before, after = one.window.without(window)
    if before and after and not _held_before(one, window):
        before = None
    kept, copy = (before, after) if before and before.holds(now) else (after, before)
    if kept is None:
        kept, copy = copy, None
    if kept is None:
        return WindowChange(one, one.never, gives_way=one.is_active)
    gives_way = one.is_active and one.window.holds(now) and kept.is_over(now)
    return WindowChange(one, kept, gives_way, copy)


def _held_before(one: ExistingFact, window: Window) -> bool:
    """Whether a fact is known to have held before a window begins."""
    begin = window.valid_from
    return one.window.valid_from is not None or begin is None or one.since < begin


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)
