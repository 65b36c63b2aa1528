"""What is measured and logged about every answer: histograms by operation and status, and a line for what went wrong."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from tollhouse.gate.request import Request
from tollhouse.gate.routing import Route
from tollhouse.logs import logger
from tollhouse.settings import measures_together

log = logger("gate")

SLOW_SECONDS = 1.0

_DURATION = Histogram(
    "tollhouse_request_duration_seconds",
    "Time from the request's head to the answer's last byte handed over",
    ["service", "operation", "status"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_BYTES = Counter("tollhouse_response_body_bytes_total", "Body bytes before compression", ["service", "operation"])
_IN_FLIGHT = Gauge("tollhouse_requests_in_flight", "Requests being answered now", multiprocess_mode="livesum")

_durations: dict[tuple[str, str, int], Histogram] = {}
_bytes: dict[tuple[str, str], Counter] = {}


def observe(request: Request, route: Route | None, status: int, seconds: float, size: int) -> None:
    """Count one answer; log it when it failed, was slow, or somebody debugs."""
    service, operation = (route.service.name, route.operation.id) if route else ("", "unrouted")
    key = (service, operation, status)
    if key not in _durations:
        _durations[key] = _DURATION.labels(service, operation, str(status))
        _bytes[key[:2]] = _BYTES.labels(service, operation)
    _durations[key].observe(seconds)
    _bytes[key[:2]].inc(size)
    tell = log.info if status >= 400 or seconds > SLOW_SECONDS else log.debug
    tell(
        "answered",
        request_id=request.id,
        method=request.method,
        path=request.path,
        service=service,
        operation=operation,
        status=status,
        seconds=round(seconds, 6),
    )


def started() -> None:
    """One more request is in flight."""
    _IN_FLIGHT.inc()


def finished() -> None:
    """One fewer request is in flight."""
    _IN_FLIGHT.dec()


def exposition() -> bytes:
    """All measurements in Prometheus' text format, of every worker process when there are several."""
    if not measures_together():
        return generate_latest()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)
