"""What can go wrong between us and a node: no usable answer, or a clear no."""

from tollhouse.errors import Problem
from tollhouse.logs import logger

log = logger("payments.chain")

RETRY_SECONDS = 5
CIRCUIT_IS_OPEN = "the circuit is open"


class ChainUnavailable(Problem):
    """An `upstream-unavailable` problem: the node did not answer, or not as a node should.

    `failure` says what happened without naming the node's address, which may hold an operator's token.
    """

    def __init__(self, failure: str) -> None:
        super().__init__(
            "upstream-unavailable",
            "The chain's node does not answer as it should. Nothing was changed; try again shortly.",
            headers={"Retry-After": str(RETRY_SECONDS)},
            upstream="chain",
            retry_after_seconds=RETRY_SECONDS,
        )
        self.failure = failure
        # What opened the circuit was told; each call that then goes without would only repeat it.
        if failure != CIRCUIT_IS_OPEN:
            log.warning("chain unavailable", failure=failure)


class ChainRefused(Exception):
    """The node understood and said no: a call that reverts, a transaction it will not take.

    `code` and `message` are the node's own; `data` is what a reverted call returned. None is fit for a stranger.
    """

    def __init__(self, code: int, message: str, data: bytes = b"") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data
