"""Problem details (RFC 9457): every problem code with its status and title."""

from typing import Any

CODES: dict[str, tuple[int, str]] = {
    "invalid-parameter": (400, "Invalid parameter"),
    "invalid-body": (400, "Invalid body"),
    "invalid-request": (400, "Malformed request"),
    "ambiguous-credentials": (400, "Two kinds of credentials"),
    "deposit-invalid": (400, "Invalid deposit"),
    "invalid-webhook": (400, "Invalid webhook"),
    "tier-not-self-service": (400, "Plan requires payment"),
    "missing-credentials": (401, "Missing credentials"),
    "invalid-key": (401, "Invalid API key"),
    "payment-required": (402, "Payment required"),
    "insufficient-balance": (402, "Insufficient balance"),
    "payment-invalid": (402, "Invalid payment"),
    "invalid-visit": (401, "Invalid visit token"),
    "invalid-signature": (401, "Invalid signature"),
    "nonce-reused": (401, "Nonce reused"),
    "tier-required": (403, "Plan does not include this"),
    "origin-not-allowed": (403, "Host or origin not allowed"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "Method not allowed"),
    "not-acceptable": (406, "Not acceptable"),
    "request-timeout": (408, "Request timeout"),
    "deposit-pending": (409, "Deposit pending"),
    "deposit-conflict": (409, "Deposit credited to another wallet"),
    "already-subscribed": (409, "Already subscribed"),
    "key-rotated": (409, "Key already rotated"),
    "idempotency-conflict": (409, "Idempotency conflict"),
    "payload-too-large": (413, "Payload too large"),
    "uri-too-long": (414, "URI too long"),
    "unsupported-media-type": (415, "Unsupported media type"),
    "rate-limited": (429, "Rate limit exceeded"),
    "quota-exceeded": (429, "Daily quota exceeded"),
    "too-many-keys": (429, "Too many keys"),
    "headers-too-large": (431, "Headers too large"),
    "internal-error": (500, "Internal error"),
    "upgrade-not-supported": (501, "Protocol upgrade not supported"),
    "upstream-unavailable": (502, "Upstream unavailable"),
    "upstream-suspended": (503, "Upstream suspended"),
    "upstream-timeout": (504, "Upstream timeout"),
    "overloaded": (503, "Server overloaded"),
    "indexing": (503, "Table being indexed"),
    "not-configured": (503, "Not configured"),
    "payment-pending": (503, "Payment pending"),
    "payments-unavailable": (503, "Payments unavailable"),
    "storage-unavailable": (503, "Storage unavailable"),
}


class OperatorError(Exception):
    """A failure that the operator can mend. Commands print its message as one line and exit with 1."""


class Problem(Exception):
    """An error for the caller, rendered once by the server. `detail` must be safe to show to a stranger.

    `headers` belong to the problem, `Retry-After` where the facts have `retry_after_seconds`; `usage` are the headers
    about the caller's plan, which admission fills in.
    """

    def __init__(self, code: str, detail: str, *, headers: dict[str, str] | None = None, **facts: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.status, self.title = CODES[code]
        self.detail = detail
        self.headers = headers or {}
        if "retry_after_seconds" in facts:
            self.headers = {**self.headers, "Retry-After": str(facts["retry_after_seconds"])}
        self.facts = facts
        self.usage: list[tuple[bytes, bytes]] = []


def missing_credentials(detail: str) -> Problem:
    """A 401 for a request without credentials."""
    return Problem("missing-credentials", detail, headers={"WWW-Authenticate": "Bearer"})


def invalid_parameter(name: str, detail: str, allowed: list[str] | None = None) -> Problem:
    """A 400 that names the parameter, and the allowed values where the list is short."""
    facts: dict[str, Any] = {"parameter": name}
    if allowed:
        facts["allowed"] = allowed
    return Problem("invalid-parameter", detail, **facts)
