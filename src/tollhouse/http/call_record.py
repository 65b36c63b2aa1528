"""What the statistics keep of a request: its operation, outcome and caller."""

from tollhouse import tracing
from tollhouse.caller import KeyCaller, VisitorCaller, WalletCaller
from tollhouse.errors import Problem
from tollhouse.http.request import HttpRequest
from tollhouse.http.router import Call, Route
from tollhouse.statistics.recorder import FIRST_ERROR, RecordedCall, Recorder

UNROUTED = "unrouted"


def record_call(  # noqa: PLR0913, PLR0917 - everything that is known of a request at its end
    recorder: Recorder,
    request: HttpRequest,
    route: Route | None,
    call: Call | None,
    status: int,
    problem: Problem | None,
    address: str,
    seconds: float,
    ended: float,
) -> None:
    """Record a request. Of pages, files, descriptions and health checks that were answered only the number is kept."""
    code = detail = ""
    if status >= FIRST_ERROR:
        code, detail = (problem.code, problem.detail) if problem else (f"status-{status}", "")
    if route is None:
        service, operation, path = "", UNROUTED, request.path
    else:
        endpoint = route.endpoint
        service, operation, path = route.service.name, endpoint.id, route.prefix + endpoint.path
        if status < FIRST_ERROR and (not endpoint.is_described or endpoint.tag == "about"):
            # One name for all pages and files: the address of a file changes with every release.
            operation = operation.partition(" ")[0]
            recorder.count((service, operation, status, "", "", "", ""), seconds, ended)
            if tracing.is_on():
                _describe(
                    request, path, status, code, {"tollhouse.service": service, "tollhouse.operation": endpoint.id}
                )
            return
    kind, subject, name, plan, payment, micros = "address", address, "", "", "", 0
    if call is not None:
        payment, micros, caller = call.payment, call.charged_micros, call.caller
        if isinstance(caller, KeyCaller):
            kind, subject, name, plan = "key", caller.key_id, caller.label or "", caller.tier
        elif isinstance(caller, WalletCaller):
            kind, subject, name = "wallet", caller.agent_id, caller.address
        elif isinstance(caller, VisitorCaller):
            kind = "page"
    if tracing.is_on():
        members = {"service": service, "operation": operation, "caller": kind, "plan": plan, "payment": payment}
        _describe(request, path, status, code, {f"tollhouse.{name}": value for name, value in members.items()})
    recorder.record(
        RecordedCall(
            ended,
            seconds,
            status,
            code,
            detail,
            service,
            operation,
            request.method,
            path,
            request.id,
            kind,
            subject,
            name,
            plan,
            payment,
            micros,
        )
    )


def _describe(request: HttpRequest, path: str, status: int, code: str, members: dict[str, str]) -> None:
    """Describe the span of the request. Of its path, only the template is named."""
    route = path if members["tollhouse.operation"] != UNROUTED else ""
    attributes = {"http.request.method": request.method, "http.route": route, "tollhouse.request_id": request.id}
    tracing.describe_request(f"{request.method} {route}".strip(), status, code, attributes | members)
