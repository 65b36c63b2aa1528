"""Traces for an OpenTelemetry collector. Outside of `open_tracing`, a span is nothing and costs next to nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

_NO_SPAN: AbstractContextManager[None] = contextlib.nullcontext()

# The tracer of this process; None while it sends no traces.
tracer: Any = None
"""The tracer of this process; None where it sends no traces."""


class TracingUnavailableError(Exception):
    """The packages of the extra `otlp` are not installed."""


def check_installed() -> None:
    """Raises TracingUnavailableError."""
    try:
        is_installed = all(find_spec(f"opentelemetry.{name}") for name in ("sdk.trace", "exporter.otlp.proto.http"))
    except ModuleNotFoundError:
        is_installed = False
    if not is_installed:
        raise TracingUnavailableError


@contextlib.asynccontextmanager
async def open_tracing(url: str, version: str) -> AsyncIterator[None]:
    """Send spans to the collector at `url` (OTLP over HTTP) until the block ends; with an empty URL, send none.

    The variables of the OpenTelemetry SDK apply: `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_TRACES_SAMPLER`,
    `OTEL_RESOURCE_ATTRIBUTES`. Raises TracingUnavailableError.
    """
    global tracer  # noqa: PLW0603 - spans begin anywhere, and each process has one tracer
    if not url:
        yield
        return
    check_installed()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "tollhouse", "service.version": version}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url.rstrip('/')}/v1/traces")))
    tracer = provider.get_tracer("tollhouse")
    try:
        yield
    finally:
        tracer = None
        await asyncio.to_thread(provider.shutdown)


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """A span within the current one, for the block. An error that leaves the block marks it as failed, by type only."""
    return _NO_SPAN if tracer is None else _span(name, attributes)


@contextlib.contextmanager
def _span(name: str, attributes: Mapping[str, Any]) -> Iterator[None]:
    from opentelemetry.trace import Status, StatusCode

    # The messages of errors stay in the log, which masks secrets.
    unrecorded = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(name, attributes=attributes, **unrecorded) as current:
        try:
            yield
        except BaseException as error:
            failure = getattr(error, "code", "") or type(error).__name__
            current.set_attribute("error.type", str(failure))
            current.set_status(Status(StatusCode.ERROR))
            raise


def request_span(method: str, headers: Mapping[bytes, str]) -> AbstractContextManager[Any]:
    """The span of a request, a part of the caller's trace where it sent a `traceparent` (W3C Trace Context)."""
    if tracer is None:
        return _NO_SPAN
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {name: headers[name.encode()] for name in ("traceparent", "tracestate") if name.encode() in headers}
    parent = TraceContextTextMapPropagator().extract(carrier)
    return tracer.start_as_current_span(method, context=parent, kind=SpanKind.SERVER)  # type: ignore[no-any-return]


def describe_request(name: str, status: int, error: str, attributes: Mapping[str, str]) -> None:
    """Name the current span, which is a request's, and say how it ended. `error` is the problem code of a refusal."""
    if tracer is None:
        return
    from opentelemetry.trace import Status, StatusCode, get_current_span

    current = get_current_span()
    current.update_name(name)
    current.set_attributes({name: value for name, value in attributes.items() if value})
    current.set_attribute("http.response.status_code", status)
    if error:
        current.set_attribute("error.type", error)
    if status >= 500:
        current.set_status(Status(StatusCode.ERROR))


class Detached:
    """A span that is not the current one of the block, for generators; `end` it."""

    def __init__(self, name: str, **attributes: Any) -> None:
        self._span = None if tracer is None else tracer.start_span(name, attributes=attributes)

    def end(self, **attributes: Any) -> None:
        if self._span is not None:
            self._span.set_attributes(attributes)
            self._span.end()
