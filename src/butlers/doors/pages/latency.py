"""How long retrievals take, as the metrics of this process count them."""

from dataclasses import dataclass

from butlers import metrics

_RETRIEVALS = ("memory_search", "memory_recall", "memory_context")


@dataclass(frozen=True, slots=True)
class Latency:
    """Retrievals since the start: how many took up to how long."""

    buckets: list[tuple[str, int]]

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(count for _, count in self.buckets)


def retrieval_latency(butler: str) -> Latency:
    """The retrievals of one butler by duration; none of it tells one tenant from another."""
    cumulated: dict[float, float] = {}
    for metric in metrics.TOOL_SECONDS.collect():
        for sample in metric.samples:
            labels = sample.labels
            if not sample.name.endswith("_bucket") or labels["butler"] != butler:
                continue
            if labels["tool"] in _RETRIEVALS:
                edge = float(labels["le"])
                cumulated[edge] = cumulated.get(edge, 0.0) + sample.value
    return Latency(_each(sorted(cumulated.items())))


def _each(cumulated: list[tuple[float, float]]) -> list[tuple[str, int]]:
    """How many fell into each bucket alone; what nobody reached is left out at the slow end."""
    counts, before = [], 0.0
    for edge, total in cumulated:
        counts.append((_edge(edge), int(total - before)))
        before = total
    while counts and counts[-1][1] == 0:
        counts.pop()
    return counts


def _edge(seconds: float) -> str:
    if seconds == float("inf"):
        return "more"
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"
