"""What every UCP answer is wrapped in, and how what went wrong is told there."""

from typing import Any

import msgspec

from tollhouse.errors import Problem
from tollhouse.gate.operation import Answer

VERSION = "2026-04-08"
CAPABILITIES = ("dev.ucp.shopping.catalog.search", "dev.ucp.shopping.catalog.lookup")

_UCP = {
    "version": VERSION,
    "status": "success",
    "capabilities": {name: [{"version": VERSION}] for name in CAPABILITIES},
}
# The protocol's own words for what callers may want to tell apart.
_CODES = {"not-found": "not_found", "invalid-body": "invalid_request", "invalid-parameter": "invalid_request"}


def success(**members: Any) -> Answer:
    """An answer that carries what was asked for."""
    return Answer(msgspec.json.encode({"ucp": _UCP, **members}), cache_control="no-store")


def failure(problem: Problem) -> Answer:
    """A problem in the protocol's form (its error_response schema). That nothing was found is an outcome, hence 200."""
    member = problem.facts.get("parameter")
    message = {
        "type": "error",
        "code": _CODES.get(problem.code, problem.code.replace("-", "_")),
        "content": problem.detail,
        "severity": "recoverable" if problem.code in _CODES else "unrecoverable",
    }
    if member:
        message["path"] = f"$.{member}"
    body = {"ucp": {"version": VERSION, "status": "error"}, "messages": [message]}
    status = 200 if problem.code == "not-found" else problem.status
    return Answer(msgspec.json.encode(body), status=status, cache_control="no-store")


def info(code: str, content: str, path: str = "") -> dict[str, Any]:
    """Something a caller may want to know."""
    return {"type": "info", "code": code, "content": content, **({"path": path} if path else {})}
