"""The ASGI application: one request in, one answer out, whatever happens in between."""

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter

import msgspec
from msgspec import Struct

from tollhouse.caller import Caller
from tollhouse.errors import Problem
from tollhouse.gate import guard, observing, problems
from tollhouse.gate.admission import Admission
from tollhouse.gate.answering import Headers, etag_of, send_answer
from tollhouse.gate.media import wanted_media_type
from tollhouse.gate.operation import Answer, Asked, Operation
from tollhouse.gate.reading import read_body, read_query
from tollhouse.gate.request import Receive, Request, Scope, Send
from tollhouse.gate.routing import Route, Router
from tollhouse.logs import logger
from tollhouse.settings import Settings

log = logger("gate")

_PREFLIGHT = (
    (b"access-control-allow-headers",
     b"Accept, Authorization, Content-Type, If-None-Match, X-Request-Id"),
    (b"access-control-max-age", b"86400"),
)  # fmt: skip


class Gate:
    """Every operation's way in. `hosts` gives a host name a router of its own; any other host gets `router`."""

    def __init__(self, settings: Settings, admission: Admission, router: Router, hosts: Mapping[str, Router]) -> None:
        self._settings = settings
        self._admission = admission
        self._router = router
        self._hosts = hosts
        # A log line that the level would drop still costs the making of it.
        self._tells_all = settings.log_level == "debug"

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; never raises for anything a client can send."""
        begun = perf_counter()
        request = Request(scope, receive)
        route: Route | None = None
        usage: Headers = []
        try:
            guard.check_head(request)
            router = self._router_for(request)
            if request.method == "OPTIONS":
                answer = _options(router.allowed(request.path))
            else:
                route, parameters = router.find(request)
                work = partial(self._answered, route.operation, request, parameters)
                answer, usage = await self._admission.admit(route.operation.terms, request, work)
        except Problem as problem:
            usage = problem.usage
            answer = problems.as_answer(problem, request.id)
        except Exception:
            log.exception("unexpected failure", request_id=request.id, path=request.path)
            answer = problems.as_answer(Problem("internal-error", _INTERNAL), request.id)
        status = await send_answer(answer, usage, request, send)
        seconds = perf_counter() - begun
        observing.count(route, status, seconds)
        if self._tells_all or observing.is_remarkable(status, seconds):
            observing.tell(request, route, status, seconds)

    def _router_for(self, request: Request) -> Router:
        if not self._hosts:
            return self._router
        host = request.header(b"host").partition(":")[0].lower()
        return self._hosts.get(host, self._router)

    async def _answered(
        self, operation: Operation, request: Request, parameters: dict[str, str], caller: Caller | None, address: str
    ) -> Answer:
        query = read_query(request.query, operation.query)
        media_type = wanted_media_type(operation, request.header(b"accept"), getattr(query, "format", None))
        body = None
        if operation.body is not None:
            raw = await guard.whole_body(
                request, self._settings.body_limit_bytes, self._settings.request_deadline_seconds
            )
            body = read_body(raw, request.header(b"content-type"), operation.body)
        result = await operation.handler(Asked(query, body, parameters, caller, address, media_type))
        return result if isinstance(result, Answer) else _encoded(result, operation)


_INTERNAL = "Something went wrong on this server. The request id finds it in the log."


def _encoded(result: Struct, operation: Operation) -> Answer:
    body = msgspec.json.encode(result)
    if operation.method != "GET":
        return Answer(body, cache_control="no-store")
    return Answer(body, etag=etag_of(body))


def _options(allowed: Sequence[str]) -> Answer:
    methods = ", ".join(allowed).encode()
    return Answer(
        b"", "text/plain", headers=((b"allow", methods), (b"access-control-allow-methods", methods), *_PREFLIGHT)
    )
