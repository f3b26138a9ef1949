"""Read a validity window from a statement: "since March 2024", "until Friday", "von 2019 bis 2022".

Only words for a span make a window: a birthday, a meeting on Friday or a deadline has none. In
doubt there is none.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from butlers.memory.model import NewFact
from butlers.memory.policy.question import MONTHS, WEEKDAYS
from butlers.memory.policy.validity import OPEN, Window

Days = tuple[date, date]


def _numbered(names: str, first: int) -> dict[str, int]:
    """Number names that follow each other."""
    return {
        name: number for number, same in enumerate(names.split("|"), first) for name in same.split()
    }


_MONTHS = _numbered("|".join(f"{name} {name[:3]}" for name in MONTHS), 1) | _numbered(
    "januar jänner janvier enero|februar février fevrier febrero|märz maerz mars marzo|avril abril"
    "|mai mayo|juni juin junio|juli juillet julio|août aout agosto|sept septembre septiembre"
    "|oktober octobre octubre|novembre noviembre|dezember décembre decembre diciembre",
    1,
)
_DAYS = _numbered("|".join(WEEKDAYS), 0) | _numbered(
    "montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag", 0
)
_UNITS = _numbered("week woche semaine semana|month monat mois mes|year jahr année año", 0)
_NEAR = _numbered(
    "yesterday gestern hier ayer|today heute aujourd'hui hoy|tomorrow morgen demain mañana", -1
)
_WEEK, _YEARLY = 0, 2
_BACK = "last|letzte[rnms]?|vergangene[rnms]?|dernière?|pasad[oa]"
_AHEAD = "next|nächste[rnms]?|prochaine?|próxim[oa]"
_THIS = "this|the|diese[rnms]?|cette|ce|este"


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_END = r"(?=\s*(?:$|[.,;:!?)]))"
_YEAR = r"(?:19|20)\d\d"
_MONTH = rf"(?:{_any(_MONTHS)})\.?"
_UNIT = f"(?:{_any(_UNITS)})"
_NTH = r"\d{1,2}(?:st|nd|rd|th|er|\.)?"
_MOVED = f"(?:{_BACK}|{_AHEAD})"
_OF = r"(?:of\s+|de\s+|del\s+)?"
# The ways to name days; the first that matches counts.
_WAYS = {
    "iso": rf"{_YEAR}-\d\d-\d\d",
    "iso_month": rf"{_YEAR}-\d\d(?![-\d])",
    "dotted": rf"\d{{1,2}}\.\s?\d{{1,2}}\.\s?{_YEAR}",
    "day_first": rf"{_NTH}\s+{_OF}{_MONTH},?\s+{_OF}{_YEAR}",
    "month_first": rf"{_MONTH}\s+{_NTH},\s*{_YEAR}",
    "month_year": rf"{_MONTH}\s+{_OF}{_YEAR}",
    "year": rf"{_YEAR}(?![-.\d]*\d)",
    "day_month": rf"(?:{_NTH}\s+{_OF}{_MONTH}|{_MONTH}\s+{_NTH}){_END}",
    "month": rf"{_MONTH}{_END}",
    "weekday": rf"(?:{_MOVED}\s+)?(?:{_any(_DAYS)}){_END}",
    "unit": rf"(?:la\s+|l')?(?:{_MOVED}\s+{_UNIT}|{_UNIT}\s+{_MOVED})\b",
    "this": rf"(?:{_THIS})\s+{_UNIT}{_END}",
    "near": rf"(?:{_any(_NEAR)})\b",
}
_DATED = ("iso", "iso_month", "dotted", "day_first", "month_first", "month_year", "year")
_ARTICLE = r"(?:the\s+|dem\s+|der\s+|le\s+|el\s+|du\s+|del\s+|in\s+|en\s+|im\s+)?"
_WHEN = (
    r"(?:(?P<{0}end>(?:the\s+)?end\s+of\s+|ende\s+|fin\s+|finales\s+de\s+)?"
    rf"{_ARTICLE}(?P<{{0}}>{'|'.join(_WAYS.values())}))"
)
_FULL = rf"{_ARTICLE}(?P<{{0}}>{'|'.join(_WAYS[way] for way in _DATED)})"


def _cue(words: str, when: str = _WHEN, name: str = "a") -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{words})\s*" + when.replace("{0}", name), re.IGNORECASE)


_SINCE_WORDS = (
    r"since|as of|as from|starting(?:\s+(?:on|in|from))?|effective(?:\s+from)?|"
    r"beginning(?:\s+(?:on|in))?|seit(?:\s+(?:dem|der))?|ab(?:\s+dem)?|"
    r"depuis(?:\s+(?:le|la))?|à\s+partir\s+d[eu]|desde(?:\s+el)?|a\s+partir\s+del?"
)
_UNTIL_WORDS = r"until|till|bis(?:\s+(?:zum|zu))?|jusqu(?:'|’)(?:à|au|en)|hasta(?:\s+el)?"
_FROM_WORDS = r"(?:from|between|von|zwischen|vom|d[eu]|entre|del?|desde)\s+"
TIME_CUE = re.compile(
    rf"(?<!\w)(?:{_SINCE_WORDS}|{_UNTIL_WORDS}|{_FROM_WORDS}|\(\s*{_YEAR})", re.IGNORECASE
)
"""What every statement that names a window has in it; most statements have nothing of it."""
_SINCE, _UNTIL = _cue(_SINCE_WORDS), _cue(_UNTIL_WORDS)
_FROM_ON = re.compile(
    r"\bfrom\s+" + _FULL.replace("{0}", "a") + rf"\s+(?:onwards?\b|on{_END})|"
    rf"\bfrom\s+(?P<b>tomorrow\b|(?:{_AHEAD})\s+(?:{_any(_DAYS)}|{_any(_UNITS)})\b)",
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"(?<!\w)(?:"
    + _FROM_WORDS
    + _FULL.replace("{0}", "a")
    + r"\s*(?:to|until|till|through|and|bis(?:\s+zum)?|und|à|au|et|al?|hasta|y|–|-)\s*"
    + _FULL.replace("{0}", "b")
    + r"|\(\s*(?P<c>(?:19|20)\d\d)\s*(?:–|—|-|to|bis)\s*"
    + r"(?P<d>(?:19|20)\d\d|present|now|today|heute)?\s*\))",
    re.IGNORECASE,
)
_AHEAD_OF = re.compile(r"(?:starting|beginning|effective|ab|from|as from|à|a)\b", re.IGNORECASE)
_LONGEST = 200
_CLAUSES = re.compile(
    r"[,;:.!?…–—]\s+\S|\n|\b(?:and|but|or|if|und|aber|oder|et|mais|ou|y|pero|o)\b", re.IGNORECASE
)
# A number of things, not a year: "until 2000 words are done".
_COUNTED = re.compile(r"\d\d\d\d\s*(?:%|€|\$|[a-zµ]*[mgkb]h?\b|[a-z]+s\b)", re.IGNORECASE)
_NO_END = re.compile(
    r"deadline|\bdue\b|submi|deliver|\bpay|\bapply|\bwait|postpon|delay|defer|resched|remind|"
    r"\bmoved\b|frist\b|abgabe|abgeben|fällig|einreich|spätestens|verschoben|erledig|"
    r"échéance|rendre|reporté|plazo|entregar|vence|aplazad|\bnot\b|n['’]t\b|\bnever\b|\bno\b|"
    r"\bnicht\b|\berst\b|\bkein|\bpas\b|\bcountdown\b|days (?:left|to go)",
    re.IGNORECASE,
)
_NO_BEGIN = re.compile(
    rf"\b(?:starting|beginning)\s+(?:{_any(_DAYS)})\b|\b(?:every|each|daily|weekly|weeks)\b|"
    r"\b(?:first|most|least|best|worst|only|\w{3,}est|ever)\b[^.;]*\bsince\b|"
    r"\b(?:ever|long) since\b|\bwritten|\bchanged since\b|\bchanges since\b",
    re.IGNORECASE,
)


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
    return _CLAUSES.search(text.strip(" .,;:!?()")) is None


def _between(span: re.Match[str], day: date) -> Window:
    if _COUNTED.match(span.string, span.end() - 4):
        return OPEN
    first, last = span["a"] or span["c"], span["b"] or span["d"]
    begin = _named(first, day, ahead=False)
    dates = last is not None and last[0].isdigit() or (last or "")[:3].lower() in _MONTHS
    end = _named(last, day, ahead=True) if last and dates else None
    return OPEN if begin is None else _window(begin[0], end and end[1])


def _begin(text: str, day: date) -> date | None:
    matches = [*_SINCE.finditer(text), *_FROM_ON.finditer(text)]
    if len(matches) != 1 or _NO_BEGIN.search(text):
        return None
    groups = matches[0].groupdict()
    name = groups["a"] or groups["b"]
    # After such a word, a day without a year is the next one.
    span = _named(name, day, ahead=_AHEAD_OF.match(matches[0][0]) is not None)
    return span and span[1 if groups.get("aend") else 0]


def _end(text: str, day: date) -> date | None:
    matches = list(_UNTIL.finditer(text))
    if len(matches) != 1 or _NO_END.search(text) or _COUNTED.match(text, matches[0].end() - 4):
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
