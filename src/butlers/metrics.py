"""Metrics for Prometheus; none has a tenant as label."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

REGISTRY = CollectorRegistry()
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

UP = Gauge("butlers_butler_up", "Whether a butler's modules are healthy.", ["butler"],
           registry=REGISTRY)  # fmt: skip
TOOL_CALLS = Counter("butlers_tool_calls_total", "Tool calls by outcome.",
                     ["butler", "tool", "outcome"], registry=REGISTRY)  # fmt: skip
TOOL_SECONDS = Histogram("butlers_tool_seconds", "How long tool calls take.",
                         ["butler", "tool"], registry=REGISTRY)  # fmt: skip

JOB_RUNS = Counter("butlers_job_runs_total", "Runs of jobs in this process by outcome.",
                   ["butler", "job", "outcome"], registry=REGISTRY)  # fmt: skip
PROCESSING_SECONDS = Counter("butlers_processing_seconds_total",
                             "Time spent on the requests of tokens: operations, embedding, texts.",
                             registry=REGISTRY)  # fmt: skip
REFUSED = Counter("butlers_refused_requests_total", "Requests refused with 429, by limit.",
                  ["limit"], registry=REGISTRY)  # fmt: skip


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    return generate_latest(REGISTRY)
