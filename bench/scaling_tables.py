"""Write the tables of docs/scaling.md: measurements, the model's errors, and plans."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.scaling_hardware import PRICED, Hardware, price_of
from bench.scaling_model import GROUPS, Guess, Measured, Plan, grouped, guesses

_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_WORK = {
    "recall: event loop of the daemon, ms": ("recall", "loop_ms"),
    "recall: embedding the query, ms": ("recall", "threads_ms"),
    "recall: PostgreSQL, ms": ("recall", "server_ms"),
    "recall: WAL for usage counts, bytes": ("recall", "log_bytes"),
    "recall: WAL page images, bytes": ("recall", "image_bytes"),
    "store: event loop of the daemon, ms": ("store", "loop_ms"),
    "store: embedding the fact, ms": ("store", "threads_ms"),
    "store: PostgreSQL, ms": ("store", "server_ms"),
    "store: WAL, bytes": ("store", "log_bytes"),
    "store: WAL page images, bytes": ("store", "image_bytes"),
    "store: pages of the vector graph visited": ("store", "graph_pages"),
}


def tables(figures: Mapping[str, Any], assumed: Mapping[str, Any]) -> list[str]:
    """Every table, in the order of the page."""
    measured = Measured(figures)
    plans = [Hardware(Plan(measured, assumed, **one)) for one in assumed["plan"]]
    told = (_work(measured), _disk(measured), _chores(figures), _guesses(measured))
    made = (*told, _nodes(assumed), _plans(plans))
    return ["\n".join(_lines(rows)) for rows in made]


Rows = list[Sequence[str]]


def _lines(rows: Rows) -> Iterable[str]:
    head, *body = rows
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in body)


def _work(measured: Measured) -> Rows:
    head = ["facts of the tenant", *(f"{size:,}" for size in measured.sizes)]
    rows: Rows = [head]
    for name, (work, figure) in _WORK.items():
        rows.append([name, *(_plain(measured.at(n)[work][figure]) for n in measured.sizes)])
    rows.append(
        ["rebuilding the indexes: PostgreSQL, s"]
        + [_plain(measured.at(n)["index_seconds"]) for n in measured.sizes]
    )
    rows.append(
        ["memory of the daemon, MB"] + [f"{measured.at(n)['daemon_mb']:,}" for n in measured.sizes]
    )
    held = (measured.at(n)["connections"] for n in measured.sizes)
    rows.append(
        ["connections: idle, with 32 concurrent queries, at most"]
        + [f"{one['idle']}, {one['busy']}, {one['most']}" for one in held]
    )
    return rows


def _disk(measured: Measured) -> Rows:
    """Bytes of each memory, by what they are for."""
    sizes, episode = measured.sizes, measured.figures["chores"]["episode"]
    columns = [{k: v / n for k, v in grouped(measured.at(n)["relations"]).items()} for n in sizes]
    columns.append(grouped(episode["relations"]))
    titles = [f"{size:,} facts" for size in sizes]
    rows: Rows = [
        ["bytes per memory", *titles, f"an episode of {episode['characters']} characters"]
    ]
    for group, meaning in GROUPS.items():
        rows.append([f"{group}: {meaning}", *(f"{one[group]:,.0f}" for one in columns)])
    rows.append(["**all**", *(f"**{sum(one.values()):,.0f}**" for one in columns)])
    return rows


def _chores(figures: Mapping[str, Any]) -> Rows:
    chores = figures["chores"]
    batch = chores["consolidation"]
    rows: Rows = [["", "process, ms", "PostgreSQL, ms", "WAL, bytes", "page images, bytes"]]
    swept, faded = (f"(of {chores[one]['checked']:,})" for one in ("sweep", "fading"))
    for name, one in (
        (_batch(batch), batch),
        ("an expired episode moved to the bin", chores["cleanup"]),
        (f"a fact checked by the sweep {swept}", chores["sweep"]),
        (f"a fact moved to fading {faded}", chores["fading"]),
    ):
        names = ("loop_ms", "server_ms", "log_bytes", "image_bytes")
        rows.append([name, *(_plain(one[figure]) for figure in names)])
    return rows


def _batch(batch: Mapping[str, Any]) -> str:
    """What a language model reads and writes of it is said in tokens."""
    made = f"a consolidation of {batch['episodes']:.0f} episodes into {batch['facts']:.0f} facts"
    tokens = f"{_plain(batch['tokens_in'])} tokens in, {_plain(batch['tokens_out'])} out"
    return f"{made}; {tokens}"


def _guesses(measured: Measured) -> Rows:
    rows: Rows = [["store", "figure", "predicted", "measured", "error"]]
    return rows + [_guess(one) for one in guesses(measured)]


def _guess(one: Guess) -> Sequence[str]:
    return (one.store, one.figure, _plain(one.said), _plain(one.found), f"{one.error:+.0%}")


def _nodes(assumed: Mapping[str, Any]) -> Rows:
    price, kinds = assumed["price"], assumed["database_node"]
    nodes = {"host": assumed["host"], "daemon": assumed["daemon_node"]}
    nodes |= {f"database, {kind}": kinds[kind] for kind in kinds}
    rows: Rows = [["", "vCPU", "memory, GB", "SSD, GB", "per month"]]
    for name, node in nodes.items():
        sizes = (f"{node[one]:,}" for one in PRICED)
        rows.append([name, *sizes, f"{price_of(node, price):,.0f}"])
    rows.append(["price per unit", *(f"{price[one]:g}" for one in PRICED), ""])
    return rows


_PLANNED: dict[str, Callable[[Hardware], str]] = {
    "memories": lambda h: _short(h.plan.memories),
    "memories per tenant": lambda h: (
        _short(h.plan.per_tenant) + (" *" if h.plan.is_extrapolated else "")
    ),
    "recalls, stores per second": lambda h: f"{_plain(h.plan.recalls)}, {_plain(h.plan.stores)}",
    "on the disk": lambda h: _short(h.plan.disk_gb * 1e9) + "B",
    "needed in memory": lambda h: _short(h.plan.kept_gb * 1e9) + "B",
    "PostgreSQL cores busy": lambda h: _plain(h.plan.server_cores(h.databases)),
    "of these, Citus routing": lambda h: _routing(h),
    "cores busy: event loops, embedding": lambda h: ", ".join(map(_plain, h.plan.daemon_cores)),
    "disk pages read per second": lambda h: _plain(h.plan.reads),
    "WAL per second, with page images": lambda h: _short(h.plan.log_mb * 1e6) + "B",
    "**database nodes**": lambda h: f"**{_databases(h)}**",
    "standbys": lambda h: f"{h.standbys:,}",
    "**daemons** (machines)": lambda h: f"**{h.plan.daemons:,}** ({_daemon_nodes(h)})",
    "connections, at most": lambda h: f"{h.connections:,}{' (pooler)' if h.needs_pooler else ''}",
    "first bottleneck, use of its limit": lambda h: f"{h.full_first.resource}, {h.fullness:.0%}",
    "daily sweep, hours of one process": lambda h: _plain(h.plan.sweep_hours),
    "concurrent language model sessions": lambda h: _plain(h.plan.readers),
    "reading a whole node, hours": lambda h: _plain(h.backup_hours),
    "rebuilding a node's vector graph, hours": lambda h: _plain(h.graph_hours),
    "**cost per month**": lambda h: f"**{_rounded(h.month):,}**",
}


def _plans(plans: Sequence[Hardware]) -> Rows:
    head = ["", *(f"{_short(one.plan.memories)}, {_who(one.plan)}" for one in plans)]
    return [head, *([name, *map(say, plans)] for name, say in _PLANNED.items())]


def _who(plan: Plan) -> str:
    return f"one tenant, {plan.load}" if plan.is_one_tenant else plan.load


def _databases(hardware: Hardware) -> str:
    if hardware.is_one_host:
        return "one host for all"
    kind, count = hardware.kind, hardware.databases
    return f"1 {kind}" if count == 1 else f"{count:,} {kind} workers, 1 coordinator"


def _routing(hardware: Hardware) -> str:
    """What Citus adds; more than a coordinator can bear is marked."""
    if hardware.databases == 1:
        return "0"
    many = " (more than one node can)" if hardware.is_routed_by_many else ""
    return f"{_plain(hardware.plan.routing_cores)}{many}"


def _daemon_nodes(hardware: Hardware) -> str:
    return "the host" if hardware.is_one_host else f"{hardware.daemon_nodes:,}"


def _plain(value: float) -> str:
    """Three figures, no more."""
    if value >= 100:
        return f"{_rounded(value):,}"
    return f"{value:.3g}"


def _rounded(value: float) -> int:
    digits = max(len(str(int(value))) - 3, 0)
    return round(round(value, -digits))


def _short(value: float) -> str:
    for unit, sign in _LARGE:
        if value >= unit:
            return f"{value / unit:.3g} {sign}"
    return f"{value:.3g} "
