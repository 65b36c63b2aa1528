"""An OpenTelemetry collector: keeps the spans that it receives over HTTP (OTLP, protobuf)."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Span(NamedTuple):
    """A span as it arrived; ids are in hexadecimal."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    has_failed: bool
    attributes: dict[str, Any]


class Collector(NamedTuple):
    """Where it listens, and what it received."""

    url: str
    spans: list[Span]
    service_names: set[str]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port of this machine."""
    spans: list[Span] = []
    names: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                names.update(
                    one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
                )
                spans.extend(_span(one) for scope in resource.scope_spans for one in scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Collector(f"http://127.0.0.1:{server.server_address[1]}", spans, names)
        server.shutdown()


def _span(one: Any) -> Span:
    values = {each.key: each.value.string_value or each.value.int_value for each in one.attributes}
    ids = (one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex())
    return Span(one.name, *ids, one.kind, one.status.code == 2, values)
