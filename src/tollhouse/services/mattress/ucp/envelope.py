"""What every UCP answer is wrapped in, and how what went wrong is told there."""

from typing import Any

import msgspec

from tollhouse.errors import Problem
from tollhouse.http import problem_response
from tollhouse.http.endpoint import JSON, ProblemForm, Response

VERSION = "2026-04-08"
CAPABILITIES = ("dev.ucp.shopping.catalog.search", "dev.ucp.shopping.catalog.lookup")

_UCP = {
    "version": VERSION,
    "status": "success",
    "capabilities": {name: [{"version": VERSION}] for name in CAPABILITIES},
}
# The protocol's own words for what callers may want to tell apart, and whether another request may succeed.
_CODES = {
    "not-found": "not_found",
    "invalid-body": "invalid_request",
    "invalid-parameter": "invalid_request",
    "missing-credentials": "identity_required",
    "tier-required": "insufficient_scope",
}
_FINAL = {"internal-error", "not-configured", "method-not-allowed"}
# The protocol's errors are closed at their root; their messages are open, so what a payer needs stands there.
_FOR_PAYERS = ("x402Version", "error", "accepts")


def success(**members: Any) -> Response:
    """An answer that carries what was asked for."""
    return Response(msgspec.json.encode({"ucp": _UCP, **members}), cache_control="no-store")


def failure(problem: Problem) -> Response:
    """A problem in the protocol's form (its error_response schema). That nothing was found is an outcome, hence 200."""
    message = {
        "type": "error",
        "code": _CODES.get(problem.code, problem.code.replace("-", "_")),
        "content": problem.detail,
        "severity": "unrecoverable" if problem.code in _FINAL else "recoverable",
        **_told_beside(problem.facts),
    }
    body = {"ucp": {"version": VERSION, "status": "error"}, "messages": [message]}
    status = 200 if problem.code == "not-found" else problem.status
    return Response(
        msgspec.json.encode(body), status=status, headers=problem_response.headers_of(problem), cache_control="no-store"
    )


FORM = ProblemForm(
    failure, JSON, {"type": "object", "description": "A UCP error response: https://ucp.dev/schemas/common/types/"}
)


def _told_beside(facts: dict[str, Any]) -> dict[str, Any]:
    """What helps to do better: the member that is wrong, how to pay, how long to wait."""
    x402 = {name: facts[name] for name in _FOR_PAYERS if name in facts}
    told = {name: value for name, value in facts.items() if name not in {"parameter", *_FOR_PAYERS}}
    path = {"path": f"$.{facts['parameter']}"} if "parameter" in facts else {}
    return {**told, **path, **({"x402": x402} if x402 else {})}


def info(code: str, content: str, path: str = "") -> dict[str, Any]:
    """Something a caller may want to know."""
    return {"type": "info", "code": code, "content": content, **({"path": path} if path else {})}
