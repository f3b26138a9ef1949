"""Parse a question: the people it names, the time it means, whether it wants the latest.

English only, apart from how much of it asks; in another language the rest finds nothing, and the
search works without it.
"""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache

from rapidfuzz.distance import OSA

from butlers.kernel.text import folded, stop_words
from butlers.kernel.word_tables import expression, load_tables

_WORD = re.compile(r"([^\W\d_]+)(['’]s)?")
_FORMS = load_tables(__file__, "question_forms.toml")
_MONTHS: list[str] = _FORMS["months"].split()
_WEEKDAYS: list[str] = _FORMS["weekdays"].split()
_MONTH = "|".join(f"{name}|{name[:3]}" for name in _MONTHS) + "|sept"
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_ISO = re.compile(r"\b(?:19|20)\d\d-(\d\d)-(\d\d)\b")
# "may" and "march" are verbs as well: only a capital makes them months.
_MONTH_NAMED = re.compile(rf"\b(?!may\b|mar\b|march\b)(?i:{_MONTH})\b(?! I\b)")
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?[\s,-]+(?:of )?(?:{_MONTH})\b", re.I)
_MONTH_FIRST = re.compile(rf"\b(?:{_MONTH})[\s-]+(\d{{1,2}})(?:st|nd|rd|th)?\b", re.I)
_AGO = re.compile(
    r"\b(a|an|one|two|three|four|five|six|\d{1,2}) (day|week|month|year)s? ago\b", re.I
)
_SPAN = re.compile(
    rf"\b(?:(yesterday|today)|(last|this|past) (week|month|year|{'|'.join(_WEEKDAYS)}))\b", re.I
)
# Without any of these a text means no time.
_TIME_CUE = re.compile(rf"\d|\b(?:{_MONTH}|yesterday|today|last|this|past|ago)\b", re.I)
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_LENGTHS = {"day": 1, "week": 7, "month": 30, "year": 365}
# Whoever pastes a document does not ask for the dates in it.
_LONGEST_DATED = 400
_SHORTEST_MISSPELT = 5
_MANY, _FACT, _LATEST = (expression(*_FORMS[name]) for name in ("many", "fact", "latest"))
_ACKNOWLEDGING = "|".join(map(re.escape, _FORMS["acknowledging"]))
# Up to six words in small letters.
_ACKNOWLEDGES = re.compile(rf"(?:[^\w']*(?:{_ACKNOWLEDGING})(?![\w'])){{1,6}}[^\w']*")
# Scripts that the embedding model does not read: Japanese, Chinese, Korean.
_UNREAD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SPOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_LONGEST_REACTION = 7
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？؟])\s*")
_ASKS = re.compile("[?？؟]")


@dataclass(frozen=True, slots=True)
class When:
    """The time a question means: some of year, month and day, or spans of days."""

    years: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    spans: tuple[tuple[date, date], ...] = ()

    def fits(self, said: date) -> float:
        """1 for a day that is meant, down to -0.5 for one that is not at all."""
        given = [
            value in wanted
            for wanted, value in (
                (self.years, said.year),
                (self.months, said.month),
                (self.days, said.day),
            )
            if wanted
        ]
        if self.spans:
            given.append(any(first <= said <= last for first, last in self.spans))
        met = sum(given) / len(given)
        return 1.0 if met == 1 else -0.5 * (1 - met)


_NO_TIME = When()


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question, read: the people it names, its text without them, the time it means."""

    text: str
    bare: str
    people: frozenset[str]
    when: When | None
    wants_latest: bool
    told: float
    """How much of it asks nothing: 0 for a bare question, near 1 for a turn of a conversation."""
    wants_many: bool = False
    """Whether it wants a list or a count."""
    asks_fact: bool = False
    """Whether it asks what is true, not how to behave."""
    acknowledges: bool = False
    """Whether it only says yes, thanks or go on."""
    is_read_by_words: bool = False
    """Whether it is in a script that the embedding model does not read."""


def by_every_name(text: str, called: Mapping[str, str]) -> str:
    """Add the present name of somebody whom a question names by an alias."""
    words = list(_WORD.finditer(text))
    for first, last in ((n, n + size) for size in (4, 3, 2, 1) for n in range(len(words))):
        if last > len(words):
            continue
        end = words[last - 1].end(1)
        now = called.get(text[words[first].start() : end].lower())
        if now is not None and now.lower() not in text.lower():
            return f"{text[:end]} {now}{text[end:]}"
    return text


def acknowledges(text: str) -> bool:
    """Whether a text only says yes, thanks or go on."""
    return _ACKNOWLEDGES.fullmatch(text.lower().replace("’", "'")) is not None


def only_reacts(prompt: str) -> bool:
    """Whether a short prompt only acknowledges, chooses, praises or declines, and asks nothing."""
    words = _SPOKEN.findall(folded(prompt))
    if len(words) > _LONGEST_REACTION or _ASKS.search(prompt) or _FACT.search(prompt):
        return False
    return all(len(word) == 1 or word in _reactions() for word in words)


@cache
def _reactions() -> frozenset[str]:
    words = (*_FORMS["acknowledging"], *_FORMS["reacting"])
    return stop_words() | frozenset(map(folded, words))


def read(text: str, names: Set[str], now: datetime) -> ParsedQuestion:
    """Parse a question, among people of these names, at this instant."""
    bare, people = _without_names(text, names)
    sentences = [part for part in _BETWEEN_SENTENCES.split(text.strip()) if part]
    statements = sum(len(part) for part in sentences if not _ASKS.search(part))
    return ParsedQuestion(
        text,
        bare,
        people,
        _when(text, now.date()) if _TIME_CUE.search(text) else None,
        _LATEST.search(text) is not None,
        statements / (sum(map(len, sentences)) or 1),
        _MANY.search(text) is not None,
        _FACT.search(text) is not None,
        acknowledges(text),
        _UNREAD.search(text) is not None,
    )


def _without_names(text: str, names: Set[str]) -> tuple[str, frozenset[str]]:
    """Leave out who is named, unless nothing else is left; return the rest, and who they are."""
    parts, people, start = [], set(), 0
    for word in _WORD.finditer(text):
        name = word[1].lower()
        # A letter may be wrong where a capital says that it is a name.
        if name not in names and len(word[1]) >= _SHORTEST_MISSPELT and word[1][0].isupper():
            name = _nearest_name(name, names)
        if name in names:
            parts.append(text[start : word.start()])
            people.add(name)
            start = word.end()
    left = " ".join("".join([*parts, text[start:]]).split())
    return (left if any(map(str.isalnum, left)) else text), frozenset(people)


def _nearest_name(word: str, names: Set[str]) -> str:
    """Return the first name by the alphabet that differs by a letter; empty if none does."""
    near = (
        name
        for name in names
        if name[0] == word[0]
        and len(name) >= _SHORTEST_MISSPELT
        and abs(len(name) - len(word)) <= 1
        and OSA.distance(word, name, score_cutoff=1) == 1
    )
    return min(near, default="")


def _when(text: str, today: date) -> When | None:
    if len(text) > _LONGEST_DATED:
        return None
    iso = _ISO.findall(text)
    named = {_MONTHS.index(_whole(month)) + 1 for month in _MONTH_NAMED.findall(text)}
    days = {int(day) for day in (*_DAY_FIRST.findall(text), *_MONTH_FIRST.findall(text))}
    spans = [
        _span((day or unit).lower(), which.lower(), today)
        for day, which, unit in _SPAN.findall(text)
    ]
    when = When(
        frozenset(map(int, _YEAR.findall(text))),
        frozenset(named | {int(month) for month, _ in iso}),
        frozenset(days | {int(day) for _, day in iso}),
        (*spans, *_ago(text, today)),
    )
    return when if when != _NO_TIME else None


def _whole(month: str) -> str:
    return next(name for name in _MONTHS if name.startswith(month.lower()[:3]))


def _span(unit: str, which: str, today: date) -> tuple[date, date]:
    if unit in ("today", "yesterday"):
        day = today - timedelta(days=unit == "yesterday")
        return day, day
    if unit in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS.index(unit)) % 7 or 7
        day = today - timedelta(days=back)
        return day, day
    if which == "past":
        return today - timedelta(days=_LENGTHS[unit]), today
    return _calendar(unit, today, back=which == "last")


def _calendar(unit: str, today: date, *, back: bool) -> tuple[date, date]:
    """This week, month or year, or the one before it, by the calendar."""
    if unit == "week":
        first = today - timedelta(days=today.weekday() + 7 * back)
        return first, first + timedelta(days=6)
    if unit == "year":
        return date(today.year - back, 1, 1), date(today.year - back, 12, 31)
    last = today.replace(day=1) - timedelta(days=1) if back else today
    return last.replace(day=1), last


def _ago(text: str, today: date) -> list[tuple[date, date]]:
    """Around that long ago, give or take half a unit."""
    spans = []
    for count, unit in _AGO.findall(text):
        length = _LENGTHS[unit.lower()]
        number = _COUNTS.get(count.lower()) or int(count)
        middle = today - timedelta(days=length * number)
        slack = timedelta(days=length // 2)
        spans.append((middle - slack, middle + slack))
    return spans
