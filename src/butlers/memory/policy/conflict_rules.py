"""Decide whether two facts about one subject contradict or repeat each other."""

from collections.abc import Mapping
from dataclasses import dataclass

from butlers.memory.model import ConflictKind, Holds
from butlers.memory.policy.fact_statements import FactStatement, Property, read, read_property
from butlers.memory.policy.quantities import TABLES

ALIKE = 0.7
"""Predicates this near ask for the same, even if no table says so."""
COMPARABLE = 0.5
"""Predicates this near ask for the same if both give a number, date or time."""
_RELATED = 0.3
_NARROWER = 0.29
_OF_ONE_KIND = 0.8
_NEARLY_ALL, _MOSTLY, _NEVER = 0.85, 0.6, 2.0
_SAYS_ALIKE = 0.7
_WORTH_READING = 0.55
_DENIED = 0.75
_LONGEST_VALUE = 5
_SHORTEST_DENIED = 5

_OPPOSITES: dict[str, set[str]] = {}
for _pair in TABLES["opposites"]["pairs"]:
    for _word in _pair.split():
        _OPPOSITES.setdefault(_word, set()).update(set(_pair.split()) - {_word})
_NOT_SO = ("un", "dis", "in", "im", "non-", "de")


@dataclass(frozen=True, slots=True)
class ComparedFact:
    """A fact to compare."""

    subject: str
    predicate: str
    content: str


@dataclass(frozen=True, slots=True)
class Nearness:
    """The similarity of two facts by the embedding model: of predicates, and of statements."""

    predicates: float
    statements: float


@dataclass(frozen=True, slots=True)
class Clash:
    """Two facts contradict each other or say the same: why, and how certainly."""

    kind: ConflictKind
    why: str
    score: float


def compare(
    older: ComparedFact,
    newer: ComparedFact,
    near: Nearness,
    holds: Mapping[str, Holds] | None = None,
) -> Clash | None:
    """Decide whether two facts of one subject conflict or repeat; None if both may hold.

    `holds` says of predicates whether they have one value or many.
    """
    asked, asks = read_property(older.predicate), read_property(newer.predicate)
    alike = _alike(asked, asks, near.predicates)
    if alike < _RELATED and near.statements < _WORTH_READING:
        return None
    before, after = (read(side.subject, side.predicate, side.content) for side in (older, newer))
    if before.is_elsewhen or after.is_elsewhen:
        return None
    predicates = frozenset((older.predicate, newer.predicate))
    pair = _Pair(before, after, predicates, alike, near.statements, holds or {})
    return pair.opposites() or pair.denial() or pair.numbers() or pair.same() or pair.other_value()


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two facts to compare; `alike` is how near their predicates are."""

    older: FactStatement
    newer: FactStatement
    predicates: frozenset[str]
    alike: float
    statements: float
    known_holds: Mapping[str, Holds]

    def denial(self) -> Clash | None:
        """One says what the other denies."""
        if self.older.denies == self.newer.denies:
            return None
        no, yes = (self.older, self.newer) if self.older.denies else (self.newer, self.older)
        denied = no.denied or no.words or no.asked.words
        share = len(denied & yes.whole) / max(1, len(denied))
        if share < _DENIED or no.quantities.differ_from(yes.quantities):
            return None
        return _conflict("one denies what the other says", 0.9 + 0.1 * share)

    def opposites(self) -> Clash | None:
        """Both use words that exclude each other, of the same thing."""
        if not self._of_one_thing():
            return None
        mine, theirs = (
            self.older.all_words - self.newer.all_words,
            self.newer.all_words - self.older.all_words,
        )
        for word in sorted(mine):
            for counter in sorted(_counters(word) & theirs):
                denials = self.older.denies_beside(word), self.newer.denies_beside(counter)
                if denials[0] == denials[1]:
                    return _conflict(f"{word} and {counter} exclude each other", 0.9)
        return None

    def _of_one_thing(self) -> bool:
        if self.alike >= COMPARABLE or self.older.words & self.newer.words:
            return True
        return self.alike >= _RELATED and self.statements >= ALIKE

    def numbers(self) -> Clash | None:
        """Both give a number, a date or a time of the same thing, and not the same."""
        kind = self.older.quantities.differ_from(self.newer.quantities)
        if kind is None or self.older.denies != self.newer.denies:
            return None
        if self.holds == Holds.MANY and not self._only_count:
            return None
        if not self._framed and (self.alike < COMPARABLE or not self._counts_alike):
            return None
        return _conflict(f"they give another {kind.removeprefix('of ')}", 0.7 + 0.3 * self.alike)

    @property
    def _counts_alike(self) -> bool:
        """Whether both count the same: nothing but the number differs."""
        mine, theirs = self.older.words, self.newer.words
        return self.alike == 1 or mine <= self.newer.whole or theirs <= self.older.whole

    @property
    def _framed(self) -> bool:
        """Whether both have the same words beside their numbers."""
        words = self.older.words
        same = bool(words) and words == self.newer.words and self.alike >= _RELATED
        return same or self.older.whole == self.newer.whole

    def same(self) -> Clash | None:
        """Both say it in the same words."""
        counted = self.older.quantities.equal(self.newer.quantities)
        if not counted or self._denials_differ or self._ask_for_opposites:
            return None
        share = self._share_of_words()
        if share == 0 and not self._same_number:
            return None
        if self.alike < _RELATED and (self.alike <= 0 or self.statements < _SAYS_ALIKE):
            return None
        return Clash(ConflictKind.SAME, "both say the same", (share + self.statements) / 2)

    @property
    def _denials_differ(self) -> bool:
        """Whether only one denies; two denials may cancel each other."""
        sides = (self.older, self.newer)
        mine, theirs = (len(side.denying) + side.asked.denies for side in sides)
        return mine % 2 != theirs % 2 or self.older.denies != self.newer.denies

    @property
    def _ask_for_opposites(self) -> bool:
        mine, theirs = self.older.asked.given, self.newer.asked.given
        return any(_counters(word) & (theirs - mine) for word in mine - theirs)

    def _share_of_words(self) -> float:
        """Return the share of common words, with or without those of the predicates."""
        mine, theirs = self.older.words, self.newer.words
        asked = self.older.asked.words | self.newer.asked.words
        return max(_share(mine, theirs), _share(mine - asked, theirs - asked))

    @property
    def _same_number(self) -> bool:
        """Whether both are a number of the same thing."""
        if not self.older.quantities.values:
            return False
        return self._framed or (self._only_count and self.alike >= COMPARABLE)

    @property
    def _only_count(self) -> bool:
        return self.older.is_count and self.newer.is_count

    def other_value(self) -> Clash | None:
        """Both give a value of a property that has one."""
        sides = (self.older, self.newer)
        short = all(0 < len(side.words) <= _LONGEST_VALUE for side in sides)
        if not short or self.holds == Holds.MANY or self.older.denies or self.newer.denies:
            return None
        needed = COMPARABLE + 0.1 if self.holds == Holds.ONE else ALIKE
        if self.alike < needed or self.older.words & self.newer.words:
            return None
        if self.older.asked.asks_when != self.newer.asked.asks_when:
            return None
        names = sorted(self.predicates)
        why = f"{' and '.join(names)} {'hold' if len(names) > 1 else 'holds'} one value"
        return _conflict(why, self.alike * 0.9)

    @property
    def holds(self) -> Holds | None:
        """Whether the predicates have one value or many; None if unknown."""
        values = {holds_of(predicate, self.known_holds) for predicate in self.predicates}
        return Holds.MANY if Holds.MANY in values else Holds.ONE if Holds.ONE in values else None


def holds_of(predicate: str, known: Mapping[str, Holds]) -> Holds | None:
    """Return whether a predicate has one value or many: as known, else by the tables."""
    return known.get(predicate) or read_property(predicate).holds


def _alike(mine: Property, theirs: Property, near: float) -> float:
    """Return how near two predicates are."""
    if mine.words == theirs.words:
        return 1.0
    if mine.name and theirs.name and not (mine.is_generic or theirs.is_generic):
        return 1.0 if mine.name == theirs.name else 0.0
    if mine.name and mine.name == theirs.name:
        return 1.0
    if mine.is_distinct or theirs.is_distinct:
        return min(near, _NARROWER)
    shared = len(mine.words & theirs.words) / len(mine.words | theirs.words)
    return near if shared == 0 or near >= _needed(mine, theirs, shared) else _NARROWER


def _needed(mine: Property, theirs: Property, shared: float) -> float:
    """Return how near predicates that share words must be to ask for the same.

    The last word decides: a web framework is a framework, but gym days are no gym.
    """
    narrows = mine.words < theirs.words or theirs.words < mine.words
    if mine.phrase[-1:] == theirs.phrase[-1:]:
        return ALIKE if narrows else _OF_ONE_KIND
    return _NEARLY_ALL if shared >= _MOSTLY else _NEVER


def _counters(word: str) -> set[str]:
    """Return the words that exclude a word, by the table or by their form."""
    formed = {no + word for no in _NOT_SO} if len(word) >= _SHORTEST_DENIED else set()
    plain = {word.removeprefix(no) for no in _NOT_SO if word.startswith(no)}
    formed |= {bare for bare in plain if len(bare) >= _SHORTEST_DENIED}
    return formed | _OPPOSITES.get(word, set())


def _share(mine: frozenset[str], theirs: frozenset[str]) -> float:
    """Return the shorter's share of the longer, if the longer contains it; else 0."""
    shorter, longer = sorted((mine, theirs), key=len)
    if not shorter or not shorter <= longer or len(shorter) * 2 < len(longer):
        return 0.0
    return len(shorter) / len(longer)


def _conflict(why: str, score: float) -> Clash:
    return Clash(ConflictKind.CONFLICT, why, score)
