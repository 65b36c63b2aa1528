"""One call on its way from the gate to its handler."""

from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.caller import Caller
from tollhouse.config.settings import Settings
from tollhouse.http import request_limits
from tollhouse.http.content_negotiation import wanted_media_type
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.request import HttpRequest
from tollhouse.http.request_parser import read_body, read_query
from tollhouse.http.response_writer import etag_of
from tollhouse.http.router import Route


class Call:
    """A request, the operation it means, and how that is answered."""

    __slots__ = ("_body", "_parameters", "_route", "_settings", "request")

    def __init__(self, settings: Settings, request: HttpRequest, route: Route, parameters: dict[str, str]) -> None:
        self._settings = settings
        self._route = route
        self._parameters = parameters
        self._body: bytes | None = None
        self.request = request

    @property
    def operation(self) -> Endpoint:
        """What is called."""
        return self._route.operation

    @property
    def path(self) -> str:
        """The path inside the service, as the documents write it."""
        return self.request.path[len(self._route.prefix) :]

    async def body(self) -> bytes:
        """The whole body, read once; nothing where the operation takes none."""
        if self._body is None:
            limit, deadline = self._settings.body_limit_bytes, self._settings.request_deadline_seconds
            has_body = self.operation.body is not None or self.operation.takes_bytes
            if has_body:
                request_limits.check_coding(self.request)
            self._body = await request_limits.whole_body(self.request, limit, deadline) if has_body else b""
        return self._body

    async def work(self, caller: Caller, address: str) -> Response:
        """What the handler answers. Raises Problem."""
        operation, request = self.operation, self.request
        query = read_query(request.query, operation.query)
        media_type = wanted_media_type(operation, request.header(b"accept"), getattr(query, "format", None))
        body: Any = await self.body()
        if operation.body is not None and not operation.takes_bytes:
            body = read_body(body, request.header(b"content-type"), operation.body)
        result = await operation.handler(Request(query, body, self._parameters, caller, address, media_type, request))
        return result if isinstance(result, Response) else _encoded(result, operation)


def _encoded(result: Struct, operation: Endpoint) -> Response:
    body = msgspec.json.encode(result)
    if operation.method != "GET":
        return Response(body, cache_control="no-store")
    return Response(body, etag=etag_of(body))
