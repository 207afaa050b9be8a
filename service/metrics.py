"""Prometheus metrics, right under several workers too: each process writes to a file of its own and
any of them sums over all files. Labels are bounded: routes as declared, never addresses as sent.
"""

import os
from functools import lru_cache

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

# Where worker processes keep their files; set by the parent before this module is imported.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})

REQUESTS = Counter("tabglot_requests", "Requests answered.", ["method", "route", "status"])
LATENCY = Histogram("tabglot_request_seconds", "Time from request to answer.", ["route"], buckets=SECONDS)
ROWS = Counter("tabglot_rows", "Rows read.", ["route"])
IMPUTED = Counter("tabglot_imputed_cells", "Cells filled in.")
UNDER_WAY = Gauge("tabglot_requests_under_way", "Requests being answered.", multiprocess_mode="livesum")
SWITCHES = Counter("tabglot_model_switches", "Times the active model was changed.")
REVISION = Gauge("tabglot_registry_revision", "Revision of the registry that is served.", multiprocess_mode="livemin")


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """One answer more."""
    requests, latency = _counters(method if method in METHODS else "other", route, status)
    requests.inc()
    latency.observe(seconds)


@lru_cache(maxsize=4096)
def _counters(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    """Looking up labels takes longer than counting."""
    return REQUESTS.labels(method, route, str(status)), LATENCY.labels(route)


def count_rows(route: str, rows: int) -> None:
    """Rows of one request more."""
    _row_counter(route).inc(rows)


@lru_cache(maxsize=64)
def _row_counter(route: str) -> Counter:
    return ROWS.labels(route)


def render() -> tuple[bytes, str]:
    """The metrics of all processes, and their media type."""
    if not os.environ.get(FOLDER):
        return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry), CONTENT_TYPE_LATEST
