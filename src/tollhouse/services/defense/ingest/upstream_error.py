"""What can go wrong between us and a provider, as one error with a reason that machines can tell apart."""

from typing import Literal

from tollhouse.errors import Problem

Failure = Literal["timeout", "network", "too-large", "encoding", "redirect", "address", "status", "denied", "malformed"]


class UpstreamFailure(Problem):
    """An `upstream-unavailable` problem. `retry_after_seconds` is what the provider asked for, if it did.

    `detail` names the host at most: addresses may carry an operator's secrets.
    """

    def __init__(self, failure: Failure, detail: str, retry_after_seconds: float | None = None) -> None:
        super().__init__("upstream-unavailable", detail)
        self.failure = failure
        self.retry_after_seconds = retry_after_seconds
