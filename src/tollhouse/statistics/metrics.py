"""The metrics of calls in the Prometheus text format, of this process and of the workers beside it."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from tollhouse.config.loader import metrics_folder
from tollhouse.statistics.recorder import BOUNDS, FIRST_ERROR, Key, Latencies, Recorder

_BUCKETS = [*map(str, BOUNDS), "+Inf"]
_ENDING = ".calls"


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(recorder: Recorder, more: Iterable[Metric] = ()) -> bytes:
    """All metrics, of every worker process. `more` are those that the caller computed from the database."""
    registry = CollectorRegistry()
    if metrics_folder():
        MultiProcessCollector(registry)
    registry.register(_Families([*_call_families(_all_totals(recorder)), *more]))
    own = b"" if metrics_folder() else generate_latest(REGISTRY)
    return own + generate_latest(registry)


def share_totals(recorder: Recorder) -> None:
    """Write the totals of this worker where the others read them; does nothing in a process that has none beside it."""
    folder = metrics_folder()
    if not folder:
        return
    file = Path(folder) / f"{os.getpid()}{_ENDING}"
    partial = file.with_suffix(".partial")
    partial.write_bytes(msgspec.msgpack.encode(list(recorder.totals().items())))
    partial.replace(file)


def _all_totals(recorder: Recorder) -> Iterator[tuple[Key, Latencies]]:
    yield from recorder.totals().items()
    own = f"{os.getpid()}{_ENDING}"
    folder = metrics_folder()
    for file in Path(folder).glob(f"*{_ENDING}") if folder else ():
        if file.name != own:
            yield from msgspec.msgpack.decode(file.read_bytes(), type=list[tuple[Key, Latencies]])


def _call_families(totals: Iterable[tuple[Key, Latencies]]) -> list[Metric]:
    durations: dict[tuple[str, ...], Latencies] = {}
    calls: dict[tuple[str, ...], int] = {}
    refusals: dict[tuple[str, ...], int] = {}
    for (service, operation, status, code, kind, plan, payment), latencies in totals:
        durations.setdefault((service, operation, str(status)), Latencies()).add(latencies)
        if kind:
            place = (service, kind, plan, payment)
            calls[place] = calls.get(place, 0) + latencies.count
        if status >= FIRST_ERROR:
            refusals[service, code] = refusals.get((service, code), 0) + latencies.count
    return [
        _histogram(durations),
        _counter("tollhouse_calls", "Calls to operations of the API", ("service", "caller", "plan", "payment"), calls),
        _counter("tollhouse_refusals", "Responses of 4xx and 5xx by problem code", ("service", "code"), refusals),
    ]


def _histogram(durations: dict[tuple[str, ...], Latencies]) -> Metric:
    family = HistogramMetricFamily(
        "tollhouse_request_duration_seconds",
        "Time from the request head to the last byte of the response",
        labels=("service", "operation", "status"),
    )
    for labels, latencies in durations.items():
        counts, seen = [], 0
        for count in latencies.buckets:
            seen += count
            counts.append(seen)
        family.add_metric(labels, list(zip(_BUCKETS, counts, strict=True)), latencies.seconds)
    return family


def _counter(name: str, meaning: str, labels: tuple[str, ...], values: dict[tuple[str, ...], int]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=labels)
    for place, value in values.items():
        family.add_metric(place, value)
    return family
