"""The exceptions of the client."""

from typing import Any

import msgspec


class TollhouseError(Exception):
    """What a call ends with if it has no answer."""


class SpendingLimitError(TollhouseError):
    """A payment was not signed: its price, network, token or recipient is outside the limit."""


class ProblemError(TollhouseError):
    """The server's problem (RFC 9457). `code` is stable; `members` are all of its members.

    `request_id` is in the server's log. `retry_after_seconds` is how long to wait, None if the server does not say.
    """

    def __init__(self, status: int, members: dict[str, Any], retry_after_seconds: int | None = None) -> None:
        self.status = status
        self.code = str(members.get("code", ""))
        self.detail = str(members.get("detail", ""))
        self.parameter: str | None = members.get("parameter")
        self.request_id = str(members.get("instance", ""))
        self.retry_after_seconds = retry_after_seconds
        self.members = members
        super().__init__(f"{status} {self.code}: {self.detail}" if self.code else f"{status}: not a problem document")


class InvalidRequestError(ProblemError):
    """400, 405, 406, 409, 413 or 415: the request cannot be served as it is."""


class AuthenticationError(ProblemError):
    """401: no key, an invalid one, or an invalid signature."""


class PaymentError(ProblemError):
    """402: the call needs a payment or credit, or the payment was refused."""


class ForbiddenError(ProblemError):
    """403: the key's plan does not include this call."""


class NotFoundError(ProblemError):
    """404."""


class RateLimitError(ProblemError):
    """429, with a longer wait than the client takes upon itself."""


class ServerError(ProblemError):
    """A status of 500 or more."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    401: AuthenticationError,
    402: PaymentError,
    403: ForbiddenError,
    404: NotFoundError,
    429: RateLimitError,
}


def problem_error(status: int, body: bytes, retry_after_seconds: int | None) -> ProblemError:
    """The exception for a response that is not a success."""
    try:
        members = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        members = {}
    default = ServerError if status >= 500 else InvalidRequestError
    return _BY_STATUS.get(status, default)(status, members, retry_after_seconds)
