"""How a payment is asked for: one answer in both versions of x402, the body for version 1, a header for version 2."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.payments.x402.header_parser import LONGEST_ID, PAYMENT_IDENTIFIER, SHORTEST_ID
from tollhouse.payments.x402.types import Requirement, Resource, VerificationFailure

REQUIRED_HEADER = "PAYMENT-REQUIRED"
NO_PAYMENT_TAKEN = "This server takes no payment yet."

_EXTENSIONS = {
    PAYMENT_IDENTIFIER: {
        "info": {"required": False},
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "required": {"type": "boolean"},
                "id": {
                    "type": "string",
                    "minLength": SHORTEST_ID,
                    "maxLength": LONGEST_ID,
                    "pattern": "^[a-zA-Z0-9_-]+$",
                },
            },
            "required": ["required"],
        },
    }
}


class Challenge(Struct, frozen=True):
    """What a 402 carries: `members` of its JSON body (version 1), `headers` (version 2)."""

    members: dict[str, Any]
    headers: dict[str, str]

    def problem(self, code: str, detail: str, **facts: Any) -> Problem:
        """The 402 itself."""
        return Problem(code, detail, headers=dict(self.headers), **facts, **self.members)


def challenge(resource: Resource, accepts: Sequence[Requirement], error: str) -> Challenge:
    """Ask for one of `accepts`; with none of them, say `error` and ask for nothing."""
    is_named_in_v1 = [one for one in accepts if one.network_v1 is not None]
    members = {"x402Version": 1, "error": error, "accepts": [one.v1(resource) for one in is_named_in_v1]}
    required = {
        "x402Version": 2,
        "error": error,
        "resource": {"url": resource.url, "description": resource.description, "mimeType": resource.mime_type},
        "accepts": [one.v2() for one in accepts],
        "extensions": _EXTENSIONS if accepts else {},
    }
    return Challenge(members, {REQUIRED_HEADER: as_header(required)})


def refusal(refused: VerificationFailure, again: Challenge) -> Problem:
    """The 402 for a payment that will not do, which asks for another one."""
    problem = again.problem("payment-invalid", refused.detail, reason=refused.reason)
    problem.headers |= dict(refused.headers)
    return problem


def as_header(members: Any) -> str:
    """JSON in standard base64, as every header of the protocol is written."""
    return b64encode(msgspec.json.encode(members)).decode()
