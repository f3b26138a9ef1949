"""What the speed bench tells: a table of times, and the ratios that are judged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.speed_load import FACTS_EACH, Store
from bench.speed_systems import LANGGRAPH, PRODUCT

LEAST_FOUND = 0.99
MOST_BESIDE_LANGGRAPH = 2.5
MOST_FOR_TEN_TIMES = 1.6
MOST_FOR_A_MILLION = 2.0
MOST_IN_A_CROWD = 1.5


@dataclass
class Times:
    """What was measured of one system in a store; times in seconds."""

    asked: list[float] = field(default_factory=list)
    stored: list[float] = field(default_factory=list)
    found: list[float] = field(default_factory=list)
    same: list[float] = field(default_factory=list)
    statements: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A figure that is judged; None where this run cannot tell."""

    name: str
    value: float | None
    bound: str
    holds: bool = True

    def __str__(self) -> str:
        value = "not judged in this run" if self.value is None else f"{self.value:.3f}"
        return f"{self.name}: {value} ({self.bound}){'' if self.holds else ' FAILS'}"


Table = dict[Store, dict[str, Times]]
"""What was measured, by store and by system."""


def report(table: Table) -> int:
    """Print everything; 1 where a ratio does not hold."""
    print(
        f"\n{'facts':<18} {'':<10} {'p50':>7} {'p95':>7} {'store p50':>10} {'p95':>7} "
        f"{'recall@10':>10} {'statements':>11}    (times in ms)"
    )
    for store, systems in table.items():
        for system, times in systems.items():
            print(f"{store.name:<18} {system:<10} {_line(times)}")
    verdicts = list(judge(table))
    print("", *verdicts, sep="\n")
    return 0 if all(one.holds for one in verdicts) else 1


def judge(table: Table) -> Iterator[Verdict]:
    """Every ratio that must hold."""
    medians = {
        (store.name, system): float(np.median(times.asked))
        for store, systems in table.items()
        for system, times in systems.items()
    }
    small, middle, large, largest = (
        (f"{size:,}", PRODUCT) for size in (FACTS_EACH, 10_000, 100_000, 1_000_000)
    )
    yield _ratio(medians, middle, (middle[0], LANGGRAPH), MOST_BESIDE_LANGGRAPH)
    yield _ratio(medians, large, middle, MOST_FOR_TEN_TIMES)
    yield _ratio(medians, largest, large, MOST_FOR_A_MILLION)
    for store in table:
        if store.is_crowd:
            yield _ratio(medians, (store.name, PRODUCT), small, MOST_IN_A_CROWD)
    for store, systems in table.items():
        times = systems[PRODUCT]
        yield _share(f"recall@10 by meaning at {store.name}", times.found)
        if times.same:
            name = f"recall's ten as with every vector read at {store.name}"
            yield Verdict(name, float(np.mean(times.same)), "shown, not judged")


def _share(name: str, samples: Sequence[float]) -> Verdict:
    share = float(np.mean(samples))
    return Verdict(name, share, f"at least {LEAST_FOUND}", share >= LEAST_FOUND)


def _ratio(
    medians: dict[tuple[str, str], float],
    over: tuple[str, str],
    under: tuple[str, str],
    most: float,
) -> Verdict:
    name, bound = f"{over[1]} at {over[0]} / {under[1]} at {under[0]}, p50", f"at most {most}"
    if over not in medians or under not in medians:
        return Verdict(name, None, bound)
    ratio = medians[over] / medians[under]
    return Verdict(name, ratio, bound, ratio <= most)


def _line(times: Times) -> str:
    found, statements = np.mean(times.found), times.statements or ""
    return (
        f"{_ms(times.asked, 50)} {_ms(times.asked, 95)} {_ms(times.stored, 50):>10} "
        f"{_ms(times.stored, 95)} {found:>10.3f} {statements:>11}"
    )


def _ms(samples: Sequence[float], percentile: int) -> str:
    return f"{np.percentile(samples, percentile) * 1000:>7.1f}"
