"""From what was measured to what a plan needs: arithmetic alone.

A figure between two measured sizes lies on the line between them, both counted in logarithms;
beyond the largest it goes on as it went between the last two. So a figure that grows with the
number of memories, with its root or not at all does so in a plan too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

GROUPS = {
    "rows": "text, full vector, provenance, state",
    "row indexes": "by key, time and state",
    "words": "keyword index",
    "vectors": "half-precision vectors for search",
    "graph": "HNSW graph over them",
    "index": "visibility of a memory for search",
    "audit": "events and their hash chain",
    "other": "all other tables",
}
_BYTES, _PAGE = 1e9, 8_192
_HOUR_SECONDS, _DAY_SECONDS = 3_600, 86_400
_LEAST = 1e-9


def group_of(relation: str) -> str:
    """What a table or an index belongs to."""
    if relation.startswith("index_"):
        kinds = {
            "index_vectors_nearest": "graph",
            "index_words": "words",
            "index_vectors": "vectors",
        }
        return next((kind for name, kind in kinds.items() if relation.startswith(name)), "index")
    if relation.startswith("memory_event"):
        return "audit"
    table = relation.removesuffix(" out of line")
    if table in ("facts", "episodes"):
        return "rows"
    return "row indexes" if relation.startswith(("facts_", "episodes_")) else "other"


def grouped(relations: Mapping[str, float]) -> dict[str, float]:
    """Bytes by group."""
    sums = dict.fromkeys(GROUPS, 0.0)
    for name, size in relations.items():
        sums[group_of(name)] += size
    return sums


@dataclass(frozen=True)
class Curve:
    """What a figure is at any size, from what it was at some."""

    points: Sequence[tuple[float, float]]

    def __call__(self, size: float) -> float:
        """Along the straight line, in logarithms, through the two points around or nearest."""
        pairs = list(pairwise(self.points))
        (low, at_low), (high, at_high) = next(
            (pair for pair in pairs if size <= pair[1][0]), pairs[-1]
        )
        slope = math.log(max(at_high, _LEAST) / max(at_low, _LEAST)) / math.log(high / low)
        return at_low * (size / low) ** slope


@dataclass(frozen=True)
class Measured:
    """The figures of `scaling.json`, as they are read off."""

    figures: Mapping[str, Any]

    @cached_property
    def sizes(self) -> list[int]:
        """How many facts the one tenant had, the fewest first."""
        return sorted(map(int, self.figures["sizes"]))

    def at(self, size: int) -> Mapping[str, Any]:
        """What was measured at a size."""
        found: Mapping[str, Any] = self.figures["sizes"][str(size)]
        return found

    def curve(self, work: str, *figures: str) -> Curve:
        """What some figures of a recall or a store come to together."""
        return Curve([(n, sum(self.at(n)[work][one] for one in figures)) for n in self.sizes])

    def bytes_of(self, *groups: str) -> Curve:
        """What some groups of tables take on the disk together; all, where none is named."""
        by_size = {n: grouped(self.at(n)["relations"]) for n in self.sizes}
        chosen = groups or tuple(GROUPS)
        return Curve([(n, sum(sums[one] for one in chosen)) for n, sums in by_size.items()])

    @property
    def index_seconds(self) -> Curve:
        """Processor time that making the graph anew takes."""
        return Curve([(n, self.at(n)["index_seconds"]) for n in self.sizes])

    def without_last(self) -> "Measured":
        """As if the largest size had not been measured."""
        kept = {str(n): self.at(n) for n in self.sizes[:-1]}
        return Measured({**self.figures, "sizes": kept})


@dataclass(frozen=True)
class Guess:
    """What the model says of a store it was not made from, and what was measured there."""

    store: str
    figure: str
    said: float
    found: float

    @property
    def error(self) -> float:
        """By how much the model is off, as a share of what was found."""
        return self.said / self.found - 1


def guesses(measured: Measured) -> Iterator[Guess]:
    """Of the largest store from the smaller ones, and of many tenants from the one."""
    size, crowd = measured.sizes[-1], measured.figures["crowd"]
    many = crowd["tenants"] * crowd["each"]
    yield from _guessed(measured.without_last(), f"{size:,} facts", measured.at(size), size, size)
    name = f"{crowd['tenants']:,} tenants of {crowd['each']:,}"
    yield from _guessed(measured, name, crowd, many, crowd["each"])


def _guessed(
    known: Measured, store: str, found: Mapping[str, Any], memories: int, each: int
) -> Iterator[Guess]:
    sums, bare = grouped(found["relations"]), [one for one in GROUPS if one != "graph"]
    for name, groups in (("MB on the disk", list(GROUPS)), ("the same without the graph", bare)):
        on_disk = sum(sums[one] for one in groups)
        yield Guess(store, name, known.bytes_of(*groups)(memories) / 1e6, on_disk / 1e6)
    for work, figures, name, size in (
        ("recall", ("server_ms",), "PostgreSQL ms per recall", each),
        ("recall", ("loop_ms", "threads_ms"), "daemon ms per recall", each),
        ("recall", ("log_bytes",), "WAL bytes per recall", memories),
        ("recall", ("log_bytes", "image_bytes"), "the same with page images", memories),
        ("store", ("server_ms",), "PostgreSQL ms per store", memories),
        ("store", ("log_bytes",), "WAL bytes per store", memories),
        ("store", ("log_bytes", "image_bytes"), "the same with page images", memories),
    ):
        now = sum(found[work][one] for one in figures)
        yield Guess(store, name, known.curve(work, *figures)(size), now)


@dataclass(frozen=True)
class Need:
    """What a plan needs of one resource, and what a node gives of it."""

    resource: str
    needed: float
    of_a_node: float

    @property
    def nodes(self) -> float:
        """How many nodes that is, not rounded."""
        return self.needed / self.of_a_node


@dataclass(frozen=True)
class Plan:
    """So many memories of tenants of one size under a load, and what that takes."""

    measured: Measured
    assumed: Mapping[str, Any]
    memories: float
    per_tenant: float
    load: str

    @property
    def recalls(self) -> float:
        """A second."""
        return float(self.assumed["load"][self.load]["recalls"]) * self.memories / 1e6

    @property
    def stores(self) -> float:
        """A second."""
        return float(self.assumed["load"][self.load]["stores"]) * self.memories / 1e6

    @property
    def is_extrapolated(self) -> bool:
        """Whether a tenant is larger than any that was measured."""
        return self.per_tenant > self.measured.sizes[-1]

    @cached_property
    def disk_gb(self) -> float:
        """Every memory's bytes are those at the largest size: what is empty at first is not."""
        return self._each() * self.memories / _BYTES

    def _each(self, *groups: str) -> float:
        largest = self.measured.sizes[-1]
        return self.measured.bytes_of(*groups)(largest) / largest

    @property
    def routing_cores(self) -> float:
        """Of what Citus hands on, wherever that is done."""
        return float((self.recalls + self.stores) * self.assumed["use"]["routing_ms"] / 1000)

    @cached_property
    def kept_gb(self) -> float:
        """What should be in memory: words and pages with vectors of active tenants, the graph."""
        use = self.assumed["use"]
        active = 1.0 if self.is_one_tenant else use["active_share"]
        on_a_page = _PAGE / self._each("vectors")
        spread = min(1.0, active * max(1.0, on_a_page / use["together"]))
        each = self._each("words") * active + self._each("vectors", "index") * spread
        return (each + self._each("graph")) * self.memories / _BYTES

    @property
    def is_one_tenant(self) -> bool:
        """Whether one has all, and is never cold."""
        return self.per_tenant == self.memories

    @cached_property
    def reads(self) -> float:
        """Pages a second of tenants who come back, and lie where they were written."""
        use, tenants = self.assumed["use"], self.memories / self.per_tenant
        cold = 0.0 if self.is_one_tenant else tenants * use["cold_per_hour"] / _HOUR_SECONDS
        return float(cold * self.per_tenant / use["together"])

    @cached_property
    def log_mb(self) -> float:
        """A second, with every image of a page that was measured right after a checkpoint."""
        recall, store = (
            self.measured.curve(work, "log_bytes", "image_bytes") for work in ("recall", "store")
        )
        largest = self.measured.sizes[-1]
        return (self.recalls * recall(largest) + self.stores * store(largest)) / 1e6

    def server_cores(self, nodes: float) -> float:
        """Of recalls, stores and jobs; where there are several nodes, of finding the right one."""
        recall, store = (self.measured.curve(work, "server_ms") for work in ("recall", "store"))
        asked = self.recalls * recall(self.per_tenant)
        stored = self.stores * store(self.measured.sizes[-1])
        routed = self.routing_cores if nodes > 1 else 0.0
        return (asked + stored) / 1000 + routed + self._chores("server_ms")

    def _chores(self, figure: str) -> float:
        """Cores for what is done to everything once a day, and to each episode once."""
        chores, share = self.measured.figures["chores"], self.assumed["use"]["episode_share"]
        swept = self.memories * chores["sweep"][figure] / _DAY_SECONDS
        cleaned = self.stores * share * chores["cleanup"][figure]
        return float(swept + cleaned + self.batches * chores["consolidation"][figure]) / 1000

    @property
    def batches(self) -> float:
        """Of episodes that a language model reads, a second."""
        episodes = self.stores * self.assumed["use"]["episode_share"]
        return float(episodes / self.measured.figures["chores"]["consolidation"]["episodes"])

    @property
    def readers(self) -> float:
        """Sessions of a language model that must be under way at once to keep up."""
        return float(self.batches * self.assumed["use"]["batch_seconds"])

    @property
    def sweep_hours(self) -> float:
        """Of the daily sweep, which goes through all tenants in one process."""
        sweep = self.measured.figures["chores"]["sweep"]
        return float(self.memories * (sweep["loop_ms"] + sweep["server_ms"]) / 1000 / _HOUR_SECONDS)

    @cached_property
    def daemon_cores(self) -> tuple[float, float]:
        """Of the event loops, and of embedding; each is one thread in a daemon."""
        both = []
        for figure in ("loop_ms", "threads_ms"):
            recall, store = (self.measured.curve(work, figure) for work in ("recall", "store"))
            size = min(self.per_tenant, self.measured.sizes[-1])
            both.append((self.recalls * recall(size) + self.stores * store(size)) / 1000)
        return both[0] + self._chores("loop_ms"), both[1]

    @cached_property
    def daemons(self) -> int:
        """Processes; the fuller of their two threads decides."""
        return max(1, math.ceil(max(self.daemon_cores) / self.assumed["most"]["vcpu"]))
