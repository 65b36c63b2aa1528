"""The ASGI application: one request in, one answer out, whatever happens in between."""

from collections.abc import Mapping, Sequence
from time import perf_counter

from tollhouse import failpoints
from tollhouse.admission.admission import Admission, Admitted
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http import metrics, problem_response, request_limits
from tollhouse.http.call import Call
from tollhouse.http.endpoint import Response
from tollhouse.http.request import HttpRequest, Receive, Scope, Send
from tollhouse.http.response_writer import send_answer
from tollhouse.http.router import Route, Router
from tollhouse.logs import logger

log = logger("http")

_SENT_BY_PAGES = (
    b"Accept, Authorization, Content-Type, If-None-Match, X-Agent-Address, X-Agent-Nonce, X-Agent-Signature, "
    b"X-Payment, Payment-Signature, X-Request-Id"
)
_PREFLIGHT = (
    (b"access-control-allow-headers", _SENT_BY_PAGES),
    (b"access-control-max-age", b"86400"),
)  # fmt: skip


class Server:
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
        request = HttpRequest(scope, receive)
        route: Route | None = None
        try:
            request_limits.check_head(request)
            router = self._router_for(request)
            if request.method == "OPTIONS":
                admitted = Admitted(_options(router.allowed(request.path)))
            else:
                route, parameters = router.find(request)
                admitted = await self._admission.admit(Call(self._settings, request, route, parameters))
        except Problem as problem:
            admitted = Admitted(_told(problem, route, request), problem.usage)
        except Exception:
            log.exception("unexpected failure", request_id=request.id, path=request.path)
            admitted = Admitted(_told(Problem("internal-error", _INTERNAL), route, request))
        await request_limits.drain(request)
        if admitted.is_paid:
            status = await _send_paid(admitted, request, send)
        else:
            status = await send_answer(admitted.answer, admitted.usage, request, send)
        seconds = perf_counter() - begun
        metrics.count(route, status, seconds)
        if self._tells_all or metrics.is_remarkable(status, seconds):
            metrics.tell(request, route, status, seconds)

    def _router_for(self, request: HttpRequest) -> Router:
        if not self._hosts:
            return self._router
        host = request.header(b"host").partition(":")[0].lower()
        return self._hosts.get(host, self._router)


_INTERNAL = "Something went wrong on this server. The request id finds it in the log."


def _told(problem: Problem, route: Route | None, request: HttpRequest) -> Response:
    form = route.operation.problem_form if route else None
    return form.render(problem) if form else problem_response.as_answer(problem, request.id)


async def _send_paid(admitted: Admitted, request: HttpRequest, send: Send) -> int:
    """Send what was paid for, and say so once it was handed over to a caller who was still there."""
    failpoints.reach("paid-answer.before-send")
    status = await send_answer(admitted.answer, admitted.usage, request, send)
    failpoints.reach("paid-answer.after-send")
    if not request.is_gone():
        admitted.delivered()
    return status


def _options(allowed: Sequence[str]) -> Response:
    methods = ", ".join(allowed).encode()
    return Response(
        b"", "text/plain", headers=((b"allow", methods), (b"access-control-allow-methods", methods), *_PREFLIGHT)
    )
