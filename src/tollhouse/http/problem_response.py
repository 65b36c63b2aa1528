"""How a problem is written: application/problem+json (RFC 9457), one shape for everything."""

from typing import Any

import msgspec

from tollhouse.errors import CODES, Problem
from tollhouse.http.endpoint import Response

MEDIA_TYPE = "application/problem+json"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "What went wrong (RFC 9457). `code` is stable; `type` is the page on this server that explains it.",
    "required": ["type", "title", "status", "detail", "instance", "code"],
    "properties": {
        "type": {
            "type": "string",
            "description": "Path of the page about this code",
            "examples": ["/problems/rate-limited"],
        },
        "title": {"type": "string", "examples": [CODES["rate-limited"][1]]},
        "status": {"type": "integer"},
        "detail": {"type": "string", "examples": ["The next request fits in 3 s."]},
        "instance": {"type": "string", "description": "The request id"},
        "code": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "examples": ["rate-limited"]},
        "parameter": {"type": "string", "description": "The parameter or member that is wrong"},
        "retry_after_seconds": {"type": "integer", "minimum": 1},
        "allowed": {"type": "array", "items": {"type": "string"}, "description": "What would be accepted"},
    },
    "additionalProperties": True,
}


def as_answer(problem: Problem, request_id: str) -> Response:
    """The problem as an answer, its own headers included."""
    members = {
        "type": f"/problems/{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": request_id,
        "code": problem.code,
        **problem.facts,
    }
    return Response(
        msgspec.json.encode(members),
        MEDIA_TYPE,
        headers=headers_of(problem),
        status=problem.status,
        cache_control="no-store",
    )


def headers_of(problem: Problem) -> tuple[tuple[bytes, bytes], ...]:
    """The problem's own headers, as an answer carries them."""
    return tuple((name.lower().encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items())
