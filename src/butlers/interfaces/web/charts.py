"""Draw plots as SVG; pure functions of their data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from markupsafe import Markup

from butlers.interfaces.web import svg
from butlers.interfaces.web.svg import Element, add, drawing, finished, write
from butlers.kernel.ranking import days_between
from butlers.memory.policy.confidence import Waning

WIDTH, HEIGHT = 400.0, 180.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 8.0, 10.0, 24.0
_STEPS = 48
_PERMANENT_DAYS = 365.0


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing and its legend: each name with its newest number."""

    svg: Markup
    legend: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Decay:
    """How a memory loses confidence, and the thresholds for fading and expiry."""

    waning: Waning
    now: datetime
    fading_below: float
    expired_below: float

    def at(self, days: float) -> float:
        """Return the confidence this many days after the last confirmation."""
        since = self.waning.confirmed_at or self.now
        return self.waning.left_at(since + timedelta(days=days))

    @property
    def age_days(self) -> float:
        """Days since the last confirmation."""
        return days_between(self.waning.confirmed_at or self.now, self.now)

    @property
    def fades_at(self) -> datetime | None:
        """When it falls below the fading threshold."""
        return self.waning.falls_below_at(self.fading_below)

    @property
    def lasts(self) -> bool:
        """Whether it never fades."""
        return self.waning.decay_rate == 0 or self.waning.floor >= self.fading_below

    @property
    def span_days(self) -> float:
        """How many days to draw: until it expires, and at least its age."""
        end = self.waning.falls_below_at(self.expired_below)
        if end is None or self.waning.confirmed_at is None:
            return max(_PERMANENT_DAYS, self.age_days * 1.1)
        return max(1.0, days_between(self.waning.confirmed_at, end) * 1.06, self.age_days * 1.04)


@dataclass(frozen=True, slots=True)
class Frame:
    """The scale of a plot."""

    x_most: float
    y_most: float
    left: float = _LEFT
    top: float = _TOP
    width: float = WIDTH - _LEFT - _RIGHT
    height: float = HEIGHT - _TOP - _BOTTOM

    def x(self, value: float) -> float:
        """Return the x coordinate of a value."""
        return self.left + self.width * (value / self.x_most if self.x_most else 0.0)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        return self.top + self.height * (1 - (value / self.y_most if self.y_most else 0.0))


def decay_spark(decay: Decay) -> Markup:
    """Draw the decay curve as a sparkline, with today marked."""
    root = drawing(96, 28, _decay_words(decay), "spark")
    frame = Frame(decay.span_days, 1.0, 2, 3, 92, 22)
    add(root, "path", "curve", d=svg.path(_curve(decay, frame)))
    _mark(root, frame, decay.fading_below, "limit")
    today = decay.age_days
    add(root, "circle", "today", cx=frame.x(today), cy=frame.y(decay.at(today)), r=3)
    return finished(root)


def decay_curve(decay: Decay) -> Markup:
    """Draw the decay curve with its thresholds and dates."""
    root = drawing(WIDTH, HEIGHT, _decay_words(decay), "plot")
    frame = Frame(decay.span_days, 1.0)
    _axes(root, frame)
    points = _curve(decay, frame)
    ends = [(points[-1][0], frame.y(0)), (points[0][0], frame.y(0))]
    add(root, "path", "area c-active", d=svg.path([*points, *ends], closed=True))
    add(root, "path", "curve", d=svg.path(points))
    _mark(root, frame, decay.fading_below, "limit")
    _mark(root, frame, decay.expired_below, "limit end")
    _decay_days(root, frame, decay)
    today = decay.age_days
    add(root, "circle", "today", cx=frame.x(today), cy=frame.y(decay.at(today)), r=4)
    return finished(root)


def areas(title: str, days: Sequence[date], series: Mapping[str, Sequence[int]]) -> Chart:
    """Draw stacked areas of counts over days."""
    frame = Frame(max(1, len(days) - 1), _most(series))
    root = drawing(WIDTH, HEIGHT, _series_words(title, series), "plot")
    _axes(root, frame)
    below = [0.0] * len(days)
    for name, values in series.items():
        above = [low + value for low, value in zip(below, values, strict=True)]
        add(root, "path", f"area c-{name}", d=_band(frame, below, above))
        below = above
    _first_and_last(root, frame, days)
    return Chart(finished(root), _last_day(series))


def bars(title: str, days: Sequence[date], series: Mapping[str, Sequence[int]]) -> Chart:
    """Draw stacked bars of counts per day."""
    frame = Frame(len(days) or 1, _most(series))
    root = drawing(WIDTH, HEIGHT, _series_words(title, series), "plot")
    _axes(root, frame)
    for index in range(len(days)):
        _stack(root, frame, index, {name: values[index] for name, values in series.items()})
    _first_and_last(root, frame, days)
    return Chart(finished(root), tuple((name, sum(values)) for name, values in series.items()))


def histogram(title: str, buckets: Sequence[tuple[str, int]]) -> Chart:
    """Draw a histogram, smallest first."""
    most = max((count for _, count in buckets), default=0)
    frame = Frame(len(buckets) or 1, _rounded(most))
    words = ", ".join(f"up to {name}: {count}" for name, count in buckets if count)
    root = drawing(WIDTH, HEIGHT, f"{title}: {words or 'none yet'}", "plot")
    _axes(root, frame)
    for index, (name, count) in enumerate(buckets):
        _stack(root, frame, index, {"retrievals": count})
        last = len(buckets) - 1
        if index == last or (index % 2 == 0 and index != last - 1):
            write(root, name, frame.x(index + 0.5), HEIGHT - 8, "tick middle")
    return Chart(finished(root), (("retrievals", sum(count for _, count in buckets)),))


def _curve(decay: Decay, frame: Frame) -> list[tuple[float, float]]:
    days = [decay.span_days * step / _STEPS for step in range(_STEPS + 1)]
    return [(frame.x(day), frame.y(decay.at(day))) for day in days]


def _mark(root: Element, frame: Frame, value: float, kind: str) -> None:
    """Draw a horizontal line."""
    y = frame.y(value)
    add(root, "line", kind, x1=frame.left, y1=y, x2=frame.left + frame.width, y2=y)


def _decay_days(root: Element, frame: Frame, decay: Decay) -> None:
    """Label the last confirmation and the day it fades."""
    y, confirmed_at = HEIGHT - 8, decay.waning.confirmed_at
    if confirmed_at is not None:
        write(root, f"{confirmed_at:%Y-%m-%d}", frame.left, y, "tick")
    if decay.fades_at is None or confirmed_at is None:
        return
    x = frame.x(days_between(confirmed_at, decay.fades_at))
    add(root, "line", "limit", x1=x, y1=frame.y(decay.fading_below), x2=x, y2=frame.y(0))
    # Clear of the first date on the left, and within the drawing on the right.
    end = min(max(x + 30, frame.left + 160), WIDTH - 10)
    write(root, f"fades {decay.fades_at:%Y-%m-%d}", end, y, "tick end")


def _axes(root: Element, frame: Frame) -> None:
    for share in (0.0, 0.5, 1.0):
        value = frame.y_most * share
        _mark(root, frame, value, "grid")
        write(root, f"{value:g}", frame.left - 6, frame.y(value) + 4, "tick end")


def _band(frame: Frame, below: Sequence[float], above: Sequence[float]) -> str:
    if len(above) == 1:  # a single day is as wide as the plot
        below, above = [*below, *below], [*above, *above]
    upper = [(frame.x(index), frame.y(value)) for index, value in enumerate(above)]
    lower = [(frame.x(index), frame.y(value)) for index, value in enumerate(below)]
    return svg.path([*upper, *reversed(lower)], closed=True)


def _stack(root: Element, frame: Frame, index: int, parts: Mapping[str, int]) -> None:
    width, below = frame.width / frame.x_most, 0
    for name, count in parts.items():
        if count:
            top = frame.y(below + count)
            box = {"x": frame.x(index) + width * 0.12, "width": width * 0.76}
            add(root, "rect", f"bar c-{name}", **box, y=top, height=frame.y(below) - top)
            below += count


def _first_and_last(root: Element, frame: Frame, days: Sequence[date]) -> None:
    if days:
        write(root, f"{days[0]:%d %b}", frame.left, HEIGHT - 8, "tick")
        write(root, f"{days[-1]:%d %b}", frame.left + frame.width, HEIGHT - 8, "tick end")


def _most(series: Mapping[str, Sequence[int]]) -> float:
    totals = [sum(day) for day in zip(*series.values(), strict=True)]
    return _rounded(max(totals, default=0))


def _rounded(most: int) -> float:
    """Round up to an even number, so that the middle of the axis is whole."""
    scale = 1
    while scale * 10 < most:
        scale *= 10
    return next(step * scale for step in (2, 4, 6, 8, 10) if step * scale >= most)


def _last_day(series: Mapping[str, Sequence[int]]) -> tuple[tuple[str, int], ...]:
    return tuple((name, values[-1] if values else 0) for name, values in series.items())


def _decay_words(decay: Decay) -> str:
    now = f"confidence now {decay.at(decay.age_days):.2f}"
    if decay.fades_at is None:
        return f"{now}, does not fade" if decay.lasts else now
    word = "fades" if decay.fades_at > decay.now else "faded"
    return f"{now}, {word} on {decay.fades_at:%Y-%m-%d}"


def _series_words(title: str, series: Mapping[str, Sequence[int]]) -> str:
    ends = (f"{name.replace('_', ' ')} {count}" for name, count in _last_day(series))
    return f"{title}; on the last day: {', '.join(ends)}"
