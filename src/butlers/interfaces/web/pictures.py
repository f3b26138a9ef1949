"""The drawings of a page from what the flows tell."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from markupsafe import Markup

from butlers import metrics
from butlers.interfaces.http.access import ButlerAccess
from butlers.interfaces.web import charts, graph
from butlers.interfaces.web.charts import Chart, Decay
from butlers.interfaces.web.graph import GraphNode
from butlers.interfaces.web.phrases import address
from butlers.interfaces.web.presented import instant
from butlers.memory.policy.confidence import Waning

_RETRIEVALS = ("memory_search", "memory_recall", "memory_context")


def retrieval_latency(butler: str) -> list[tuple[str, int]]:
    """How many retrievals of one butler took up to how long; nothing tells tenants apart."""
    cumulated: dict[float, float] = {}
    for metric in metrics.TOOL_SECONDS.collect():
        for sample in metric.samples:
            labels = sample.labels
            if not sample.name.endswith("_bucket") or labels["butler"] != butler:
                continue
            if labels["tool"] in _RETRIEVALS:
                edge = float(labels["le"])
                cumulated[edge] = cumulated.get(edge, 0.0) + sample.value
    return _each(sorted(cumulated.items()))


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


def decay_of(row: Mapping[str, Any], access: ButlerAccess) -> Decay:
    """How a fact or a rule fades."""
    memory = access.butler.memory
    settings = memory.settings.facts
    return Decay(
        Waning.of({**row, "last_confirmed_at": instant(row["last_confirmed_at"])}),
        memory.now(),
        settings.retrieval_confidence_threshold,
        settings.expiry_confidence_threshold,
    )


def with_decay(rows: Sequence[Mapping[str, Any]], access: ButlerAccess) -> list[dict[str, Any]]:
    """Facts or rules, each with its curve and the day it fades, if there is one."""
    decays = ((row, decay_of(row, access)) for row in rows)
    return [
        {**row, "spark": charts.decay_spark(one), "fades_at": one.fades_at, "lasts": one.lasts}
        for row, one in decays
    ]


def plots(told: Mapping[str, Any], latency: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """The plots of a butler; one without numbers says what would fill it."""
    days = [date.fromisoformat(day) for day in told["days"]]
    return [
        _plot("Facts by state", charts.areas("Facts by state", days, told["facts"]),
              "Facts appear here once an agent stores one."),
        _plot("Episodes by state", charts.areas("Episodes by state", days, told["episodes"]),
              "Episodes appear here once a session has ended."),
        _plot("Consolidation outcomes",
              charts.bars("Consolidation outcomes by day", days, told["consolidation"]),
              "Nothing was consolidated in these days. Run the job consolidate to begin."),
        _plot("Retrieval latency", charts.histogram("Retrievals by duration", latency),
              "Agents have not searched, recalled or asked for context since the start."),
    ]  # fmt: skip


def provenance(name: str, detail: Mapping[str, Any]) -> Markup | None:
    """What a memory came from and what became of it; None where it stands alone."""
    kind, found = detail["memory_type"], detail["memory"]
    before = [
        *(_episode(name, one) for one in detail["source_episodes"]),
        *(_fact(name, one, "replaced") for one in detail["replaced"]),
    ]
    after = [_fact(name, one, "replaced by") for one in detail["replaced_by"]]
    if kind == "episode":
        after = [
            _derived(name, link) for link in detail["links"] if link["target_id"] == found["id"]
        ]
    if not before and not after:
        return None
    return graph.provenance(before, GraphNode("this", found["content"]), after)


def _plot(title: str, chart: Chart, otherwise: str) -> dict[str, Any]:
    filled = any(count for _, count in chart.legend)
    return {"title": title, "chart": chart if filled else None, "otherwise": otherwise}


def _episode(name: str, source: Mapping[str, Any]) -> GraphNode:
    if source["gone"]:
        return GraphNode("episode", "removed since", "drawn from")
    return GraphNode(
        "episode", source["content"], "drawn from", address(name, "episode", source["id"])
    )


def _fact(name: str, row: Mapping[str, Any], relation: str) -> GraphNode:
    return GraphNode("fact", row["content"], relation, address(name, "fact", row["id"]))


def _derived(name: str, link: Mapping[str, Any]) -> GraphNode:
    kind, memory_id = link["source_type"], link["source_id"]
    return GraphNode(kind, str(memory_id)[:8], "led to", address(name, kind, memory_id))
