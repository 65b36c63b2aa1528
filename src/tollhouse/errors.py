"""What can go wrong, as a caller sees it: every problem code, its status and its title."""

from typing import Any

CODES: dict[str, tuple[int, str]] = {
    "invalid-parameter": (400, "A parameter is malformed, unknown or out of range"),
    "invalid-body": (400, "The body is malformed or does not fit its schema"),
    "invalid-request": (400, "The request itself is malformed"),
    "ambiguous-credentials": (400, "The call carries two kinds of credentials"),
    "deposit-invalid": (400, "The transaction is no deposit of this wallet"),
    "invalid-webhook": (400, "The webhook is not signed by Stripe just now"),
    "tier-not-self-service": (400, "This tier is not given out by key creation"),
    "missing-credentials": (401, "This operation needs credentials"),
    "invalid-key": (401, "The API key is unknown, revoked or malformed"),
    "payment-required": (402, "The free allowance is used up; a payment continues it"),
    "insufficient-balance": (402, "The agent's balance is too small"),
    "payment-invalid": (402, "The payment will not do"),
    "invalid-signature": (401, "The call is not signed by a registered wallet"),
    "nonce-reused": (401, "The nonce was used before"),
    "tier-required": (403, "The key's tier may not do this"),
    "not-found": (404, "Nothing is here"),
    "method-not-allowed": (405, "This path does not know that method"),
    "not-acceptable": (406, "No offered format is acceptable"),
    "request-timeout": (408, "The request took too long to arrive"),
    "deposit-pending": (409, "The deposit is not confirmed yet"),
    "deposit-conflict": (409, "The deposit was credited to another wallet"),
    "already-subscribed": (409, "The key is paid for at this price already"),
    "idempotency-conflict": (409, "The identifier was used with something else"),
    "payload-too-large": (413, "The body is too large"),
    "uri-too-long": (414, "The address is too long"),
    "unsupported-media-type": (415, "The body has an unsupported media type"),
    "rate-limited": (429, "Too many requests in a short time"),
    "quota-exceeded": (429, "The day's requests are used up"),
    "too-many-keys": (429, "Too many keys"),
    "headers-too-large": (431, "The headers are too large"),
    "internal-error": (500, "The server failed"),
    "upstream-unavailable": (502, "A provider this answer depends on is unavailable"),
    "not-configured": (503, "This feature is not configured here"),
    "payment-pending": (503, "The payment is still being settled"),
    "storage-unavailable": (503, "The server cannot reach or write its storage"),
}


class OperatorError(Exception):
    """A failure that the operator can mend. Commands print its message as one line and exit with 1."""


class Problem(Exception):
    """Raised anywhere, rendered once, by the gate. `detail` must be safe to show to a stranger.

    `headers` belong to the problem; `usage` are the headers about the caller's plan, which admission fills in.
    """

    def __init__(self, code: str, detail: str, *, headers: dict[str, str] | None = None, **facts: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.status, self.title = CODES[code]
        self.detail = detail
        self.headers = headers or {}
        self.facts = facts
        self.usage: list[tuple[bytes, bytes]] = []


def invalid_parameter(name: str, detail: str, allowed: list[str] | None = None) -> Problem:
    """A 400 that names the parameter, and what it may be where that is a short list."""
    facts: dict[str, Any] = {"parameter": name}
    if allowed:
        facts["allowed"] = allowed
    return Problem("invalid-parameter", detail, **facts)
