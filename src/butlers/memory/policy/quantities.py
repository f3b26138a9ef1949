"""Read the numbers, dates and times of a text, to compare two texts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from butlers.kernel.text import stop_words
from butlers.kernel.word_tables import filled, load_tables

TABLES = load_tables(__file__, "conflicts.toml")
_ENDINGS = ("ments", "ment", "ings", "ing", "ies", "ers", "ed", "er", "es", "s", "e", "y")
_SHORTEST = {"s": 3, "e": 4, "y": 4}


def stem(word: str) -> str:
    """Strip the ending of a word, roughly."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST.get(ending, 4):
            return stem(word.removesuffix(ending))
    return word


_YEARS = range(1900, 2100)


def _by_word(table: dict[str, list[str]]) -> dict[str, int]:
    return {word: int(number) for number, words in table.items() for word in words}


_MONTHS, _WEEKDAYS = _by_word(TABLES["months"]), _by_word(TABLES["weekdays"])
_NUMBERS = _by_word(TABLES["numbers"])
_UNITS: dict[str, tuple[str, float]] = {
    unit: (of, float(much)) for unit, (of, much) in TABLES["units"].items()
}


def any_of(words: Iterable[str]) -> str:
    """Return an expression that finds any of these words, the longest first."""
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_NAMES = {"month": _MONTHS, "weekday": _WEEKDAYS, "number": _NUMBERS}
_PATTERN = re.compile(
    filled(TABLES["pattern"], {name: any_of(words) for name, words in _NAMES.items()}), re.VERBOSE
)


@dataclass(frozen=True, slots=True)
class Quantities:
    """The numbers, dates and times of a text by kind, and the text without them."""

    values: dict[str, frozenset[Any]]
    rest: str

    def differ_from(self, other: "Quantities") -> str | None:
        """Return the kind of which both give different values, or None."""
        for kind, values in self.values.items():
            if kind in other.values and not values & other.values[kind]:
                return kind
        return "number" if self._only_bare_differ(other) else None

    def equal(self, other: "Quantities") -> bool:
        """Whether both give the same values, or none."""
        if not self.values or not other.values:
            return not self.values and not other.values
        return self.differ_from(other) is None and bool(self._plain() & other._plain())

    def _only_bare_differ(self, other: "Quantities") -> bool:
        """Whether a number without a unit differs from what the other counts."""
        mine, theirs = self.values.get("number"), other.values.get("number")
        if (mine is None) == (theirs is None):
            return False
        bare, counted = (mine, other._counted()) if mine else (theirs, self._counted())
        return bool(bare and counted and not bare & counted)

    def _counted(self) -> frozenset[Any]:
        measured = {f"of {of}" for of, _ in _UNITS.values()}
        kinds = [kind for kind in self.values if kind.startswith("of ") and kind not in measured]
        return frozenset(value for kind in kinds for value in self.values[kind])

    def _plain(self) -> frozenset[Any]:
        return frozenset(value for values in self.values.values() for value in values)


def quantities(text: str) -> Quantities:
    """Read a folded text."""
    values: dict[str, set[Any]] = {}

    def without(match: re.Match[str]) -> str:
        """Keep a unit as a word of the text, unless it is a unit of measure."""
        for kind, value in _read(match.groupdict()):
            values.setdefault(kind, set()).add(value)
        unit = match["unit"] or match["unit2"] or ""
        return f" {unit} " if unit and stem(unit) not in _UNITS else " "

    rest = _PATTERN.sub(without, text)
    return Quantities({kind: frozenset(given) for kind, given in values.items()}, rest)


def _read(groups: dict[str, str | None]) -> Iterator[tuple[str, Any]]:
    for kind in ("ip", "version"):
        if value := groups[kind]:
            yield kind, value
    if value := groups["phone"]:
        yield "phone", re.sub(r"\D", "", value)
    if value := groups["weekday"]:
        yield "weekday", _WEEKDAYS[value]
    yield from _dates(groups)
    yield from _clock(groups)
    yield from _numbers(groups)


def _dates(groups: dict[str, str | None]) -> Iterator[tuple[str, Any]]:
    named = _first(groups, "month1", "month2", "month3")
    month = _MONTHS[named] if named else int(groups["iso_month"] or groups["eu_month"] or 0)
    if not month:
        return
    if day := _first(groups, "iso_day", "eu_day", "day1", "day2"):
        yield "date", (month, int(day))
    if year := _first(groups, "iso_year", "eu_year", "year1", "year2", "year3"):
        yield "year", int(year)
    yield "month", month


def _first(groups: dict[str, str | None], *names: str) -> str | None:
    return next((groups[name] for name in names if groups[name]), None)


def _clock(groups: dict[str, str | None]) -> Iterator[tuple[str, Any]]:
    if hour := groups["hour"]:
        half = groups["half"] or groups["half2"]
        later = 12 if half == "pm" and int(hour) < 12 else 0
        yield "time", (int(hour) + later, int(groups["minute"] or groups["minute2"] or 0))


def _numbers(groups: dict[str, str | None]) -> Iterator[tuple[str, Any]]:
    if word := groups["counted"]:
        yield _of(float(_NUMBERS[word]), groups["unit2"])
    if digits := groups["number"]:
        number = _number(digits)
        if number in _YEARS and len(digits) == 4 and not groups["unit"]:
            yield "year", int(number)
        else:
            yield _of(number, groups["unit"])


def _of(number: float, unit: str | None) -> tuple[str, float]:
    of, much = _UNITS.get(stem(unit or ""), ("", 1.0))
    if of:
        return f"of {of}", round(number * much, 6)
    is_counted = unit and unit not in stop_words()
    return (f"of {stem(unit or '')}" if is_counted else "number"), number


def _number(digits: str) -> float:
    """Parse a number; a comma before three digits separates thousands, others are decimal."""
    grouped = re.sub(r",(?=\d{3}(?:\D|$))", "", digits).replace(",", ".")
    head, _, tail = grouped.partition(".")
    return float(f"{head}.{tail.replace('.', '')}" if tail else head)
