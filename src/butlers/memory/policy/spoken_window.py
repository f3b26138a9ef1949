"""Read a validity window from a statement: "since March 2024", "until Friday", "von 2019 bis 2022".

Only words for a span make a window: a birthday, a meeting on Friday or a deadline has none. In
doubt there is none.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from butlers.kernel.word_tables import expression, filled, load_tables
from butlers.memory.model import NewFact
from butlers.memory.policy.quantities import any_of
from butlers.memory.policy.validity import OPEN, Window

Days = tuple[date, date]


def _numbered(names: list[str], first: int) -> dict[str, int]:
    """Number names that follow each other."""
    return {name: number for number, same in enumerate(names, first) for name in same.split()}


_TABLES = load_tables(__file__)
_MONTHS, _DAYS = _numbered(_TABLES["months"], 1), _numbered(_TABLES["days"], 0)
_UNITS, _NEAR = _numbered(_TABLES["units"], 0), _numbered(_TABLES["near"], -1)
_WEEK, _YEARLY = 0, 2
_LONGEST = 200
_NAMES = {"any_month": _MONTHS, "any_day": _DAYS, "any_unit": _UNITS, "any_near": _NEAR}
_PARTS = _TABLES["parts"] | {name: any_of(words) for name, words in _NAMES.items()}
_END, _AHEAD, _BACK = (_PARTS[name] for name in ("end", "ahead", "back"))
_WAYS = {way: filled(pattern, _PARTS) for way, pattern in _TABLES["ways"].items()}
_WHOLE_DATES = 7
"""The first ways, which name a whole date or year."""
_PARTS["any_way"] = "|".join(_WAYS.values())
_PARTS["any_date"] = "|".join(list(_WAYS.values())[:_WHOLE_DATES])
_CUES = {name: expression(filled(cue, _PARTS)) for name, cue in _TABLES["cues"].items()}
TIME_CUE = _CUES["time"]
"""What every statement that names a window has in it; most statements have nothing of it."""
_SINCE, _UNTIL, _FROM_ON, _RANGE = (_CUES[n] for n in ("since", "until", "from_on", "range"))


def dated(new: NewFact, now: datetime) -> NewFact:
    """Add the window that a fact's statement names, unless it has one."""
    if new.valid_from is not None or new.valid_to is not None:
        return new
    window = read_window(new.content, new.said_at or now)
    return replace(new, valid_from=window.valid_from, valid_to=window.valid_to)


def read_window(text: str, said_at: datetime) -> Window:
    """Read the window of a statement made at a time; open if it names none."""
    if len(text) > _LONGEST or not _is_one_clause(text):
        return OPEN
    day = said_at.astimezone(UTC).date()
    spans = list(_RANGE.finditer(text))
    if spans:
        return _between(spans[0], day) if len(spans) == 1 else OPEN
    return _window(_begin(text, day), _end(text, day))


def _is_one_clause(text: str) -> bool:
    """Whether there is only one clause, so that the time is meant for it."""
    for cue in (_RANGE, _SINCE, _FROM_ON, _UNTIL):
        text = cue.sub(" ", text)
    return _CUES["clauses"].search(text.strip(" .,;:!?()")) is None


def _between(span: re.Match[str], day: date) -> Window:
    if _CUES["counted"].match(span.string, span.end() - 4):
        return OPEN
    first, last = span["a"] or span["c"], span["b"] or span["d"]
    begin = _named(first, day, ahead=False)
    dates = last is not None and last[0].isdigit() or (last or "")[:3].lower() in _MONTHS
    end = _named(last, day, ahead=True) if last and dates else None
    return OPEN if begin is None else _window(begin[0], end and end[1])


def _begin(text: str, day: date) -> date | None:
    matches = [*_SINCE.finditer(text), *_FROM_ON.finditer(text)]
    if len(matches) != 1 or _CUES["no_begin"].search(text):
        return None
    groups = matches[0].groupdict()
    name = groups["a"] or groups["b"]
    # After such a word, a day without a year is the next one.
    span = _named(name, day, ahead=_CUES["ahead_of"].match(matches[0][0]) is not None)
    return span and span[1 if groups.get("aend") else 0]


def _end(text: str, day: date) -> date | None:
    matches = list(_UNTIL.finditer(text))
    if (
        len(matches) != 1
        or _CUES["no_end"].search(text)
        or _CUES["counted"].match(text, matches[0].end() - 4)
    ):
        return None
    span = _named(matches[0]["a"], day, ahead=True)
    return span and span[1]


def _window(begin: date | None, last: date | None) -> Window:
    """Return the window from the beginning of a day to the end of another."""
    if begin and last and last < begin:
        return OPEN
    first = None if begin is None else datetime.combine(begin, time(), UTC)
    after = None if last is None else datetime.combine(last + timedelta(days=1), time(), UTC)
    return Window(first, after)


def _named(text: str, day: date, *, ahead: bool) -> Days | None:
    """Return the first and the last day that a text names."""
    text = " ".join(text.lower().replace("’", "'").split())
    for way, pattern in _WAYS.items():
        if re.fullmatch(pattern.replace(_END, ""), text, re.IGNORECASE):
            try:
                return _READ[way](text, day, ahead)
            except (ValueError, OverflowError):
                return None
    return None


def _numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


def _month_of(text: str) -> int:
    words = re.findall(r"[^\W\d_]+", text)
    return next(_MONTHS[word] for word in words if word in _MONTHS)


def _one(day: date) -> Days:
    return day, day


def _month(year: int, month: int) -> Days:
    first = date(year, month, 1)
    return first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _nearest(make: Callable[[int], Days], day: date, ahead: bool) -> Days:
    """Return the last of yearly days that has begun, or the next that is not over."""
    this = make(day.year)
    if ahead:
        return this if this[1] >= day else make(day.year + 1)
    return this if this[0] <= day else make(day.year - 1)


def _whole_date(text: str, day: date, ahead: bool) -> Days:
    number, year = _numbers(text)
    return _one(date(year, _month_of(text), number))


def _day_month(text: str, day: date, ahead: bool) -> Days:
    number, month = _numbers(text)[0], _month_of(text)
    return _nearest(lambda year: _one(date(year, month, number)), day, ahead)


def _weekday(text: str, day: date, ahead: bool) -> Days:
    wanted = next(number for name, number in _DAYS.items() if name in text)
    if re.match(_AHEAD, text) or (ahead and not re.match(_BACK, text)):
        return _one(day + timedelta(days=(wanted - day.weekday()) % 7 or 7 * ("next" in text)))
    return _one(day - timedelta(days=(day.weekday() - wanted) % 7 or 7 * ("last" in text)))


def _unit(text: str, day: date, ahead: bool) -> Days:
    unit = next(_UNITS[word] for word in re.findall(r"[^\W\d_]+", text) if word in _UNITS)
    off = bool(re.search(_AHEAD, text)) - bool(re.search(_BACK, text))
    if unit == _WEEK:
        first = day + timedelta(days=7 * off - day.weekday())
        return first, first + timedelta(days=6)
    if unit == _YEARLY:
        return date(day.year + off, 1, 1), date(day.year + off, 12, 31)
    months = day.year * 12 + day.month - 1 + off
    return _month(months // 12, months % 12 + 1)


_READ: dict[str, Callable[[str, date, bool], Days]] = {
    "iso": lambda text, day, ahead: _one(date(*_numbers(text))),
    "iso_month": lambda text, day, ahead: _month(*_numbers(text)),
    "dotted": lambda text, day, ahead: _one(date(*reversed(_numbers(text)))),
    "day_first": _whole_date,
    "month_first": _whole_date,
    "month_year": lambda text, day, ahead: _month(_numbers(text)[0], _month_of(text)),
    "year": lambda text, day, ahead: (date(int(text), 1, 1), date(int(text), 12, 31)),
    "day_month": _day_month,
    "month": lambda text, day, ahead: _nearest(
        lambda year: _month(year, _month_of(text)), day, ahead
    ),
    "weekday": _weekday,
    "unit": _unit,
    "this": _unit,
    "near": lambda text, day, ahead: _one(day + timedelta(days=_NEAR[text])),
}
