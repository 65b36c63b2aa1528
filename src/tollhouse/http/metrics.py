"""What is measured and logged of every answer: histograms by operation and status, a line for what went wrong."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from tollhouse.config.loader import shares_metrics
from tollhouse.http.request import HttpRequest
from tollhouse.http.router import Route
from tollhouse.logs import logger

log = logger("http")

SLOW_SECONDS = 1.0

_DURATION = Histogram(
    "tollhouse_request_duration_seconds",
    "Time from the request's head to the answer's last byte handed over",
    ["service", "operation", "status"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)

_IN_FLIGHT = Gauge("tollhouse_requests_in_flight", "Requests this process is answering now")

# By service, operation and status: looking labels up costs more than counting.
_durations: dict[tuple[str, str, int], Histogram] = {}


def count(route: Route | None, status: int, seconds: float) -> None:
    """Count one answer."""
    service, operation = _names(route)
    key = (service, operation, status)
    duration = _durations.get(key)
    if duration is None:
        duration = _durations[key] = _DURATION.labels(service, operation, str(status))
    duration.observe(seconds)


def show_in_flight(count_now: Callable[[], float]) -> None:
    """Have the measurements tell how many requests are in flight, asked only when somebody looks."""
    if not shares_metrics():
        _IN_FLIGHT.set_function(count_now)


def is_remarkable(status: int, seconds: float) -> bool:
    """Whether an answer failed or was slow."""
    return status >= 400 or seconds > SLOW_SECONDS


def tell(request: HttpRequest, route: Route | None, status: int, seconds: float) -> None:
    """A line in the log about one answer."""
    service, operation = _names(route)
    log_line = log.info if is_remarkable(status, seconds) else log.debug
    log_line(
        "answered",
        request_id=request.id,
        method=request.method,
        path=request.path,
        service=service,
        operation=operation,
        status=status,
        seconds=round(seconds, 6),
    )


def _names(route: Route | None) -> tuple[str, str]:
    return (route.service.name, route.operation.id) if route else ("", "unrouted")


def exposition() -> bytes:
    """All measurements in Prometheus' text format, of every worker process when there are several."""
    if not shares_metrics():
        return generate_latest()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)
