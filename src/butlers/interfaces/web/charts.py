"""Lay out plots; pure functions of their data. `templates/drawings.html` draws them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from markupsafe import Markup

from butlers.interfaces.web.environment import drawings
from butlers.interfaces.web.formatting import short_number
from butlers.kernel.ranking import days_between
from butlers.memory.policy.confidence import Waning

WIDTH, HEIGHT = 400.0, 180.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 8.0, 10.0, 24.0
_STEPS = 48
Point = tuple[float, float]
Tick = tuple[str, float, str]
"""Words below the axis, where they stand, and their class."""
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
    whole: tuple[float, float] = (WIDTH, HEIGHT)

    def x(self, value: float) -> float:
        """Return the x coordinate of a value."""
        return self.left + self.width * (value / self.x_most if self.x_most else 0.0)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        return self.top + self.height * (1 - (value / self.y_most if self.y_most else 0.0))


def decay_spark(decay: Decay) -> Markup:
    """Draw the decay curve as a sparkline, with today marked."""
    frame = Frame(decay.span_days, 1.0, 2, 3, 92, 22)
    curve = _path(_curve(decay, frame))
    drawn: Markup = drawings.decay_spark(decay, frame, _decay_words(decay), curve)
    return drawn


def decay_curve(decay: Decay) -> Markup:
    """Draw the decay curve with its thresholds and dates."""
    frame = Frame(decay.span_days, 1.0)
    points, confirmed_at, fades_x = _curve(decay, frame), decay.waning.confirmed_at, None
    area = _path([*points, (points[-1][0], frame.y(0)), (points[0][0], frame.y(0))], closed=True)
    ticks = [(f"{confirmed_at:%Y-%m-%d}", frame.left, "tick")] if confirmed_at else []
    if confirmed_at is not None and decay.fades_at is not None:
        fades_x = frame.x(days_between(confirmed_at, decay.fades_at))
        # Clear of the first date on the left, and within the drawing on the right.
        end = min(max(fades_x + 30, frame.left + 160), WIDTH - 10)
        ticks.append((f"fades {decay.fades_at:%Y-%m-%d}", end, "tick end"))
    label, curve = _decay_words(decay), _path(points)
    drawn: Markup = drawings.decay_curve(decay, frame, label, curve, area, fades_x, ticks)
    return drawn


def areas(title: str, days: Sequence[date], series: Mapping[str, Sequence[int]]) -> Chart:
    """Draw stacked areas of counts over days."""
    frame = Frame(max(1, len(days) - 1), _most(series))
    below, bands = [0.0] * len(days), []
    for name, values in series.items():
        above = [low + value for low, value in zip(below, values, strict=True)]
        bands.append((name, _band(frame, below, above)))
        below = above
    words, ticks = _series_words(title, series), _first_and_last(frame, days)
    return Chart(drawings.plot(frame, words, bands, (), ticks), _last_day(series))


def bars(title: str, days: Sequence[date], series: Mapping[str, Sequence[int]]) -> Chart:
    """Draw stacked bars of counts per day."""
    frame = Frame(len(days) or 1, _most(series))
    each = [{name: values[index] for name, values in series.items()} for index in range(len(days))]
    words, ticks = _series_words(title, series), _first_and_last(frame, days)
    drawn = drawings.plot(frame, words, (), _stacks(frame, each), ticks)
    return Chart(drawn, tuple((name, sum(values)) for name, values in series.items()))


def histogram(title: str, buckets: Sequence[tuple[str, int]]) -> Chart:
    """Draw a histogram, smallest first."""
    frame = Frame(len(buckets) or 1, _rounded(max((count for _, count in buckets), default=0)))
    words = ", ".join(f"up to {name}: {count}" for name, count in buckets if count)
    last, label = len(buckets) - 1, f"{title}: {words or 'none yet'}"
    ticks = [
        (name, frame.x(index + 0.5), "tick middle")
        for index, (name, _) in enumerate(buckets)
        if index == last or (index % 2 == 0 and index != last - 1)
    ]
    boxes = _stacks(frame, [{"retrievals": count} for _, count in buckets])
    drawn = drawings.plot(frame, label, (), boxes, ticks)
    return Chart(drawn, (("retrievals", sum(count for _, count in buckets)),))


def _curve(decay: Decay, frame: Frame) -> list[Point]:
    days = [decay.span_days * step / _STEPS for step in range(_STEPS + 1)]
    return [(frame.x(day), frame.y(decay.at(day))) for day in days]


def _path(points: Sequence[Point], *, closed: bool = False) -> str:
    """Make a path of straight lines."""
    steps = "L".join(f"{short_number(x)} {short_number(y)}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def _band(frame: Frame, below: Sequence[float], above: Sequence[float]) -> str:
    if len(above) == 1:  # a single day is as wide as the plot
        below, above = [*below, *below], [*above, *above]
    upper = [(frame.x(index), frame.y(value)) for index, value in enumerate(above)]
    lower = [(frame.x(index), frame.y(value)) for index, value in enumerate(below)]
    return _path([*upper, *reversed(lower)], closed=True)


def _stacks(
    frame: Frame, parts: Sequence[Mapping[str, int]]
) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Yield the boxes of bars, which stand on each other."""
    width = frame.width / frame.x_most
    for index, counts in enumerate(parts):
        below = 0
        for name, count in counts.items():
            if count:
                top, x = frame.y(below + count), frame.x(index) + width * 0.12
                yield name, (x, top, width * 0.76, frame.y(below) - top)
                below += count


def _first_and_last(frame: Frame, days: Sequence[date]) -> list[Tick]:
    ends = ((frame.left, "tick"), (frame.left + frame.width, "tick end"))
    shown = (days[0], days[-1]) if days else ()
    return [(f"{day:%d %b}", x, kind) for day, (x, kind) in zip(shown, ends, strict=False)]


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
