"""Which machines a plan takes: how many, what of them is full first, and what they cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.scaling_model import Need, Plan

_HOUR_SECONDS = 3_600
_LEAST_DAEMON_NODES = 2
_CHEAP = 1.1
"""Fewer nodes are worth a tenth more."""
PRICED = ("vcpu", "memory_gb", "ssd_gb")


def price_of(node: Mapping[str, Any], price: Mapping[str, float]) -> float:
    """What a node costs a month."""
    return float(sum(node[one] * price[one] for one in PRICED))


@dataclass(frozen=True)
class Hardware:
    """The machines of a plan: one host for all, or database nodes, standbys and daemons."""

    plan: Plan

    @property
    def _assumed(self) -> Mapping[str, Any]:
        return self.plan.assumed

    def _needs(self, node: Mapping[str, Any], nodes: int) -> list[Need]:
        """What the database takes of each resource; on one host what the daemon takes as well."""
        plan, most, is_host = self.plan, self._assumed["most"], node is self._assumed["host"]
        cores = plan.server_cores(nodes) + (sum(plan.daemon_cores) if is_host else 0.0)
        memory = plan.kept_gb + (self._daemon_gb if is_host else 0.0)
        return [
            Need("processor", cores, node["vcpu"] * most["vcpu"]),
            Need("memory", memory, node["memory_gb"] * most["memory_gb"]),
            Need("disk", plan.disk_gb, node["ssd_gb"] * most["ssd_gb"]),
            Need("reads", plan.reads, node["reads_per_second"]),
            Need("log", plan.log_mb, node["log_mb_per_second"]),
        ]

    @property
    def _daemon_gb(self) -> float:
        largest = self.plan.measured.sizes[-1]
        return float(self.plan.measured.at(largest)["daemon_mb"]) / 1000

    @cached_property
    def is_one_host(self) -> bool:
        """Whether one machine holds it all."""
        needs = self._needs(self._assumed["host"], 1)
        return all(need.nodes <= 1 for need in needs) and self.plan.daemons == 1

    @cached_property
    def kind(self) -> str:
        """Which database nodes: the smallest that is enough alone, or the fewest that are cheap."""
        counts = {name: self._count(name) for name in self._assumed["database_node"]}
        enough = [name for name, nodes in counts.items() if nodes == 1]
        if enough:
            return enough[0]
        costs = {name: nodes * self._cost(name) for name, nodes in counts.items()}
        cheap = [name for name, cost in costs.items() if cost <= min(costs.values()) * _CHEAP]
        return min(cheap, key=counts.__getitem__)

    def _count(self, kind: str) -> int:
        nodes = 1
        while (needed := self._wanted(kind, nodes)) > nodes:
            nodes = needed
        return nodes

    def _wanted(self, kind: str, nodes: int) -> int:
        node = self._assumed["database_node"][kind]
        return math.ceil(max(need.nodes for need in self._needs(node, nodes)))

    def _cost(self, kind: str) -> float:
        return price_of(self._assumed["database_node"][kind], self._assumed["price"])

    @cached_property
    def databases(self) -> int:
        """Nodes that hold memories, standbys not counted; several are Citus workers."""
        return 1 if self.is_one_host else self._count(self.kind)

    @property
    def _node(self) -> Mapping[str, Any]:
        """One of those that hold memories."""
        if self.is_one_host:
            return self._assumed["host"]
        return self._assumed["database_node"][self.kind]

    @cached_property
    def full_first(self) -> Need:
        """What there is least of to spare."""
        return max(self._needs(self._node, self.databases), key=lambda need: need.nodes)

    @property
    def fullness(self) -> float:
        """How much of what may be used of it is."""
        return self.full_first.nodes / self.databases

    @property
    def coordinators(self) -> int:
        """Citus has one where there are several workers."""
        return 0 if self.databases == 1 else 1

    @property
    def is_routed_by_many(self) -> bool:
        """Whether the coordinator alone could not hand everything on."""
        bearable = self._node["vcpu"] * self._assumed["most"]["vcpu"]
        return self.databases > 1 and self.plan.routing_cores > bearable

    @property
    def standbys(self) -> int:
        """One for each node that would be missed."""
        alone = 0 if self.is_one_host else int(self._assumed["use"]["standbys"])
        return alone * (self.databases + self.coordinators)

    @cached_property
    def daemon_nodes(self) -> int:
        """At least two where they have nodes of their own, so that one may go."""
        if self.is_one_host:
            return 0
        node, most = self._assumed["daemon_node"], self._assumed["most"]
        by_cores = sum(self.plan.daemon_cores) / (node["vcpu"] * most["vcpu"])
        by_memory = self.plan.daemons * self._daemon_gb / (node["memory_gb"] * most["memory_gb"])
        return max(_LEAST_DAEMON_NODES, math.ceil(by_cores), math.ceil(by_memory))

    @property
    def connections(self) -> int:
        """All that the daemons may hold at once."""
        each = self.plan.measured.at(self.plan.measured.sizes[-1])["connections"]["most"]
        return int(max(self.plan.daemons, self.daemon_nodes) * each)

    @property
    def needs_pooler(self) -> bool:
        """Whether one database node has fewer connections than that."""
        return not self.is_one_host and self.connections > self._node["connections"]

    @property
    def backup_hours(self) -> float:
        """To read one node whole."""
        a_second = self._assumed["use"]["backup_mb_per_second"]
        return self.plan.disk_gb * 1000 / self.databases / a_second / _HOUR_SECONDS

    @property
    def graph_hours(self) -> float:
        """To make one node's graph anew, while all of it is in memory."""
        seconds = self.plan.measured.index_seconds(self.plan.memories / self.databases)
        return seconds / self._assumed["use"]["index_cores"] / _HOUR_SECONDS

    @property
    def month(self) -> float:
        """What all of it costs a month."""
        use, price = self._assumed["use"], self._assumed["price"]
        backups = self.plan.disk_gb * use["backups_kept"] * price["backup_gb"]
        databases = self.databases + self.coordinators + self.standbys
        daemons = self.daemon_nodes * price_of(self._assumed["daemon_node"], price)
        return float(databases * price_of(self._node, price) + daemons + backups)
