"""A circuit breaker: an upstream that fails again and again gets no requests for some seconds, then one."""

import asyncio
import math

from tollhouse.errors import Problem
from tollhouse.logs import logger

log = logger("proxy")

OPENS_AFTER = 5
OPEN_SECONDS = 10.0


class CircuitBreaker:
    """Of one upstream in one process. It opens after `opens_after` failures in a row, for `open_seconds`.

    Then one request is let through: its success closes it, its failure opens it again.
    """

    def __init__(self, name: str, opens_after: int = OPENS_AFTER, open_seconds: float = OPEN_SECONDS) -> None:
        self._name = name
        self._opens_after = opens_after
        self._open_seconds = open_seconds
        self._failures = 0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether requests are refused, but for one now and then."""
        return self._failures >= self._opens_after

    def check(self) -> None:
        """Let a request through. Raises Problem `upstream-suspended`."""
        if not self.is_open:
            return
        now = asyncio.get_running_loop().time()
        if now >= self._open_until:
            # The others wait until this one has its answer, or failed to get one in the same time.
            self._open_until = now + self._open_seconds
            return
        wait = max(1, math.ceil(self._open_until - now))
        raise Problem(
            "upstream-suspended",
            f"The upstream failed {self._failures} times in a row. Retry after {wait} s.",
            retry_after_seconds=wait,
            upstream=self._name,
        )

    def succeed(self) -> None:
        if self.is_open:
            log.info("upstream answers again", upstream=self._name)
        self._failures = 0

    def fail(self) -> None:
        self._failures += 1
        if self.is_open:
            self._open_until = asyncio.get_running_loop().time() + self._open_seconds
            log.warning("upstream suspended", upstream=self._name, failures=self._failures)
