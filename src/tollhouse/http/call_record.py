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
    kind, subject, name, plan = _caller(call, address)
    payment, micros = (call.payment, call.charged_micros) if call else ("", 0)
    if tracing.is_on():
        members = {"service": service, "operation": operation, "caller": kind, "plan": plan, "payment": payment}
        _describe(request, path, status, code, {f"tollhouse.{name}": value for name, value in members.items()})
    key = (service, operation, status, code, kind, plan, payment)
    recorder.count_call(key, seconds, ended, subject, name, micros)
    if recorder.accepts(status):
        outcome, about = (ended, seconds, status, code, detail), (service, operation, request.method, path, request.id)
        recorder.keep(RecordedCall(*outcome, *about, kind, subject, name, plan, payment, micros))


def _caller(call: Call | None, address: str) -> tuple[str, str, str, str]:
    """Kind, subject, name and plan of the caller."""
    caller = call.caller if call else None
    if isinstance(caller, KeyCaller):
        return "key", caller.key_id, caller.label or "", caller.tier
    if isinstance(caller, WalletCaller):
        return "wallet", caller.agent_id, caller.address, ""
    return "page" if isinstance(caller, VisitorCaller) else "address", address, "", ""


def _describe(request: HttpRequest, path: str, status: int, code: str, members: dict[str, str]) -> None:
    """Describe the span of the request. Of its path, only the template is named."""
    route = path if members["tollhouse.operation"] != UNROUTED else ""
    attributes = {"http.request.method": request.method, "http.route": route, "tollhouse.request_id": request.id}
    tracing.describe_request(f"{request.method} {route}".strip(), status, code, attributes | members)
