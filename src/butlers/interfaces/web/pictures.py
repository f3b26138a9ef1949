"""Lay out the plots and provenance graphs of a page; `templates/drawings.html` draws them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from markupsafe import Markup

from butlers import metrics
from butlers.interfaces.http.access import ButlerAccess
from butlers.interfaces.web import charts
from butlers.interfaces.web.charts import Chart, Decay
from butlers.interfaces.web.environment import drawings
from butlers.interfaces.web.formatting import instant
from butlers.memory.policy.confidence import Waning

SHOWN = 5
"""The most neighbours drawn on one side; the page lists them all."""

_BOX, _HIGH, _GAP, _APART = 170.0, 46.0, 14.0, 74.0


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A memory in the graph; one without an address is not a link."""

    kind: str
    words: str
    relation: str = ""
    address: str = ""


def draw_graph(before: Sequence[GraphNode], this: GraphNode, after: Sequence[GraphNode]) -> Markup:
    """Draw the sources of a memory, the memory, and what replaced it, from left to right."""
    columns = [column for column in (before[:SHOWN], [this], after[:SHOWN]) if column]
    height = max(len(column) for column in columns) * (_HIGH + _GAP) + _GAP
    width = len(columns) * _BOX + (len(columns) - 1) * _APART + 4
    tops = [_tops(column, height) for column in columns]
    nodes = [
        (node, _left(index), top)
        for index, column in enumerate(columns)
        for node, top in zip(column, tops[index], strict=True)
    ]
    own = columns.index([this])
    left, middle = _left(own), tops[own][0] + _HIGH / 2
    arrows = [
        ((left - _APART, top + _HIGH / 2), (left, middle), node.relation)
        for top, node in zip(tops[0], before, strict=False)
    ] + [
        ((left + _BOX, middle), (_left(own + 1), top + _HIGH / 2), node.relation)
        for top, node in zip(tops[-1], after, strict=False)
    ]
    label = _in_words(before, after)
    drawn: Markup = drawings.graph(width, height, label, (_BOX, _HIGH), nodes, arrows)
    return drawn


def _left(column: int) -> float:
    return 2 + column * (_BOX + _APART)


def _tops(nodes: Sequence[GraphNode], height: float) -> list[float]:
    """Place nodes below each other, around the middle."""
    first = (height - len(nodes) * (_HIGH + _GAP) + _GAP) / 2
    return [first + at * (_HIGH + _GAP) for at in range(len(nodes))]


def _in_words(before: Sequence[GraphNode], after: Sequence[GraphNode]) -> str:
    came = ", ".join(f"{node.relation} {node.kind}" for node in before) or "unknown"
    went = ", ".join(node.kind for node in after)
    return f"Came from: {came}" + (f"; replaced by: {went}" if went else "")


_RETRIEVALS = ("memory_search", "memory_recall", "memory_context")


def retrieval_latency(butler: str) -> list[tuple[str, int]]:
    """Count the retrievals of a butler by duration, over all tenants."""
    cumulated: Counter[float] = Counter()
    for metric in metrics.TOOL_SECONDS.collect():
        for sample in metric.samples:
            labels = sample.labels
            is_retrieval = labels["butler"] == butler and labels["tool"] in _RETRIEVALS
            if is_retrieval and sample.name.endswith("_bucket"):
                cumulated[float(labels["le"])] += int(sample.value)
    return _each(sorted(cumulated.items()))


def _each(cumulated: list[tuple[float, int]]) -> list[tuple[str, int]]:
    """Turn cumulative buckets into counts; drop empty buckets at the slow end."""
    counts, before = [], 0
    for edge, total in cumulated:
        counts.append((_edge(edge), total - before))
        before = total
    while counts and counts[-1][1] == 0:
        counts.pop()
    return counts


def _edge(seconds: float) -> str:
    if seconds == float("inf"):
        return "more"
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


def decay_of(row: Mapping[str, Any], access: ButlerAccess) -> Decay:
    """Describe the decay of a fact or rule."""
    memory = access.butler.memory
    settings = memory.settings.facts
    return Decay(
        Waning.of({**row, "last_confirmed_at": instant(row["last_confirmed_at"])}),
        memory.now(),
        settings.retrieval_confidence_threshold,
        settings.expiry_confidence_threshold,
    )


def with_decay(rows: Sequence[Mapping[str, Any]], access: ButlerAccess) -> list[dict[str, Any]]:
    """Add to each fact or rule its decay curve and the time it fades."""
    drawn = []
    for row in rows:
        decay = decay_of(row, access)
        spark = charts.decay_spark(decay)
        drawn.append({**row, "spark": spark, "fades_at": decay.fades_at, "lasts": decay.lasts})
    return drawn


def plots(timeline: Mapping[str, Any], latency: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Draw the plots of a butler; an empty one says what would fill it."""
    days = [date.fromisoformat(day) for day in timeline["days"]]
    return [
        _plot("Facts by state", charts.areas("Facts by state", days, timeline["facts"]),
              "Facts appear here once an agent stores one."),
        _plot("Episodes by state", charts.areas("Episodes by state", days, timeline["episodes"]),
              "Episodes appear here once a session ends."),
        _plot("Consolidation outcomes",
              charts.bars("Consolidation outcomes by day", days, timeline["consolidation"]),
              "Nothing was consolidated in this period. Run the job consolidate to start."),
        _plot("Retrieval latency", charts.histogram("Retrievals by duration", latency),
              "No searches, recalls or contexts since the daemon started."),
    ]  # fmt: skip


def provenance(home: str, detail: Mapping[str, Any]) -> Markup | None:
    """Draw where a memory came from and what replaced it; None if neither is known."""
    row = detail["memory"]
    before = [
        *(_episode(home, episode) for episode in detail["source_episodes"]),
        *(_fact(home, fact, "replaced") for fact in detail["replaced"]),
    ]
    after = [_fact(home, fact, "replaced by") for fact in detail["replaced_by"]]
    if detail["memory_type"] == "episode":
        links = [link for link in detail["links"] if link["target_id"] == row["id"]]
        after = [_derived(home, link) for link in links]
    if not before and not after:
        return None
    return draw_graph(before, GraphNode("this", row["content"]), after)


def _plot(title: str, chart: Chart, if_empty: str) -> dict[str, Any]:
    filled = any(count for _, count in chart.legend)
    return {"title": title, "chart": chart if filled else None, "if_empty": if_empty}


def _episode(home: str, source: Mapping[str, Any]) -> GraphNode:
    if source["gone"]:
        return GraphNode("episode", "deleted", "drawn from")
    link = f"{home}/episodes/{source['id']}"
    return GraphNode("episode", source["content"], "drawn from", link)


def _fact(home: str, row: Mapping[str, Any], relation: str) -> GraphNode:
    return GraphNode("fact", row["content"], relation, f"{home}/facts/{row['id']}")


def _derived(home: str, link: Mapping[str, Any]) -> GraphNode:
    kind, memory_id = link["source_type"], link["source_id"]
    return GraphNode(kind, str(memory_id)[:8], "led to", f"{home}/{kind}s/{memory_id}")
