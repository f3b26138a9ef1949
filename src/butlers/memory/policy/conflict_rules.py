"""Decide whether two facts about one subject contradict or repeat each other."""

from collections.abc import Mapping
from dataclasses import dataclass

from butlers.memory.model import ConflictKind, Holds
from butlers.memory.policy.fact_statements import FactStatement, Property, read, read_property
from butlers.memory.policy.quantities import TABLES

ALIKE = 0.7
"""Predicates as near as this ask for the same, though no table says so."""
COMPARABLE = 0.5
"""Predicates as near as this ask for the same if both are answered by a number, date or time."""
_RELATED = 0.3
_NARROWER = 0.29
_OF_ONE_KIND = 0.8
_NEARLY_ALL, _MOSTLY, _NEVER = 0.85, 0.6, 2.0
_SAYS_ALIKE = 0.7
_WORTH_READING = 0.55
_DENIED = 0.75
_LONGEST_VALUE = 5
_SHORTEST_DENIED = 5

_OPPOSITES = {frozenset(pair.split()) for pair in TABLES["opposites"]["pairs"]}
_NOT_SO = ("un", "dis", "in", "im", "non-", "de")


@dataclass(frozen=True, slots=True)
class ComparedFact:
    """A fact as it is compared."""

    subject: str
    predicate: str
    content: str


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near two facts are by the model: their predicates, and all that they say."""

    predicates: float
    statements: float


@dataclass(frozen=True, slots=True)
class Clash:
    """That two facts contradict each other or say the same, why, and how sure that is."""

    kind: ConflictKind
    why: str
    score: float


def compare(
    older: ComparedFact,
    newer: ComparedFact,
    near: Nearness,
    told: Mapping[str, Holds] | None = None,
) -> Clash | None:
    """What two facts of one subject are to each other; None where both may well hold.

    `told` says of predicates whether they hold one value or many.
    """
    asked, asks = read_property(older.predicate), read_property(newer.predicate)
    alike = _alike(asked, asks, near.predicates)
    if alike < _RELATED and near.statements < _WORTH_READING:
        return None
    one, other = (read(side.subject, side.predicate, side.content) for side in (older, newer))
    if one.is_elsewhen or other.is_elsewhen:
        return None
    pair = _Pair(older, newer, one, other, alike, near.statements, told or {})
    return pair.opposites() or pair.denial() or pair.numbers() or pair.same() or pair.other_value()


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two facts beside each other; `alike` is how near what their predicates ask for is."""

    older: ComparedFact
    newer: ComparedFact
    one: FactStatement
    other: FactStatement
    alike: float
    statements: float
    told: Mapping[str, Holds]

    def denial(self) -> Clash | None:
        """One says what the other denies."""
        if self.one.denies == self.other.denies:
            return None
        no, yes = (self.one, self.other) if self.one.denies else (self.other, self.one)
        denied = no.denied or no.words or no.asked.words
        share = len(denied & yes.whole) / max(1, len(denied))
        told_apart = no.quantities.differ_from(yes.quantities)
        if share < _DENIED or told_apart:
            return None
        return _conflict("one denies what the other says", 0.9 + 0.1 * share)

    def opposites(self) -> Clash | None:
        """Both use words that exclude each other, of the same thing."""
        if not self._of_one_thing():
            return None
        mine, theirs = self.one.said - self.other.said, self.other.said - self.one.said
        for word in sorted(mine):
            for counter in sorted(theirs):
                if _exclude(word, counter) and self._as_firmly(word, counter):
                    return _conflict(f"{word} and {counter} exclude each other", 0.9)
        return None

    def _as_firmly(self, word: str, counter: str) -> bool:
        """Whether both say or both deny what these words of theirs are about."""
        return self.one.denies_beside(word) == self.other.denies_beside(counter)

    def _of_one_thing(self) -> bool:
        if self.alike >= COMPARABLE or self.one.words & self.other.words:
            return True
        return self.alike >= _RELATED and self.statements >= ALIKE

    def numbers(self) -> Clash | None:
        """Both give a number, a date or a time of the same thing, and not the same."""
        kind = self.one.quantities.differ_from(self.other.quantities)
        if kind is None or self.one.denies != self.other.denies:
            return None
        if self.holds == Holds.MANY and not self._only_count:
            return None
        if not self._framed and (self.alike < COMPARABLE or not self._counts_alike):
            return None
        return _conflict(f"they give another {kind.removeprefix('of ')}", 0.7 + 0.3 * self.alike)

    @property
    def _counts_alike(self) -> bool:
        """Whether nothing else than the number tells what one counts from what the other does."""
        mine, theirs = self.one.words, self.other.words
        return self.alike == 1 or mine <= self.other.whole or theirs <= self.one.whole

    @property
    def _framed(self) -> bool:
        """Whether both say the same of their numbers, in whatever part of the statement."""
        if self.one.whole == self.other.whole:
            return True
        said = self.one.words
        return bool(said) and said == self.other.words and self.alike >= _RELATED

    def same(self) -> Clash | None:
        """Both say it in the same words, so far as words carry it."""
        counted = self.one.quantities.equal(self.other.quantities)
        if not counted or self._denials_differ or self._ask_for_opposites:
            return None
        share = self._share_of_words()
        if share == 0 and not self._same_number:
            return None
        if not self._may_be_one():
            return None
        return Clash(ConflictKind.SAME, "both say the same", (share + self.statements) / 2)

    @property
    def _denials_differ(self) -> bool:
        """Whether one denies more often than the other: two denials may be none."""
        mine, theirs = self.one, self.other
        counts = [len(side.denying) + side.asked.denies for side in (mine, theirs)]
        return counts[0] % 2 != counts[1] % 2 or mine.denies != theirs.denies

    @property
    def _ask_for_opposites(self) -> bool:
        mine, theirs = self.one.asked.given, self.other.asked.given
        return any(_exclude(x, y) for x in mine - theirs for y in theirs - mine)

    def _share_of_words(self) -> float:
        """How much of one the other is in words, those of the predicates aside or not."""
        mine, theirs = self.one.words, self.other.words
        asked = self.one.asked.words | self.other.asked.words
        return max(_share(mine, theirs), _share(mine - asked, theirs - asked))

    @property
    def _same_number(self) -> bool:
        """Whether both consist in a number, of the same thing."""
        if not self.one.quantities.values:
            return False
        return self._framed or (self._only_count and self.alike >= COMPARABLE)

    @property
    def _only_count(self) -> bool:
        return self.one.is_count and self.other.is_count

    def _may_be_one(self) -> bool:
        return self.alike >= _RELATED or (self.alike > 0 and self.statements >= _SAYS_ALIKE)

    def other_value(self) -> Clash | None:
        """Both give a value of a property that holds one."""
        sides = (self.one, self.other)
        short = all(0 < len(side.words) <= _LONGEST_VALUE for side in sides)
        if not short or self.holds == Holds.MANY or self.one.denies or self.other.denies:
            return None
        needed = COMPARABLE + 0.1 if self.holds == Holds.ONE else ALIKE
        if self.alike < needed or self.one.words & self.other.words:
            return None
        if self.one.asked.asks_when != self.other.asked.asks_when:
            return None
        return _conflict(self._hold_one(), self.alike * 0.9)

    def _hold_one(self) -> str:
        names = {self.older.predicate, self.newer.predicate}
        listed = " and ".join(sorted(names))
        return f"{listed} {'hold' if len(names) > 1 else 'holds'} one value"

    @property
    def holds(self) -> Holds | None:
        """Whether both predicates may hold one value or many; None where nothing says so."""
        held = {holds_of(side.predicate, self.told) for side in (self.older, self.newer)}
        return Holds.MANY if Holds.MANY in held else Holds.ONE if Holds.ONE in held else None


def holds_of(predicate: str, told: Mapping[str, Holds]) -> Holds | None:
    """Whether a predicate holds one value or many: as told, else as the tables know it."""
    return told.get(predicate) or read_property(predicate).holds


def _alike(mine: Property, theirs: Property, near: float) -> float:
    """How near what two predicates ask for is."""
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
    """How near predicates that share words must be, lest one asks for a part or kind of another.

    The last word says what is asked for: a web framework is a framework, gym days are no gym.
    """
    narrows = mine.words < theirs.words or theirs.words < mine.words
    if mine.phrase[-1:] == theirs.phrase[-1:]:
        return ALIKE if narrows else _OF_ONE_KIND
    return _NEARLY_ALL if shared >= _MOSTLY else _NEVER


def _exclude(one: str, other: str) -> bool:
    """Whether two words are opposites, by the table or by their form."""
    shorter, longer = sorted((one, other), key=len)
    formed = len(shorter) >= _SHORTEST_DENIED and any(longer == no + shorter for no in _NOT_SO)
    return formed or frozenset((one, other)) in _OPPOSITES


def _share(mine: frozenset[str], theirs: frozenset[str]) -> float:
    """How much of the longer the shorter is, where all of it is in the longer; else nothing."""
    shorter, longer = sorted((mine, theirs), key=len)
    if not shorter or not shorter <= longer or len(shorter) * 2 < len(longer):
        return 0.0
    return len(shorter) / len(longer)


def _conflict(why: str, score: float) -> Clash:
    return Clash(ConflictKind.CONFLICT, why, score)
