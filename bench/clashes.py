"""How well facts that contradict each other, or say the same, are told from those that do neither.

`python -m bench clashes` reads the pairs of `stores/clashes`, of each class every other line for
the rules' own making (`dev`) and the others held out, and prints what the product takes them for.
It needs the model and no database, and takes seconds.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from butlers.embedding import get_embedding_engine
from butlers.memory.policy.conflict_rules import ComparedFact, Nearness, compare
from butlers.memory.policy.fact_statements import predicate_words

STORES = Path(__file__).parent / "stores" / "clashes"
SETS = ("dev", "held out", "fresh", "later", "unseen", "last")
CLASSES = ("conflict", "same", "related")
LEAST_PRECISION, LEAST_RECALL = 0.9, 0.8


@dataclass(frozen=True, slots=True)
class Pair:
    """Two facts of one subject, the older first, and what they are to each other."""

    kind: str
    older: ComparedFact
    newer: ComparedFact

    @property
    def texts(self) -> list[str]:
        """What the product embeds of them."""
        sides = (self.older, self.newer)
        whole = [f"{side.subject} {side.predicate} {side.content}" for side in sides]
        return [*(predicate_words(side.predicate) for side in sides), *whole]


@dataclass(slots=True)
class Figures:
    """How often pairs of a class were taken for one of each, and which wrongly."""

    taken: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def of(self, kind: str) -> int:
        """How many pairs of a class there are."""
        return sum(self.taken[kind, taken] for taken in CLASSES)

    @property
    def precision(self) -> float:
        """The share of what is taken for a conflict that is one."""
        return self.taken["conflict", "conflict"] / max(
            1, sum(self.taken[kind, "conflict"] for kind in CLASSES)
        )

    @property
    def recall(self) -> float:
        """The share of conflicts that are taken for one."""
        return self.taken["conflict", "conflict"] / max(1, self.of("conflict"))


def pairs(name: str) -> list[Pair]:
    """The pairs of a set; `dev` and `held out` are the halves of one file."""
    if name not in ("dev", "held out"):
        return list(_read(STORES / f"{name}.txt"))
    seen: Counter[str] = Counter()
    halves = defaultdict(list)
    for pair in _read(STORES / "pairs.txt"):
        halves[("dev", "held out")[seen[pair.kind] % 2]].append(pair)
        seen[pair.kind] += 1
    return halves[name]


def measure(name: str) -> Figures:
    """What the product takes the pairs of a set for."""
    figures, engine = Figures(), get_embedding_engine()
    for pair in pairs(name):
        one, other, mine, theirs = engine.embed_batch(pair.texts)
        near = Nearness(_cosine(one, other), _cosine(mine, theirs))
        clash = compare(pair.older, pair.newer, near)
        taken = str(clash.kind) if clash else "related"
        figures.taken[pair.kind, taken] += 1
        if taken != pair.kind:
            figures.faults.append(f"{pair.kind} taken for {taken}: {_told(pair)}")
    return figures


def _read(file: Path) -> Iterator[Pair]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, subject, *sides = (part.strip() for part in line.split("|"))
            yield Pair(kind, *(ComparedFact(subject, *side.split(" = ", 1)) for side in sides))


def _told(pair: Pair) -> str:
    return " | ".join(f"{side.predicate} = {side.content}" for side in (pair.older, pair.newer))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(one, other, strict=True))


def main(options: Sequence[str]) -> int:
    """Print the figures of every set; the exit code says whether the goals are met."""
    failed = False
    for name in SETS:
        figures = measure(name)
        print(f"\n{name}")
        for kind in CLASSES:
            row = "  ".join(f"{taken} {figures.taken[kind, taken]:3}" for taken in CLASSES)
            print(f"  {kind:9} {figures.of(kind):3}: {row}")
        print(f"  conflicts: precision {figures.precision:.3f}, recall {figures.recall:.3f}")
        for fault in figures.faults if "--faults" in options else ():
            print(f"  - {fault}")
        failed |= figures.taken["conflict", "same"] > 0
        if name in ("dev", "held out"):
            failed |= figures.precision < LEAST_PRECISION or figures.recall < LEAST_RECALL
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
